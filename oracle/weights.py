"""Reads the weights of an RWKV-7 model from any container, under the names and orientations of a .pth file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFReader, dequantize
from safetensors.torch import load_file

Weights = dict[str, torch.Tensor]

# GGUF names outside the layers and inside them; `.weight` or `.bias` is kept.
GGUF_TOP = {
    "token_embd": "emb",
    "output": "head",
    "token_embd_norm": "blocks.0.ln0",
    "output_norm": "ln_out",
}
GGUF_LAYER = {
    "attn_norm": "ln1",
    "attn_norm_2": "ln2",
    "time_mix_ln": "att.ln_x",
    "time_mix_receptance": "att.receptance",
    "time_mix_key": "att.key",
    "time_mix_value": "att.value",
    "time_mix_output": "att.output",
    "channel_mix_key": "ffn.key",
    "channel_mix_value": "ffn.value",
}
# GGUF gives these a `.weight` that the canonical name lacks.
GGUF_VECTOR = {"w0", "a0", "v0", "k_k", "k_a", "r_k"}
LORA = re.compile(r"blocks\.\d+\.(?:att\.[wavg]|ffn\.s)([12])$")
MIXES = "rwkvag"


def load(path: Path) -> Weights:
    """Reads a .pth, .st or .gguf file; raises `ValueError` for another suffix.

    Floats keep their type; quantised tensors are dequantised to float32. The first layer's value residual
    (`v0`, `v1`, `v2`) is dropped: the model has no use for it and files hold anything there.
    """
    if path.suffix == ".pth":
        weights = torch.load(path, map_location="cpu")
    elif path.suffix in (".st", ".safetensors"):
        weights = _orient(load_file(path))
    elif path.suffix == ".gguf":
        weights = _from_gguf(path)
    else:
        raise ValueError(f"{path}: not a .pth, .st or .gguf file")
    return {name: tensor for name, tensor in weights.items() if not re.fullmatch(r"blocks\.0\.att\.v[012]", name)}


def _orient(weights: Weights) -> Weights:
    """Turns adapter halves to (C, rank) and (rank, C), of DeepEmbed (rank, F), whichever way they were stored."""
    width, ffn = weights["emb.weight"].shape[1], weights["blocks.0.ffn.key.weight"].shape[0]

    def turned(name: str, tensor: torch.Tensor) -> torch.Tensor:
        half = LORA.fullmatch(name)
        wide = tensor.shape[0 if half and half[1] == "1" else -1]
        expected = ffn if name.endswith(".ffn.s2") else width
        return tensor.t().contiguous() if half and wide != expected else tensor

    return {name: turned(name, tensor) for name, tensor in weights.items()}


def _from_gguf(path: Path) -> Weights:
    reader = GGUFReader(path)
    head_size = int(reader.fields["rwkv7.wkv.head_size"].contents())
    weights: Weights = {}
    for tensor in reader.tensors:
        values = _values(tensor.data, tensor.tensor_type)
        for name, part in _canonical(tensor.name, values, head_size):
            weights[name] = part.contiguous()
    return weights


def _values(data: np.ndarray, kind: GGMLQuantizationType) -> torch.Tensor:
    """One tensor in file order (slowest dimension first); bf16 is exact in float32, so it goes that way."""
    if kind in (GGMLQuantizationType.F32, GGMLQuantizationType.F16):
        return torch.from_numpy(data.copy())
    values = torch.from_numpy(dequantize(data, kind))
    return values.bfloat16() if kind == GGMLQuantizationType.BF16 else values


def _canonical(name: str, values: torch.Tensor, head_size: int) -> list[tuple[str, torch.Tensor]]:
    """The canonical tensors in one GGUF tensor: the six mixes of the time mix are fused into one."""
    layer = re.fullmatch(r"blk\.(\d+)\.(.+)\.(weight|bias)", name)
    if not layer:
        stem, kind = name.rsplit(".", 1)
        return [(f"{GGUF_TOP[stem]}.{kind}", values)]
    block, stem, kind = f"blocks.{layer[1]}", layer[2], layer[3]
    if stem == "time_mix_lerp_fused":
        parts = values.reshape(len(MIXES), -1)
        return [(f"{block}.att.x_{mix}", part) for mix, part in zip(MIXES, parts, strict=True)]
    if stem == "channel_mix_lerp_k":
        return [(f"{block}.ffn.x_k", values.flatten())]
    if stem in GGUF_LAYER:
        return [(f"{block}.{GGUF_LAYER[stem]}.{kind}", values)]
    short = stem.removeprefix("time_mix_")
    if short == "r_k":
        values = values.reshape(-1, head_size)
    elif short not in GGUF_VECTOR:
        values = values.t()  # an adapter half; GGUF stores (rank, C) and (C, rank)
    return [(f"{block}.att.{short}", values)]
