"""Makes the committed checkpoint `goldens/tiny.pth`: random weights, written by PyTorch and by nothing of ours.

And `goldens/protocol5.pth`: no model, but one tensor of each kind that PyTorch writes, in pickle protocol 5.
"""

from __future__ import annotations

from pathlib import Path

import torch

LAYERS, WIDTH, FFN, VOCAB = 2, 64, 192, 257
RANKS = {"w": 16, "a": 24, "v": 8, "g": 40}


def save(path: Path, seed: int = 7) -> None:
    """Writes a bf16 checkpoint whose first layer carries NaN where a model must not look (`v0`, `v1`, `v2`)."""
    weights = {name: tensor.bfloat16() for name, tensor in _weights(torch.Generator().manual_seed(seed)).items()}
    torch.save(weights, path)


def save_kinds(path: Path) -> None:
    """Writes tensors of which each holds 0, 1, 2, ... row by row, whatever its place in the storage.

    By hand, with PyTorch 2.15: earlier ones have no buffers or no float8.
    """
    count = lambda *shape: torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    parameter = torch.nn.Parameter(count(2, 3), requires_grad=True)
    parameter.origin = {"steps": [1.5, b"raw", None, {"a"}], "name": "x"}
    attributes = count(4).bfloat16()
    attributes.origin = "y"
    wide = torch.full((3, 7), torch.nan)
    wide[:, 2:6] = count(3, 4)
    tensors = {
        "plain": count(2, 3),
        "half": count(5).half(),
        "parameter": parameter,
        "buffer": torch.nn.Buffer(count(3)),
        "attributes": attributes,
        "transposed": count(2, 3).t().contiguous().t(),
        "slice": wide[:, 2:6],
        "permuted": count(2, 3, 4).permute(2, 0, 1).contiguous().permute(1, 2, 0),
        "every_other": torch.stack([count(4), count(4)], dim=1)[:, 0],
        "float8": count(4).to(torch.float8_e4m3fn),
    }
    torch.save(tensors, path, pickle_protocol=5)


def _weights(random: torch.Generator) -> dict[str, torch.Tensor]:
    def normal(*shape: int, scale: float = 1.0, mean: float = 0.0) -> torch.Tensor:
        return mean + scale * torch.randn(*shape, generator=random)

    def matrix(rows: int, cols: int) -> torch.Tensor:
        return normal(rows, cols, scale=cols**-0.5)

    def norm(name: str) -> dict[str, torch.Tensor]:
        return {f"{name}.weight": normal(WIDTH, scale=0.2, mean=1.0), f"{name}.bias": normal(WIDTH, scale=0.1)}

    weights = {"emb.weight": normal(VOCAB, WIDTH), **norm("blocks.0.ln0")}
    for i in range(LAYERS):
        block, att = f"blocks.{i}.", f"blocks.{i}.att."
        weights |= norm(block + "ln1") | norm(block + "ln2") | norm(att + "ln_x")
        for mix in "rwkvag":
            weights[f"{att}x_{mix}"] = torch.rand(1, 1, WIDTH, generator=random)
        for name, rank in RANKS.items():
            if name != "g":
                weights[f"{att}{name}0"] = normal(1, 1, WIDTH)
            weights[f"{att}{name}1"] = matrix(rank, WIDTH).t().contiguous()
            weights[f"{att}{name}2"] = matrix(WIDTH, rank).t().contiguous()
        weights[att + "k_k"] = normal(1, 1, WIDTH, scale=0.3, mean=1.0)
        weights[att + "k_a"] = torch.rand(1, 1, WIDTH, generator=random)
        weights[att + "r_k"] = normal(WIDTH // 64, 64, scale=0.3)
        for name in ("receptance", "key", "value", "output"):
            weights[f"{att}{name}.weight"] = matrix(WIDTH, WIDTH)
        weights[block + "ffn.x_k"] = torch.rand(1, 1, WIDTH, generator=random)
        weights[block + "ffn.key.weight"] = matrix(FFN, WIDTH)
        weights[block + "ffn.value.weight"] = matrix(WIDTH, FFN)
    for half in "012":
        weights[f"blocks.0.att.v{half}"].fill_(torch.nan)
    return weights | norm("ln_out") | {"head.weight": matrix(VOCAB, WIDTH)}
