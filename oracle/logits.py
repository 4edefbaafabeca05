"""Writes the reference logits of a model for a token sequence: `logits.py MODEL --tokens ids.json --out logits.npy`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import package
from weights import load


def main() -> None:
    """Runs the package on one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help=".pth, .st or .gguf")
    parser.add_argument("--tokens", type=Path, required=True, help="JSON list of token ids")
    parser.add_argument("--out", type=Path, required=True, help="float32 logits [tokens, vocab] as .npy")
    parser.add_argument("--state-out", type=Path, help="final state as .safetensors")
    args = parser.parse_args()
    logits, state = package.run(load(args.model), json.loads(args.tokens.read_text()))
    np.save(args.out, logits)
    if args.state_out:
        save_file(state, args.state_out)


if __name__ == "__main__":
    main()
