"""The dicts that `wgoose` returns, for type checkers."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt


class ModelInfo(TypedDict):
    """`Model.info`: what the model is and where it runs."""

    path: Any
    container: str
    fingerprint: str
    file_bytes: int
    state_bytes: int
    layers: int
    width: int
    ffn: int
    heads: int
    head_size: int
    vocab: int
    device: str
    driver: str | None
    plan: str | None


class DeviceReport(TypedDict):
    """A row of `devices`: the adapter, how it is built in, what it can do, and whether it has timestamps."""

    device: dict[str, Any]
    kind: str
    limits: dict[str, Any]
    timestamps: bool


class TuneReport(TypedDict):
    """`tune`: what the plan is called and has, and experiments made or taken from the ledger."""

    plan: str
    kernels: int
    prefill_chunk: int
    measured: int
    recalled: int


class BenchReport(TypedDict):
    """`bench`: medians, the milliseconds of every run, and the quality hash, which every correct plan of its class has."""

    at: int
    model: str
    fingerprint: str
    device: str
    plan: str
    prefill_chunk: int
    prefill_tokens: int
    decode_tokens: int
    sequences: int
    encode_share: float | None
    load_ms: float
    first_token_ms: float
    prefill_tok_s: float
    decode_tok_s: float
    peak_memory_mib: float | None
    quality_hash: str
    quality_class: str
    quality_decisions: int
    prefill_ms: list[float]
    decode_ms: list[float]


class SynthReport(TypedDict):
    """`synth`: the file."""

    bytes: int
    tensors: int
    weights: int
    mix: str


class MeasuredFormat(TypedDict):
    """What a format makes of one matrix: KL divergence in nats a token with this matrix alone in it."""

    format: str
    bytes: int
    kl: float


class AllocatedTensor(TypedDict):
    """A matrix, the format chosen for it, and all that it can have."""

    tensor: str
    format: str
    formats: list[MeasuredFormat]


class MeasuredMix(TypedDict):
    """A mix of formats: bytes of its file, KL divergence from the source in nats a token, share of tokens both find likeliest."""

    name: str
    bytes: int
    mean_kl: float
    kl_99: float
    max_kl: float
    agreement: float


class Allocation(TypedDict):
    """Formats chosen for each matrix: the divergence of the mix, measured and as the sum over single matrices."""

    tokens: int
    kl: float
    estimated_kl: float
    mixes: list[MeasuredMix]
    tensors: list[AllocatedTensor]


class _Checked(TypedDict, total=False):
    checked: int
    without_vocabulary: str
    allocation: Allocation
    adapter: str


class ConvertReport(SynthReport, _Checked):
    """`convert`: the file and what rounding has changed, with check how many weights were read back, with 'auto' what was
    chosen, with an adapter what was merged. without_vocabulary: why a GGUF file has none, if so."""

    source_bytes: int
    rounding: float
    worst: str


class Score(TypedDict):
    """How well a model predicts a text; the standard error is None for a single token."""

    tokens: int
    bytes: int
    bits_per_byte: float
    bits_per_token: float
    perplexity: float
    relative_standard_error_of_perplexity: float | None
    tokens_per_second: float


class Stretch(TypedDict):
    """How far two models are from each other on some positions: KL divergence in nats, share of tokens both find likeliest."""

    first: int
    tokens: int
    mean_kl: float
    max_kl: float
    agreement: float
    rms: float


class Divergence(Stretch):
    """The same on all positions, what 99 % of them do not exceed, and by position."""

    kl_99: float
    by_position: list[Stretch]


class _Against(TypedDict, total=False):
    reference: Score
    divergence: Divergence


class Evaluation(Score, _Against):
    """`evaluate`: the model's score, and, with against, the other's and how far they are from each other."""


_Pass = TypedDict("_Pass", {"pass": int})


class TracedOp(_Pass):
    """What an op made in a pass: [rows, columns] or [planes, rows, columns]."""

    number: int
    layer: int | None
    name: str
    op: str
    values: npt.NDArray[np.float32]


class OpError(TypedDict):
    """How far an op is from its reference on the same operands, relative to the reference's root mean square."""

    name: str
    op: str
    layer: int | None
    kernel: str
    got: float
    want: float
    error: float
    tolerance: float


class OpDivergence(OpError, _Pass):
    """The first op beyond its tolerance: its pass, the pass' first token and the one behind its last, and all of it as a text."""

    tokens: tuple[int, int]
    text: str


class TraceReport(TypedDict, total=False):
    """`trace`: outputs, or with out how many were written; with first_divergence how many ops are right, which came nearest to its
    tolerance, and the first that is not right.
    """

    outputs: list[TracedOp]
    written: int
    ops: int
    nearest: OpError | None
    divergence: OpDivergence | None
