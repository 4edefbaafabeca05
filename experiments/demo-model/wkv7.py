"""The WKV-7 recurrence with its gradient: in Triton for a GPU, and in plain PyTorch, which says what is right.

Per head, with the state S [value, key] in float32 and d = exp(log_decay):
    S <- S diag(d) + (S a) b^T + v k^T;  y = S r
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

HEAD = 64
# The backward pass divides decays out again to find earlier states, and starts anew from a stored one every so many
# steps: a decay is at least exp(-0.6065), so that errors grow by exp(0.6065 * 16) = 16,000 at most.
CHUNK = 16
# Rows of the state per program, one warp each 16: rows do not depend on each other but through sums over them.
ROWS = 16


def wkv7_reference(
    r: torch.Tensor, log_decay: torch.Tensor, k: torch.Tensor, v: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    """The recurrence step by step, from an empty state: all [B, T, H, 64]; returns y, of the same shape."""
    batch, steps, heads, n = r.shape
    state = r.new_zeros(batch, heads, n, n)
    rows = []
    for t in range(steps):
        removed = state @ a[:, t, :, :, None]
        state = state * log_decay[:, t, :, None].exp()
        state = state + removed * b[:, t, :, None] + v[:, t, :, :, None] * k[:, t, :, None]
        rows.append((state @ r[:, t, :, :, None]).squeeze(-1))
    return torch.stack(rows, 1)


@triton.jit
def _forward(
    r, log_decay, k, v, a, b, y, removed, states, T, H,
    N: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    head, part = tl.program_id(0), tl.program_id(1)
    batch = head // H
    i = part * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, N)
    step = H * N
    at = (batch.to(tl.int64) * T * H + head % H) * N
    state = tl.zeros((ROWS, N), tl.float32)
    chunks = T // CHUNK
    # The operands of the next step are on their way while this one is computed.
    r1, d1, k1 = tl.load(r + at + j), tl.load(log_decay + at + j), tl.load(k + at + j)
    a1, b1, v1 = tl.load(a + at + j), tl.load(b + at + j), tl.load(v + at + i)
    for t in range(T):
        rt, kt, vt = r1.to(tl.float32), k1.to(tl.float32), v1.to(tl.float32)
        at_, bt, dt = a1.to(tl.float32), b1.to(tl.float32), tl.exp(d1.to(tl.float32))
        after = at + tl.where(t + 1 < T, step, 0)
        r1, d1, k1 = tl.load(r + after + j), tl.load(log_decay + after + j), tl.load(k + after + j)
        a1, b1, v1 = tl.load(a + after + j), tl.load(b + after + j), tl.load(v + after + i)
        sa = tl.sum(state * at_[None, :], 1)
        state = state * dt[None, :] + sa[:, None] * bt[None, :] + vt[:, None] * kt[None, :]
        tl.store(y + at + i, tl.sum(state * rt[None, :], 1).to(y.dtype.element_ty))
        tl.store(removed + at + i, sa)
        if (t + 1) % CHUNK == 0:
            place = (head.to(tl.int64) * chunks + t // CHUNK) * N * N
            tl.store(states + place + i[:, None] * N + j[None, :], state)
        at = after


@triton.jit
def _backward(
    r, log_decay, k, v, a, b, removed, states, dy, dr, dd, dk, dv, da, db, T, H, part_size,
    N: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    head, part = tl.program_id(0), tl.program_id(1)
    batch = head // H
    i = part * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, N)
    step = H * N
    at = ((batch.to(tl.int64) * T + T - 1) * H + head % H) * N
    # Sums over rows are finished outside: every program leaves its share.
    share = part.to(tl.int64) * part_size
    state = tl.zeros((ROWS, N), tl.float32)
    grad = tl.zeros((ROWS, N), tl.float32)
    chunks = T // CHUNK
    r1, d1, k1 = tl.load(r + at + j), tl.load(log_decay + at + j), tl.load(k + at + j)
    a1, b1, v1 = tl.load(a + at + j), tl.load(b + at + j), tl.load(v + at + i)
    s1, y1 = tl.load(removed + at + i), tl.load(dy + at + i)
    for back in range(T):
        t = T - 1 - back
        rt, kt, vt = r1.to(tl.float32), k1.to(tl.float32), v1.to(tl.float32)
        at_, bt, dt = a1.to(tl.float32), b1.to(tl.float32), tl.exp(d1.to(tl.float32))
        sa, dyt = s1, y1.to(tl.float32)
        before = at - tl.where(t > 0, step, 0)
        r1, d1, k1 = tl.load(r + before + j), tl.load(log_decay + before + j), tl.load(k + before + j)
        a1, b1, v1 = tl.load(a + before + j), tl.load(b + before + j), tl.load(v + before + i)
        s1, y1 = tl.load(removed + before + i), tl.load(dy + before + i)
        if (t + 1) % CHUNK == 0:
            place = (head.to(tl.int64) * chunks + t // CHUNK) * N * N
            state = tl.load(states + place + i[:, None] * N + j[None, :])
        tl.store(dr + share + at + j, tl.sum(state * dyt[:, None], 0))
        grad += dyt[:, None] * rt[None, :]
        state = (state - sa[:, None] * bt[None, :] - vt[:, None] * kt[None, :]) / dt[None, :]
        dsa = tl.sum(grad * bt[None, :], 1)
        tl.store(dv + at + i, tl.sum(grad * kt[None, :], 1).to(dv.dtype.element_ty))
        tl.store(dk + share + at + j, tl.sum(grad * vt[:, None], 0))
        tl.store(db + share + at + j, tl.sum(grad * sa[:, None], 0))
        tl.store(dd + share + at + j, tl.sum(grad * state, 0) * dt)
        tl.store(da + share + at + j, tl.sum(state * dsa[:, None], 0))
        grad = grad * dt[None, :] + dsa[:, None] * at_[None, :]
        at = before


class _Wkv7(torch.autograd.Function):
    @staticmethod
    def forward(ctx, r, log_decay, k, v, a, b):
        operands = [x.contiguous() for x in (r, log_decay, k, v, a, b)]
        batch, steps, heads, n = r.shape
        if n != HEAD or steps % CHUNK:
            raise ValueError(f"heads of {n} channels, {steps} steps: want {HEAD}, and a multiple of {CHUNK}")
        y = torch.empty_like(operands[0])
        removed = torch.empty_like(operands[0], dtype=torch.float32)
        states = torch.empty(batch * heads, steps // CHUNK, n, n, dtype=torch.float32, device=r.device)
        grid = (batch * heads, n // ROWS)
        _forward[grid](*operands, y, removed, states, steps, heads, N=n, ROWS=ROWS, CHUNK=CHUNK, num_warps=ROWS // 16)
        ctx.save_for_backward(*operands, removed, states)
        return y

    @staticmethod
    def backward(ctx, dy):
        *operands, removed, states = ctx.saved_tensors
        batch, steps, heads, n = dy.shape
        dy = dy.contiguous()
        shares = [torch.empty(n // ROWS, *dy.shape, dtype=torch.float32, device=dy.device) for _ in range(5)]
        dr, dd, dk, da, db = shares
        dv = torch.empty_like(dy)
        grid = (batch * heads, n // ROWS)
        _backward[grid](
            *operands, removed, states, dy, dr, dd, dk, dv, da, db, steps, heads, dy.numel(),
            N=n, ROWS=ROWS, CHUNK=CHUNK, num_warps=ROWS // 16,
        )  # fmt: skip
        kinds = [x.dtype for x in (*operands[:3], *operands[4:])]
        dr, dd, dk, da, db = (share.sum(0).to(kind) for share, kind in zip(shares, kinds, strict=True))
        return dr, dd, dk, dv.to(operands[3].dtype), da, db


def wkv7(
    r: torch.Tensor, log_decay: torch.Tensor, k: torch.Tensor, v: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    """As [`wkv7_reference`], by the kernels. T is a multiple of 16."""
    return _Wkv7.apply(r, log_decay, k, v, a, b)
