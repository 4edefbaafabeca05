"""Rewrites a .st or .gguf model as a PyTorch checkpoint: `to_pth.py MODEL OUT.pth`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch

from weights import load

# Checkpoints hold these vectors as (1, 1, C).
VECTOR = re.compile(r".*\.(x_[rwkvag]|w0|a0|v0|s0|k_k|k_a)")


def convert(source: Path, target: Path) -> None:
    """Keeps float types as they are; quantised tensors become float32."""
    weights = load(source)
    torch.save({k: t.reshape(1, 1, -1) if VECTOR.fullmatch(k) else t for k, t in weights.items()}, target)


def main() -> None:
    """Converts one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help=".st or .gguf")
    parser.add_argument("out", type=Path, help=".pth")
    args = parser.parse_args()
    convert(args.model, args.out)


if __name__ == "__main__":
    main()
