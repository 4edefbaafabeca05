"""The reference: the PyPI package `rwkv`, its RWKV-7 class, on the CPU in float32."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import os
from types import ModuleType
from unittest import mock

import numpy as np
import torch

from weights import Weights

# Read by the package when it is imported.
os.environ.update(RWKV_V7_ON="1", RWKV_JIT_ON="0", RWKV_CUDA_ON="0")

State = dict[str, np.ndarray]

# The package keeps three tensors a layer, in this order.
PARTS = ("att_shift", "wkv", "ffn_shift")


def run(weights: Weights, tokens: list[int]) -> tuple[np.ndarray, State]:
    """Feeds `tokens` to a fresh state; returns float32 logits [tokens, vocab] and the final state.

    The state holds `blocks.{i}.wkv` [H, value, key] and `blocks.{i}.{att,ffn}_shift` [C].
    """
    # The package chats on stdout and reads its weights from a file with an argument that older PyTorch lacks;
    # it is handed the tensors instead. It empties the mapping, hence the copy.
    with contextlib.redirect_stdout(io.StringIO()), mock.patch.object(torch, "load", return_value=dict(weights)):
        deep_embed = "blocks.0.ffn.s_emb.weight" in weights
        # Read by the package as it is imported, and again as it takes weights.
        os.environ["RWKV_DE_VERSION"] = str(int(deep_embed))
        model = _code(deep_embed).RWKV_x070("weights in memory", "cpu fp32")
    halves = {name: tensor.dtype for name, tensor in model.z.items() if tensor.dtype != torch.float32}
    if halves:
        raise TypeError(f"the reference must run in float32, but holds {halves}")
    logits, state = model.forward(tokens, None, full_output=True)
    layers = len(state) // 3
    named = {f"blocks.{i}.{part}": state[3 * i + j] for i in range(layers) for j, part in enumerate(PARTS)}
    if any(tensor.dtype != torch.float32 for tensor in (logits, *named.values())):
        raise TypeError("the reference left float32 on the way")
    logits = logits.reshape(len(tokens), -1)
    return logits.numpy(), {name: np.ascontiguousarray(tensor.numpy()) for name, tensor in named.items()}


@functools.cache
def _code(deep_embed: bool) -> ModuleType:
    """The package's module, imported for RWKV-7a or for RWKV-7."""
    spec = importlib.util.find_spec("rwkv.model")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
