"""Holds `wgoose convert` against PyPI's `gguf`: `conversion.py --wgoose BINARY`.

Checkpoints become GGUF files in every mix. Each must have the tensors that llama.cpp's architecture table names, of the
shapes its loader asks for, the keys its converter writes, the vocabulary, and the source's numbers.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from pathlib import Path

import rwkv
import torch
from gguf import GGUFReader
from gguf.constants import MODEL_ARCH, MODEL_TENSORS, TENSOR_NAMES, GGMLQuantizationType, LlamaFileType

from models import FIXTURE, Model
from weights import Weights, load

ROOT = Path(__file__).parent.parent
VOCABULARY = Path(rwkv.__file__).with_name("rwkv_vocab_v20230424.txt")
TEMPLATE = ROOT / "crates" / "loader" / "src" / "writer" / "gguf" / "chat_template.jinja"
# What a vocabulary with a token for an empty line brings.
CHAT = {"tokenizer.ggml.eot_token_id": 261, "tokenizer.chat_template": TEMPLATE.read_text()}
# Per mix: llama.cpp's file type, type of the matrices and of the head, and the largest relative rms error of a tensor
# (of normal numbers; half a step of the format, and its scales).
MIXES = {
    "F32": (LlamaFileType.ALL_F32, "F32", "F32", 0.0),
    "F16": (LlamaFileType.MOSTLY_F16, "F16", "F16", 5e-4),
    "BF16": (LlamaFileType.MOSTLY_BF16, "BF16", "BF16", 4e-3),
    "Q8_0": (LlamaFileType.MOSTLY_Q8_0, "Q8_0", "Q8_0", 8e-3),
    "Q4_0": (LlamaFileType.MOSTLY_Q4_0, "Q4_0", "Q4_0", 1.2e-1),
    "Q4_K_M": (LlamaFileType.MOSTLY_Q4_K_M, "Q4_K", "Q6_K", 1e-1),
    "Q5_K_M": (LlamaFileType.MOSTLY_Q5_K_M, "Q5_K", "Q6_K", 5e-2),
    "Q6_K": (LlamaFileType.MOSTLY_Q6_K, "Q6_K", "Q6_K", 3e-2),
}


def expect(what: str, got: object, wanted: object) -> None:
    """Raises `ValueError` where two things differ."""
    if got != wanted:
        raise ValueError(f"{what}: {got}, expected {wanted}")


def names(layers: int) -> set[str]:
    """Stems of all tensors of the architecture, as llama.cpp names them."""
    stems = [TENSOR_NAMES[tensor] for tensor in MODEL_TENSORS[MODEL_ARCH.RWKV7]]
    return {stem.format(bid=i) for stem in stems for i in range(layers)}


def shapes(weights: Weights) -> dict[str, list[int]]:
    """Sizes that llama.cpp's loader asks for, fastest first: those that a checkpoint does not have the same way."""
    width = weights["emb.weight"].shape[1]
    ranks = {name: weights[f"blocks.{i}.att.{name}1"].shape[1] for name, i in {"w": 0, "a": 0, "v": 1, "g": 0}.items()}
    wanted = {"blk.1.time_mix_lerp_fused.weight": [width, 1, 1, 6], "blk.1.time_mix_r_k.weight": [width]}
    for name, rank in ranks.items():
        wanted |= {f"blk.1.time_mix_{name}1.weight": [width, rank], f"blk.1.time_mix_{name}2.weight": [rank, width]}
    # Never used, and of the rank of the in-context learning rate.
    return wanted | {"blk.0.time_mix_v1.weight": [width, ranks["a"]], "blk.0.time_mix_v2.weight": [ranks["a"], width]}


