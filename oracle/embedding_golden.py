"""Regenerates the golden of embedding models: `embedding_golden.py --wgoose BINARY`.

The reference is PyPI's `rwkv-emb`, the package of EmbeddingRWKV. It runs on CUDA in f16 only; here it runs on the CPU
in float32, its source changed in the lines of `CHANGES` and its CUDA kernel replaced by `time_mix`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import torch
from blake3 import blake3

from golden import store
from models import GOLDENS, tokens
from weights import Weights, load

GOLDEN = GOLDENS / "embedding" / "heads.safetensors"
TASKS = ("cls", "sts", "retr")
# Three lengths: two tokens with the one that ends a text, some, and more than a chunk of the CPU reference.
LENGTHS = (1, 9, 150)
VOCAB, END = 65536, 65535
SYNTH = ["--layers", "2", "--width", "64", "--ffn", "128", "--vocab", str(VOCAB), "--head-size", "64"]
SYNTH += ["--ranks", "32,24,16,48", "--mix", "F16", "--seed", "12"]

# What keeps the package from running on the CPU in float32.
CHANGES = (
    ("MyModule = torch.jit.ScriptModule", "MyModule = torch.nn.Module"),
    ("MyFunction = torch.jit.script_method", "MyFunction = lambda function: function"),
    ("MyStatic = torch.jit.script", "MyStatic = lambda function: function"),
    ("DTYPE = torch.half", "DTYPE = torch.float"),
    ('device="cuda"', 'device="cpu"'),
)


def time_mix(state: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    """`kernel_forward` of the package's `rwkv7_state_fwd_fp16.cu`: [T, C] inputs, a state [H, value, key] to update."""
    heads, size, _ = state.shape
    r, w, k, v, a, b = (x.view(-1, heads, size) for x in inputs)
    rows = []
    for t in range(len(r)):
        seen = torch.einsum("hij,hj->hi", state, a[t])
        decay = torch.exp(-0.6065306597 * w[t])
        added = torch.einsum("hi,hj->hij", seen, b[t]) + torch.einsum("hi,hj->hij", v[t], k[t])
        state.copy_(state * decay[:, None, :] + added)
        rows.append(torch.einsum("hij,hj->hi", state, r[t]).flatten())
    return torch.stack(rows)


def package() -> ModuleType:
    """The package's `model` module, with its RWKV-7 on the CPU."""
    spec = importlib.util.find_spec("rwkv_emb")
    source = Path(spec.submodule_search_locations[0]) / "reference" / "rwkv7.py"
    text = source.read_text()
    for own, changed in CHANGES:
        if own not in text:
            raise ValueError(f"{source}: there is no '{own}'")
        text = text.replace(own, changed)
    body = ModuleType("rwkv_emb.reference.rwkv7")
    body.__file__ = str(source)
    with mock.patch("torch.utils.cpp_extension.load"):
        exec(compile(text, source, "exec"), body.__dict__)  # noqa: S102
    body.RWKV7_OP = time_mix
    # Images need it; texts do not.
    images = mock.MagicMock()
    with mock.patch.dict(sys.modules, {body.__name__: body, "transformers": images}):
        return importlib.import_module("rwkv_emb.model")


def heads(width: int, random: torch.Generator) -> Weights:
    """Three heads in f16, none of which is the identity that training begins with."""
    made: Weights = {}
    for task in TASKS:
        for part in ("fc1", "fc2"):
            made[f"head.{task}_head.{part}.weight"] = torch.randn(width, width, generator=random) / width**0.5
        made[f"head.{task}_head.norm.weight"] = 1 + 0.2 * torch.randn(width, generator=random)
        made[f"head.{task}_head.norm.bias"] = 0.2 * torch.randn(width, generator=random)
    return {name: tensor.half() for name, tensor in made.items()}


def golden(body: Weights, made: Weights) -> dict[str, np.ndarray]:
    """The embeddings of some texts by each head, beside the heads."""
    checkpoint = {f"rwkv.{name}": tensor for name, tensor in body.items() if name != "head.weight"} | made
    with mock.patch.object(torch, "load", return_value=checkpoint):
        model = package().EmbeddingRWKV("weights in memory")
    ids = tokens(END, sum(LENGTHS))
    texts = [ids[sum(LENGTHS[:i]) :][:length] for i, length in enumerate(LENGTHS)]

    def embed(text: list[int], task: str) -> torch.Tensor:
        return model.forward([*text, END], None, task_type=f"[{task.upper()}]")[0].flatten()

    rows = {task: torch.stack([embed(text, task) for text in texts]).numpy() for task in TASKS}
    if any(row.dtype != np.float32 for row in rows.values()):
        raise TypeError("the reference left float32 on the way")
    arrays = {name: tensor.numpy() for name, tensor in made.items()}
    return {"tokens": np.array(ids, np.int32), "lengths": np.array(LENGTHS, np.int32), **arrays, **rows}


def main() -> None:
    """Makes the model, and stores its golden."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wgoose", type=Path, required=True, help="the built command-line tool")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "body.st"
        subprocess.run([args.wgoose, "dev", "synth", path, *SYNTH], check=True, stdout=subprocess.DEVNULL)
        body = load(path)
        arrays = golden(body, heads(body["emb.weight"].shape[1], torch.Generator().manual_seed(13)))
        metadata = {
            "blake3": blake3(path.read_bytes()).hexdigest(),
            "synth": json.dumps(SYNTH),
            "source": f"rwkv-emb {version('rwkv-emb')}, cpu fp32",
        }
    GOLDEN.parent.mkdir(exist_ok=True)
    print(f"embedding heads: {store(GOLDEN, arrays, metadata)}")


if __name__ == "__main__":
    main()
