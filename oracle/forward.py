"""RWKV-7 and 7a on one page, in float64 numpy: a second opinion on the package, the floor of its rounding errors."""

from __future__ import annotations

import numpy as np

from weights import Weights


def run(weights: Weights, tokens: list[int]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """As `package.run`, token by token, written from the paper's formulas instead of the package's code."""
    w = {name: np.squeeze(tensor.double().numpy()) for name, tensor in weights.items()}
    heads, n = weights["blocks.0.att.r_k"].shape
    width = heads * n
    layers = 1 + max(int(name.split(".")[1]) for name in w if name.startswith("blocks."))
    att_shift, ffn_shift = np.zeros((layers, width)), np.zeros((layers, width))
    wkv = np.zeros((layers, heads, n, n))  # [value][key]
    rows = []
    for token in tokens:
        x = embedding = layer_norm(w["emb.weight"][token], w, "blocks.0.ln0")
        v_first = None
        for i in range(layers):
            p = f"blocks.{i}.att."
            xx = layer_norm(x, w, f"blocks.{i}.ln1")
            xr, xw, xk, xv, xa, xg = (xx + (att_shift[i] - xx) * w[p + "x_" + mix] for mix in "rwkvag")
            att_shift[i] = xx
            r, k, v = w[p + "receptance.weight"] @ xr, w[p + "key.weight"] @ xk, w[p + "value.weight"] @ xv
            decay = np.exp(-np.exp(-0.5) * sigmoid(w[p + "w0"] + np.tanh(xw @ w[p + "w1"]) @ w[p + "w2"]))
            a = sigmoid(w[p + "a0"] + xa @ w[p + "a1"] @ w[p + "a2"])
            g = sigmoid(xg @ w[p + "g1"]) @ w[p + "g2"]
            if v_first is None:
                v_first = v
            else:
                v = v + (v_first - v) * sigmoid(w[p + "v0"] + xv @ w[p + "v1"] @ w[p + "v2"])
            removal = (k * w[p + "k_k"]).reshape(heads, n)
            removal /= np.maximum(np.linalg.norm(removal, axis=1, keepdims=True), 1e-12)
            k = k * (1 + (a - 1) * w[p + "k_a"])
            rh, kh, vh, ah, dh = (z.reshape(heads, n) for z in (r, k, v, a, decay))
            for h in range(heads):
                s = wkv[i, h]
                wkv[i, h] = s * dh[h] - np.outer(s @ removal[h], removal[h] * ah[h]) + np.outer(vh[h], kh[h])
            y = np.einsum("hvk,hk->hv", wkv[i], rh)
            y = (y - y.mean(1, keepdims=True)) / np.sqrt(y.var(1, keepdims=True) + n * 1e-5)
            y = y.reshape(width) * w[p + "ln_x.weight"] + w[p + "ln_x.bias"]
            bonus = (rh * kh * w[p + "r_k"].reshape(heads, n)).sum(1, keepdims=True) * vh
            x = x + w[p + "output.weight"] @ ((y + bonus.reshape(width)) * g)

            p = f"blocks.{i}.ffn."
            xx = layer_norm(x, w, f"blocks.{i}.ln2")
            hidden = w[p + "key.weight"] @ (xx + (ffn_shift[i] - xx) * w[p + "x_k"])
            ffn_shift[i] = xx
            hidden = np.maximum(hidden, 0) ** 2
            if p + "s_emb.weight" in w:  # DeepEmbed
                matrix = w[p + "s_emb.weight"][token] + w[p + "s_emb_x.weight"] @ embedding
                hidden *= (xx @ w[p + "s1"]) @ matrix.reshape(w[p + "s1"].shape[1], -1) @ w[p + "s2"] + w[p + "s0"]
            x = x + w[p + "value.weight"] @ hidden
        rows.append(w["head.weight"] @ layer_norm(x, w, "ln_out"))
    parts = {"wkv": wkv, "att_shift": att_shift, "ffn_shift": ffn_shift}
    state = {f"blocks.{i}.{name}": part[i] for i in range(layers) for name, part in parts.items()}
    return np.stack(rows), state


def layer_norm(x: np.ndarray, w: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Layer norm with eps 1e-5, scaled and shifted by `name`."""
    return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * w[name + ".weight"] + w[name + ".bias"]


def sigmoid(x: np.ndarray) -> np.ndarray:
    """The logistic function, without overflow."""
    return 0.5 * (1 + np.tanh(0.5 * x))
