"""Compares two sets of logits: `compare.py A.npy B.npy [--rms TOL] [--first TOL]`; B is the reference."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Difference:
    """How far logits lie from the reference. Errors are rms of the difference over rms of the reference, per position.

    Position 0 stands apart: its state is of rank one and the head norm amplifies any rounding.
    """

    first: float
    worst: float
    worst_at: int
    median: float
    largest: float
    """Largest absolute difference of one logit, over all positions."""
    kl: float
    """Mean over positions of KL(reference || other) in nats."""

    def within(self, rms: float, first: float) -> bool:
        """Whether the worst position and position 0 keep to their tolerances; NaN never does."""
        return self.first <= first and self.worst <= rms

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"t=0 {self.first:.2e}   t>0 worst {self.worst:.2e} (t={self.worst_at}) median {self.median:.2e}"
            f"   max {self.largest:.2e}   KL {self.kl:.2e}"
        )


def relative_rms(a: np.ndarray, b: np.ndarray, axis: int | None = None) -> np.ndarray:
    """The rms of a - b over the rms of b, along `axis` or over everything."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.sqrt(np.mean((a - b) ** 2, axis) / np.mean(b**2, axis))


def compare(logits: np.ndarray, reference: np.ndarray) -> Difference:
    """Compares logits [tokens, vocab]; raises `ValueError` when the shapes differ."""
    if logits.shape != reference.shape:
        raise ValueError(f"logits {logits.shape} against reference {reference.shape}")
    errors = relative_rms(logits, reference, axis=1)
    later = errors[1:] if len(errors) > 1 else errors
    p, q = log_softmax(reference), log_softmax(logits)
    return Difference(
        first=float(errors[0]),
        worst=float(later.max()),
        worst_at=len(errors) - len(later) + int(later.argmax()),
        median=float(np.median(later)),
        largest=float(np.abs(logits - reference).max()),
        kl=float((np.exp(p) * (p - q)).sum(1).mean()),
    )


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Row-wise log softmax in float64."""
    shifted = logits.astype(np.float64) - logits.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def main() -> None:
    """Prints the difference; exits with 1 beyond a tolerance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logits", type=Path)
    parser.add_argument("reference", type=Path)
    parser.add_argument("--rms", type=float, default=np.inf, help="tolerance of the worst position after the first")
    parser.add_argument("--first", type=float, default=np.inf, help="tolerance of position 0")
    args = parser.parse_args()
    difference = compare(np.load(args.logits), np.load(args.reference))
    print(difference)
    sys.exit(not difference.within(args.rms, args.first))


if __name__ == "__main__":
    main()
