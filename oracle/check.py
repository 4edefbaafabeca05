"""Compares `wgoose dev logits` with the reference, run live on the same files: `check.py --wgoose BINARY`.

Every model of the table and the committed checkpoint, on every backend; exits with 1 when one is out of tolerance.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

import forward
import package
from compare import compare, relative_rms
from models import FIXTURE, MODELS, tokens
from weights import load

# (worst position, position 0), rms-relative. Everything below accumulates in float32 over the same weights; sums are
# ordered differently, and position 0 is ill-conditioned by about a factor of ten.
TOLERANCES = {"float64": (1e-5, 1e-4), "cpu": (1e-4, 1e-3), "gpu": (1e-3, 1e-2)}
Result = tuple[np.ndarray, package.State]
ROW = "{:<14} {:<8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}"


class Check:
    """One comparison after another, printed as rows of a table."""

    def __init__(self) -> None:
        """Prints the head of the table."""
        self.failures = 0
        print(ROW.format("model", "backend", "t=0", "t>0 worst", "median", "max", "KL", "state", "verdict"))

    def row(self, model: str, backend: str, got: Result, reference: Result) -> None:
        """Compares logits and final state."""
        rms, first = TOLERANCES[backend]
        difference = compare(got[0], reference[0])
        if got[1].keys() != reference[1].keys():
            raise ValueError(f"{model}, {backend}: state tensors {sorted(got[1])}, expected {sorted(reference[1])}")
        state = max(float(relative_rms(part, reference[1][name])) for name, part in got[1].items())
        good = difference.within(rms, first) and state <= rms
        self.failures += not good
        numbers = (difference.first, difference.worst, difference.median, difference.largest, difference.kl, state)
        verdict = "ok" if good else f"FAILED: allowed {first:g} at t=0, else {rms:g}; worst at t={difference.worst_at}"
        print(ROW.format(model, backend, *(f"{number:.1e}" for number in numbers), verdict), flush=True)

    def error(self, model: str, backend: str, message: str) -> None:
        """A run that gave no numbers."""
        self.failures += 1
        print(f"{model:<14} {backend:<8} FAILED: {message}", flush=True)


def wgoose(binary: Path, model: Path, ids: list[int], backend: str, folder: Path) -> Result:
    """Logits and state from the tool under test."""
    token_file, logits, state = folder / "tokens.json", folder / "logits.npy", folder / "state.safetensors"
    token_file.write_text(json.dumps(ids))
    files = ["--tokens", token_file, "--out", logits, "--state-out", state]
    command = [binary, "dev", "logits", model, *files, "--backend", backend]
    subprocess.run(command, check=True, text=True, capture_output=True)
    return np.load(logits), load_file(state)


def main() -> None:
    """Runs the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wgoose", type=Path, required=True, help="the built command-line tool")
    parser.add_argument("--backend", action="append", choices=["cpu", "gpu"], help="default: both")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {model.name: model.make(args.wgoose, folder) for model in MODELS} | {"tiny": FIXTURE}
        check = Check()
        for model, path in paths.items():
            weights = load(path)
            ids = tokens(weights["emb.weight"].shape[0])
            reference = package.run(weights, ids)
            check.row(model, "float64", forward.run(weights, ids), reference)
            for backend in args.backend or ["cpu", "gpu"]:
                try:
                    check.row(model, backend, wgoose(args.wgoose, path, ids, backend, folder), reference)
                except subprocess.CalledProcessError as failed:
                    check.error(model, backend, failed.stderr.strip() or f"exit status {failed.returncode}")
                except ValueError as mismatch:
                    check.error(model, backend, str(mismatch))
    print(f"{check.failures} failed" if check.failures else "all within tolerance")
    sys.exit(check.failures > 0)


if __name__ == "__main__":
    main()