def keys(weights: Weights, layers: int, name: str, file_type: LlamaFileType) -> dict[str, object]:
    """Keys and values that llama.cpp's converter writes."""
    (vocab, width), (ffn, _) = weights["emb.weight"].shape, weights["blocks.0.ffn.key.weight"].shape
    ranks = {"decay": "blocks.0.att.w1", "iclr": "blocks.0.att.a1", "value_residual_mix": "blocks.1.att.v1"}
    ranks["gate"] = "blocks.0.att.g1"
    return {
        "general.architecture": "rwkv7",
        "general.type": "model",
        "general.name": name,
        "general.file_type": int(file_type),
        "rwkv7.context_length": 1048576,
        "rwkv7.embedding_length": width,
        "rwkv7.block_count": layers,
        "rwkv7.feed_forward_length": ffn,
        "rwkv7.wkv.head_size": weights["blocks.0.att.r_k"].shape[1],
        "rwkv7.attention.head_count": 0,
        **{f"rwkv7.attention.{kind}_lora_rank": weights[tensor].shape[1] for kind, tensor in ranks.items()},
        "tokenizer.ggml.model": "rwkv",
        "tokenizer.ggml.tokens": tokens(vocab),
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        **(CHAT if vocab > 261 else {}),
    }


def tokens(vocab: int) -> list[str]:
    """The World vocabulary as llama.cpp's files spell it, for that many rows."""
    spelled = ["<s>"]
    for line in VOCABULARY.read_text(encoding="utf-8").splitlines():
        token = ast.literal_eval(line[line.index(" ") : line.rindex(" ")].strip())
        spelled.append(repr(token.encode() if isinstance(token, str) else token)[2:-1])
    return [*spelled, *(f"[PAD{i}]" for i in range(len(spelled), vocab))][:vocab]


def check(source: Path, mix: str, copy: Path) -> float:
    """Compares a converted file with its source; the largest relative rms error of a tensor."""
    file_type, matrix, head, allowed = MIXES[mix]
    weights, reader = load(source), GGUFReader(copy)
    layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    expect("tensors", {name.rsplit(".", 1)[0] for name in tensors}, names(layers))
    for name, shape in shapes(weights).items():
        expect(f"shape of {name}", tensors[name].shape.tolist(), shape)
    adapters = matrix if matrix in ("F32", "F16", "BF16") else "F16"
    types = {"token_embd": matrix, "output": head, "blk.1.channel_mix_value": matrix, "blk.1.time_mix_g2": adapters}
    types |= {"blk.1.time_mix_w2": "F32", "blk.0.time_mix_lerp_fused": "F32", "blk.1.attn_norm": "F32"}
    for stem, kind in types.items():
        expect(f"type of {stem}", tensors[f"{stem}.weight"].tensor_type, GGMLQuantizationType[kind])
    for key, value in keys(weights, layers, source.stem, file_type).items():
        expect(key, reader.fields[key].contents(), value)
    copied = load(copy)
    expect("weights", copied.keys(), weights.keys())
    worst = 0.0
    for name, wanted in weights.items():
        difference = copied[name].double().flatten() - wanted.double().flatten()
        worst = max(worst, float(difference.norm() / wanted.double().norm()))
    if not worst <= allowed:
        raise ValueError(f"an error of {worst:.1e}, allowed {allowed:g}")
    return worst


def sources(wgoose: Path, folder: Path) -> list[Path]:
    """A .st whose rows fit every mix, a .pth of the same, and the committed checkpoint."""
    wide = {"layers": 2, "width": 256, "vocab": 1000}
    models = [Model("wide-st", "F32", container="st", seed=11, **wide)]
    models += [Model("wide-pth", "BF16", container="pth", seed=12, **wide)]
    return [model.make(wgoose, folder) for model in models] + [FIXTURE]


def main() -> None:
    """Runs every source through every mix its rows allow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wgoose", type=Path, required=True, help="the built command-line tool")
    args = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source in sources(args.wgoose, folder):
            for mix in MIXES:
                if source == FIXTURE and "_K" in MIXES[mix][1]:
                    continue  # its rows are no whole blocks of 256
                copy = folder / "copy.gguf"
                try:
                    options = ["--to", mix, "--force", "--check", "--vocab", "world"]
                    command = [args.wgoose, "convert", source, copy, *options]
                    subprocess.run(command, check=True, text=True, capture_output=True)
                    print(f"{source.name:<14} {mix:<7} {check(source, mix, copy):.1e} ok", flush=True)
                except (subprocess.CalledProcessError, ValueError, KeyError) as failed:
                    failures += 1
                    print(f"{source.name:<14} {mix:<7} FAILED: {getattr(failed, 'stderr', None) or failed}", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    with torch.no_grad():
        main()
