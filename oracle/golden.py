"""Regenerates the committed goldens: `golden.py --wgoose BINARY`.

A golden is what a test needs that has no Python at hand: reference logits at a few positions, the last layer's final
state, and the hash of the model file they belong to.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from blake3 import blake3
from safetensors import safe_open
from safetensors.numpy import save_file

import fixture
import package
from models import FIXTURE, GOLDENS, MODELS, tokens
from weights import load

# Both ends, the first steps, and either side of the powers of two at which prefill chunks end.
POSITIONS = [0, 1, 2, 7, 31, 63, 127, 128, 200, 299]


def golden(path: Path) -> dict[str, np.ndarray]:
    """The reference on one model file."""
    weights = load(path)
    ids = tokens(weights["emb.weight"].shape[0])
    logits, state = package.run(weights, ids)
    last = len(state) // 3 - 1
    rms = [[np.sqrt(np.mean(state[f"blocks.{i}.{part}"] ** 2)) for part in package.PARTS] for i in range(last + 1)]
    return {
        "tokens": np.array(ids, np.int32),
        "positions": np.array(POSITIONS, np.int32),
        "logits": logits[POSITIONS],
        "state_rms": np.array(rms, np.float32),  # [layers, (att_shift, wkv, ffn_shift)]
        **{name: part for name, part in state.items() if name.startswith(f"blocks.{last}.")},
    }


def store(path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> str:
    """Writes a golden unless the old one still says the same: rounding of another machine is no change."""
    if path.exists():
        with safe_open(path, framework="numpy") as old:
            same = set(old.keys()) == set(arrays) and all(
                old.get_tensor(k).shape == a.shape and np.allclose(old.get_tensor(k), a, rtol=1e-4, atol=1e-5)
                for k, a in arrays.items()
            )
            if same and all(old.metadata().get(key) == metadata[key] for key in ("blake3", "synth")):
                return "unchanged"
    save_file(arrays, path, metadata)
    return "written"


def main() -> None:
    """Makes every model of the table and stores its golden."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wgoose", type=Path, required=True, help="the built command-line tool")
    args = parser.parse_args()
    GOLDENS.mkdir(exist_ok=True)
    if not FIXTURE.exists():
        fixture.save(FIXTURE)
    with tempfile.TemporaryDirectory() as folder:
        made = {model.name: (model.make(args.wgoose, Path(folder)), model.arguments()) for model in MODELS}
        made[FIXTURE.stem] = (FIXTURE, [])
        for name, (path, arguments) in made.items():
            metadata = {
                "blake3": blake3(path.read_bytes()).hexdigest(),
                "synth": json.dumps(arguments),
                "source": f"rwkv {version('rwkv')}, cpu fp32",
            }
            outcome = store(GOLDENS / f"{name}.safetensors", golden(path), metadata)
            print(f"{name}: {outcome}")
    for path in GOLDENS.glob("*.safetensors"):
        if path.stem not in made:
            path.unlink()
            print(f"{path.stem}: removed, no longer in the table")


if __name__ == "__main__":
    main()
