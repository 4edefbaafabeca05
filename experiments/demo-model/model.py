"""RWKV-7 for training; parameters have the names and shapes of a .pth checkpoint.

Initial values follow the recipe of BlinkDL/RWKV-LM, `RWKV-v7/`. What lies around the scan is in functions of a layer's
tensors, so that one compiled function serves all layers, and the scan runs as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import wkv7

HEAD = 64
MIXES = "rwkvag"


@dataclass(frozen=True)
class Shape:
    """The sizes of a model; `ranks` of the adapters: decay, in-context learning rate, value, gate."""

    layers: int = 9
    width: int = 256
    vocab: int = 257
    ranks: tuple[int, int, int, int] = (16, 16, 16, 64)


class TimeMix(nn.Module):
    """The recurrent half of a layer."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        width, depth = shape.width, layer / max(1, shape.layers - 1)
        fade = 1 - layer / shape.layers
        channel = torch.arange(width) / width
        powers = {"r": 0.2, "w": 0.9, "k": 0.7, "v": 0.7, "a": 0.9, "g": 0.2}
        for mix in MIXES:
            self._vector(f"x_{mix}", 1 - channel ** (powers[mix] * fade))
        speed = torch.arange(width) / (width - 1)
        self._vector("w0", -6.5 + 5 * speed ** (0.85 + depth**0.5))
        self._vector("a0", torch.zeros(width))
        for name, rank in zip("wavg", shape.ranks, strict=True):
            if name == "v" and layer == 0:
                continue
            setattr(self, f"{name}1", nn.Parameter(torch.zeros(width, rank)))
            setattr(self, f"{name}2", nn.Parameter(_orthogonal(rank, width, 0.1)))
        if layer:
            self._vector("v0", torch.ones(width))
        self._vector("k_k", torch.full((width,), 0.85))
        self._vector("k_a", torch.ones(width))
        self.r_k = nn.Parameter(torch.full((width // HEAD, HEAD), -0.04))
        for name, scale in (("receptance", 0.5), ("key", 0.05), ("value", 0.5), ("output", 0.0)):
            linear = nn.Linear(width, width, bias=False)
            nn.init.uniform_(linear.weight, -scale * width**-0.5, scale * width**-0.5)
            setattr(self, name, linear)
        self.ln_x = nn.GroupNorm(width // HEAD, width, eps=HEAD * 1e-5)
        nn.init.constant_(self.ln_x.weight, ((1 + layer) / shape.layers) ** 0.7)

    def _vector(self, name: str, value: Tensor) -> None:
        setattr(self, name, nn.Parameter(value.reshape(1, 1, -1).clone()))


class ChannelMix(nn.Module):
    """The other half of a layer."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        width = shape.width
        fade = 1 - layer / shape.layers
        self.x_k = nn.Parameter((1 - (torch.arange(width) / width) ** fade**4).reshape(1, 1, -1))
        self.key = nn.Linear(width, 4 * width, bias=False)
        self.value = nn.Linear(4 * width, width, bias=False)
        nn.init.uniform_(self.key.weight, -0.5 * width**-0.5, 0.5 * width**-0.5)
        nn.init.zeros_(self.value.weight)


class Block(nn.Module):
    """One layer."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        if layer == 0:
            self.ln0 = nn.LayerNorm(shape.width)
        self.ln1, self.ln2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.att, self.ffn = TimeMix(shape, layer), ChannelMix(shape, layer)


class Rwkv7(nn.Module):
    """The model; `scan` is the recurrence, `dropout` the share of what layers add that training leaves out."""

    def __init__(self, shape: Shape, scan: object = wkv7.wkv7_reference, dropout: float = 0.0) -> None:
        super().__init__()
        self.scan, self.dropout, self.parts = scan, dropout, PARTS
        self.emb = nn.Embedding(shape.vocab, shape.width)
        nn.init.uniform_(self.emb.weight, -1e-4, 1e-4)
        self.blocks = nn.ModuleList(Block(shape, layer) for layer in range(shape.layers))
        self.ln_out = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocab, bias=False)
        nn.init.orthogonal_(self.head.weight, gain=0.5 * math.sqrt(max(1.0, shape.vocab / shape.width)))

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, T, V] of tokens [B, T], each row from an empty state."""
        before, after, channel_mix = self.parts
        x = self.blocks[0].ln0(self.emb(tokens))
        v_first = None
        dropout = self.training and self.dropout > 0
        for block in self.blocks:
            p = dict(block.named_parameters())
            r, log_decay, k, v, a, b, g = before(p, x, v_first)
            v_first = v if v_first is None else v_first
            y = self.scan(r, log_decay, k, v, a, b)
            added = after(p, y, r, k, v, g)
            x = x + (F.dropout(added, self.dropout) if dropout else added)
            added = channel_mix(p, x)
            x = x + (F.dropout(added, self.dropout) if dropout else added)
        return self.head(self.ln_out(x))


def _orthogonal(rows: int, cols: int, scale: float) -> Tensor:
    return nn.init.orthogonal_(torch.empty(rows, cols), gain=scale * math.sqrt(max(1.0, rows / cols)))


def _shifted(x: Tensor) -> Tensor:
    """The activations of the token before, minus those of the token."""
    return F.pad(x, (0, 0, 1, -1)) - x


def _norm(p: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"])


def before_scan(p: dict[str, Tensor], x: Tensor, v_first: Tensor | None) -> tuple[Tensor, ...]:
    """The operands of a layer's scan, each [B, T, H, 64], and the gate [B, T, C]."""
    xx = _norm(p, "ln1", x)
    dx = _shifted(xx)
    xr, xw, xk, xv, xa, xg = (xx + dx * p[f"att.x_{mix}"] for mix in MIXES)
    r, k, v = (F.linear(z, p[f"att.{name}.weight"]) for z, name in ((xr, "receptance"), (xk, "key"), (xv, "value")))
    w = p["att.w0"] + torch.tanh(xw @ p["att.w1"]) @ p["att.w2"]
    log_decay = -math.exp(-0.5) * torch.sigmoid(w.float())
    a = torch.sigmoid(p["att.a0"] + (xa @ p["att.a1"]) @ p["att.a2"])
    g = torch.sigmoid(xg @ p["att.g1"]) @ p["att.g2"]
    heads = (x.shape[0], x.shape[1], x.shape[2] // HEAD, HEAD)
    if v_first is not None:
        v = v + (v_first.reshape(v.shape) - v) * torch.sigmoid(p["att.v0"] + (xv @ p["att.v1"]) @ p["att.v2"])
    kk = F.normalize((k * p["att.k_k"]).float().reshape(heads), dim=-1, eps=1e-12)
    k = k * (1 + (a - 1) * p["att.k_a"])
    operands = (r, log_decay, k, v, -kk, kk * a.reshape(heads))
    return *(z.to(r.dtype).reshape(heads) for z in operands), g


def after_scan(p: dict[str, Tensor], y: Tensor, r: Tensor, k: Tensor, v: Tensor, g: Tensor) -> Tensor:
    """What the time mix adds to the residual stream."""
    # A group norm over heads: each token has statistics of its own.
    y = F.layer_norm(y.float(), (HEAD,), eps=HEAD * 1e-5).reshape(g.shape) * p["att.ln_x.weight"] + p["att.ln_x.bias"]
    bonus = (r.float() * k.float() * p["att.r_k"]).sum(-1, keepdim=True) * v.float()
    return F.linear((y + bonus.reshape(g.shape)) * g, p["att.output.weight"])


def squares(p: dict[str, Tensor], x: Tensor) -> Tensor:
    """What `ffn.value` is multiplied with."""
    xx = _norm(p, "ln2", x)
    return torch.relu(F.linear(xx + _shifted(xx) * p["ffn.x_k"], p["ffn.key.weight"])) ** 2


def channel_mix(p: dict[str, Tensor], x: Tensor) -> Tensor:
    """What the channel mix adds to the residual stream."""
    return F.linear(squares(p, x), p["ffn.value.weight"])


# What lies around the scan; a model may hold compiled ones instead.
PARTS = (before_scan, after_scan, channel_mix)
