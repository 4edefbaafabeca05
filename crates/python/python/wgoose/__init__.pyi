"""RWKV-7 language models on any GPU: `Model.load`, then `generate`, `embed`, `logits`, `state`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, TypeVar, final, overload

import numpy as np
import numpy.typing as npt

from .reports import BenchReport, ConvertReport, DeviceReport, Evaluation, ModelInfo, SynthReport, TraceReport, TuneReport
from .llama_cpp.llama_types import CreateCompletionResponse, CreateCompletionStreamResponse

__all__ = [
    "CompletionStream",
    "DeviceError",
    "Error",
    "ForkError",
    "Generation",
    "Grammar",
    "InputError",
    "LoadError",
    "Model",
    "PlanError",
    "State",
    "StateError",
    "__version__",
    "bench",
    "chat_prompt",
    "convert",
    "devices",
    "evaluate",
    "synth",
    "trace",
    "tune",
]

__version__: str

_Array: TypeAlias = npt.NDArray[np.float32]
_Default = TypeVar("_Default")
_Path: TypeAlias = str | PathLike[str]
_Text: TypeAlias = str | bytes
_Tokens: TypeAlias = Iterable[int] | npt.NDArray[np.integer[Any]]
_Pooling: TypeAlias = Literal["mean", "last", "every", "state"]
_Head: TypeAlias = Literal["cls", "sts", "retr"]
"""What is made of a text's hidden states: one row for 'mean' and 'last', a row a token for 'every'; 'state' is the WKV
state of the layer instead."""

class Error(Exception):
    """What can go wrong in wgoose; every other exception of it is one of these."""

class LoadError(Error):
    """The model file cannot be read."""

class DeviceError(Error):
    """There is no such device, or it failed."""

class PlanError(Error):
    """The plan cannot be read, or is for another device, model or kernels."""

class StateError(Error):
    """The state is of another model, or was lost when a call failed."""

class ForkError(Error):
    """This process was forked from one that had used wgoose: start it with 'spawn'."""

class InputError(Error):
    """Text, tokens or an option that make no sense."""

@final
class State(Mapping[str, _Array]):
    """What a model has read: a mapping of names to float32 arrays.

    For each layer i: 'blocks.i.att_shift' [C], 'blocks.i.wkv' [heads, value, key], 'blocks.i.ffn_shift' [C]. The arrays
    share this object's memory and keep it alive; nothing is copied. They are read-only, for other threads may be
    reading them: to change a state, copy what changes and set a dict of all tensors as the model's state.
    """

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
    def __reduce__(self) -> tuple[Callable[[str, dict[str, _Array]], State], tuple[str, dict[str, _Array]]]: ...
    def __getitem__(self, name: str, /) -> _Array: ...
    def __contains__(self, name: object, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    @overload
    def get(self, name: str, default: None = None, /) -> _Array | None:
        """The tensor of that name, or the default."""
    @overload
    def get(self, name: str, default: _Default, /) -> _Array | _Default: ...
    def keys(self) -> list[str]:  # type: ignore[override]
        """The names of the tensors, layer by layer."""
    def values(self) -> list[_Array]:  # type: ignore[override]
        """The tensors, layer by layer."""
    def items(self) -> list[tuple[str, _Array]]:  # type: ignore[override]
        """Names and tensors, layer by layer."""

@final
class Grammar:
    """A grammar of the texts of one model, for `generate` and its relatives: `Model.grammar` compiles it."""

@final
class Generation:
    """An iterator over the text of a generation, never splitting a character.

    It reads and writes a sequence of its own, which began with the model's state; the model's state stays as it was. To
    go on from here, set the model's state to this object's.
    """

    @property
    def finish_reason(self) -> Literal["stop", "length"] | None:
        """Why it ended: 'stop' (the text ended, or came to a stop string), 'length' (max_tokens), or None (closed
        before). Ends the generation.
        """
    @property
    def tokens(self) -> list[int]:
        """The tokens generated, those of a stop string included. Ends the generation."""
    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt. Ends the generation."""
    @property
    def state(self) -> State:
        """The state after the prompt and all of `tokens`. Ends the generation."""
    def __iter__(self) -> Generation: ...
    def __next__(self) -> str: ...
    def close(self) -> None:
        """Ends the generation; iterating over it gives nothing more."""

@final
class CompletionStream:
    """An iterator over the pieces of a completion; the last one has no text and says why it ended."""

    def __iter__(self) -> CompletionStream: ...
    def __next__(self) -> CreateCompletionStreamResponse: ...

@final
class Model:
    """An RWKV-7 model, and the state of what it has read.

    `read`, `logits`, `reset`, `load_state` and setting `state` change the state. `generate` and `create_completion`
    begin with it, each in a sequence of its own; `embed` and `embed_batch` begin with nothing. None of these changes
    it. A model may be used from several threads: calls that use its state take turns.
    """

    @staticmethod
    def load(
        path: _Path,
        plan: _Path | None = None,
        device: int | str | None = None,
        gpu_budget: int | str | None = None,
        cpu: bool = False,
        *,
        foreign_plan: bool = False,
        eager: bool = False,
        chunk: int | None = None,
        prefix_cache: int | str | None = None,
        embedding_cache: int | str | None = None,
        embedding_store: _Path | None = None,
        ignore_unknown: bool = False,
        vocab: _Path | None = None,
        adapter: _Path | tuple[_Path, float] | None = None,
        adapter_initial: _Path | None = None,
        batch_invariant: bool = False,
    ) -> Model:
        """Opens a model: a GGUF, safetensors or .pth file, shards or their index, or a folder. Weights reach the GPU on
        first use.

        plan: a file made by `tune`, or 'default' for the device's default; None finds the plan that `tune` filed for
        this device and model, else one that ships, else the default. foreign_plan: accept a file made on another
        device. device: an adapter's index, PCI address, UUID, or an unambiguous part of its name. cpu: run on the slow
        reference instead. gpu_budget: most GPU memory to use, bytes or text such as '600MiB'; weights that do not fit
        pass through a ring. eager: upload every weight at once. chunk: most tokens in one pass. batch_invariant:
        identical bits for a sequence at every batch size and however its tokens are split into passes; decoding is
        slower. prefix_cache: memory for the states of prompts, off unless given. embedding_cache, embedding_store:
        memory and a file for embeddings, off unless given. ignore_unknown: run a model without the tensors that no op
        reads; otherwise such a file is a LoadError. adapter: a file with a LoRA, PiSSA, DiSHA (Bone) or MiSS that is
        merged into the weights, or a tuple of it and the factor of what it adds. adapter_initial: the init_pissa.pth of
        a PiSSA.
        vocab: a vocabulary file, or 'world', for a model whose file has none and that has other than 65536 tokens.

        Raises LoadError, DeviceError, PlanError, InputError; KeyboardInterrupt at once, while a thread ends what was
        begun; in a process that was forked from one that had used wgoose, ForkError, as every call does there.
        """
    @property
    def info(self) -> ModelInfo:
        """What the model is and where it runs: a dict."""
    @property
    def state(self) -> State:
        """What the model has read: arrays that share the memory of a copy made now. Setting it, to a State or to a dict
        of arrays, copies them to the device.
        """
    @state.setter
    def state(self, value: Mapping[str, npt.NDArray[np.floating[Any]]]) -> None: ...
    def encode(self, text: _Text) -> list[int]:
        """The token ids of a str or bytes."""
    def tokenize(self, text: _Text, add_bos: bool = False, special: bool = False) -> list[int]:
        """The same as `encode`, by the name that llama-cpp-python has for it. The vocabulary has no token for a
        beginning and none that stands for a marker in the text, so add_bos and special change nothing.
        """
    def decode(self, tokens: _Tokens) -> str:
        """The text of token ids; bytes that are no character become U+FFFD."""
    def detokenize(self, tokens: _Tokens) -> bytes:
        """The bytes of token ids, which may begin or end within a character."""
    def grammar(
        self,
        *,
        json_schema: str | dict[str, Any] | None = None,
        regex: str | None = None,
        choice: list[str] | None = None,
        grammar: str | None = None,
        answer: bool = False,
        think: bool = False,
    ) -> Grammar:
        """Compiles a grammar for this model: of JSON of a schema (a dict or its JSON), of what a regular expression
        matches as a whole, of one of several texts, or of a grammar in Lark's notation or llama.cpp's (GBNF).

        answer: a blank may come before the text, as a chat's prompt ends with "Assistant:". think: it applies once the
        thoughts have ended.

        Raises InputError where it cannot be honoured.
        """
    def generate(
        self,
        prompt: _Text | _Tokens,
        max_tokens: int | None = 128,
        temperature: float = 1.0,
        top_p: float = 0.5,
        top_k: int = 0,
        seed: int | None = 0,
        stop: str | list[str] | None = None,
        *,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        penalty_decay: float = 1.0,
        repetition_penalty: float = 1.0,
        min_p: float = 0.0,
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
        grammar: Grammar | None = None,
    ) -> Generation:
        """Continues a prompt, text or token ids: an iterator over text as it comes.

        max_tokens None goes on until the text ends by itself. temperature 0 is greedy; top_p keeps the likeliest tokens
        whose probabilities reach this sum, top_k at most that many (0: all), min_p of these those at least this times as
        likely as the likeliest, typical of these those nearest to the expected information until their probabilities
        reach this sum. The same seed, plan and device give the same
        text; seed None draws one. stop: a string, or several, before which the text ends; stop_tokens: tokens that end
        it as end-of-text (0) does. presence_penalty is subtracted from the logit of every token chosen before,
        frequency_penalty for each time that it was; penalty_decay: factor by which these counts shrink with every
        token. repetition_penalty divides the positive logits of tokens in the prompt or chosen before, and multiplies
        the others. logit_bias: a dict of tokens and what is added to their logits; minus infinity never chooses one.
        grammar: what the text has to be, see `grammar`.

        Raises InputError, DeviceError; KeyboardInterrupt ends the generation.
        """
    def generate_batch(
        self,
        prompts: Iterable[_Text],
        max_tokens: int | None = 128,
        temperature: float = 1.0,
        top_p: float = 0.5,
        top_k: int = 0,
        seed: int | None = 0,
        stop: str | list[str] | None = None,
        *,
        together: int = 16,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        penalty_decay: float = 1.0,
        repetition_penalty: float = 1.0,
        min_p: float = 0.0,
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
        grammar: Grammar | None = None,
    ) -> list[CreateCompletionResponse]:
        """Continues several texts together, up to so many at once: a list of dicts as `create_completion` has them, in
        the order of the prompts. Each begins with the model's state, and gives the text that it gives alone, unless the
        plan has other kernels for so many and two tokens are as likely but for rounding. The options are those of
        `generate`.

        Raises InputError, DeviceError; KeyboardInterrupt between steps.
        """
    @overload
    def create_completion(
        self,
        prompt: _Text | _Tokens,
        max_tokens: int | None = 128,
        temperature: float = 1.0,
        top_p: float = 0.5,
        top_k: int = 0,
        seed: int | None = 0,
        stop: str | list[str] | None = None,
        stream: Literal[False] = False,
        echo: bool = False,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        *,
        penalty_decay: float = 1.0,
        repetition_penalty: float = 1.0,
        min_p: float = 0.0,
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
        grammar: Grammar | None = None,
    ) -> CreateCompletionResponse:
        """Continues a prompt: a dict as OpenAI's API has it, or, with stream=True, an iterator over dicts with a piece
        each.

        The options are those of `generate`; echo puts the prompt before the text.
        """
    @overload
    def create_completion(
        self,
        prompt: _Text | _Tokens,
        max_tokens: int | None = 128,
        temperature: float = 1.0,
        top_p: float = 0.5,
        top_k: int = 0,
        seed: int | None = 0,
        stop: str | list[str] | None = None,
        *,
        stream: Literal[True],
        echo: bool = False,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        penalty_decay: float = 1.0,
        repetition_penalty: float = 1.0,
        min_p: float = 0.0,
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
        grammar: Grammar | None = None,
    ) -> CompletionStream: ...
    @overload
    def create_completion(
        self,
        prompt: _Text | _Tokens,
        max_tokens: int | None = 128,
        temperature: float = 1.0,
        top_p: float = 0.5,
        top_k: int = 0,
        seed: int | None = 0,
        stop: str | list[str] | None = None,
        *,
        stream: bool,
        echo: bool = False,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        penalty_decay: float = 1.0,
        repetition_penalty: float = 1.0,
        min_p: float = 0.0,
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
        grammar: Grammar | None = None,
    ) -> CreateCompletionResponse | CompletionStream: ...
    def embed(
        self,
        text: _Text | _Tokens,
        *,
        layer: int | None = None,
        pooling: _Pooling | None = None,
        head: _Head | None = None,
        normalise: bool = True,
        prefix: _Text | _Tokens | None = None,
        token_budget: int | None = None,
    ) -> _Array:
        """The embedding of a text, or of token ids: float32, [width] for pooling 'mean' and 'last', [tokens, width] for
        'every', [heads, value, key] for 'state' (the WKV state of the layer instead of hidden states). Without a pooling
        it is the mean, or head 'retr' of a model that has it.

        head: 'cls', 'sts' or 'retr', of an embedding model (EmbeddingRWKV), instead of a pooling: [width]; each text is
        read with token 65535 behind it. layer: take hidden states after this layer, from 0, instead of after the last
        norm. normalise: divide each row by its length. prefix: text or tokens read before, such as an instruction.
        token_budget: most tokens of several texts in one pass; changes no bit.

        Raises InputError, DeviceError.
        """
    @overload
    def embed_batch(
        self,
        texts: Iterable[_Text | _Tokens],
        *,
        layer: int | None = None,
        pooling: Literal["mean", "last", "state"] | None = None,
        head: _Head | None = None,
        normalise: bool = True,
        prefix: _Text | _Tokens | None = None,
        token_budget: int | None = None,
    ) -> _Array:
        """The embeddings of texts, or of lists of token ids: float32, a row each, [texts, width] or [texts, heads,
        value, key]; a list of arrays for pooling 'every'. Bit for bit those of single calls. The options are those of
        `embed`.

        Raises InputError, DeviceError; KeyboardInterrupt between passes.
        """
    @overload
    def embed_batch(
        self,
        texts: Iterable[_Text | _Tokens],
        *,
        layer: int | None = None,
        pooling: Literal["every"],
        normalise: bool = True,
        prefix: _Text | _Tokens | None = None,
        token_budget: int | None = None,
    ) -> list[_Array]: ...
    def read(self, text: _Text | _Tokens) -> None:
        """Reads text or token ids: goes on from the model's state, and changes it.

        Raises InputError, DeviceError, StateError; KeyboardInterrupt between passes, those before it were read.
        """
    def logits(self, text: _Text | _Tokens, every: bool = False) -> _Array:
        """Reads text or token ids as `read` does; the logits after the last token, float32 [V], or after every one, [T,
        V].

        Raises InputError, DeviceError, StateError.
        """
    def reset(self) -> None:
        """Forgets everything read."""
    def save_state(self, path: _Path) -> None:
        """Writes the state to a file, whole or not at all."""
    def load_state(self, path: _Path) -> None:
        """Reads the state from a file written by `save_state`, or a tuned initial state; where it cannot, raises
        StateError and leaves the state as it was.
        """
    def fork(self) -> Model:
        """Another model that goes on from this one's state, on the same weights, kernels and caches."""

def tune(
    path: _Path,
    out: _Path | None = None,
    *,
    ledger: _Path | None = None,
    budget: float = 300.0,
    exhaustive: bool = False,
    only: list[str] | None = None,
    chunks: list[int] | None = None,
    sequences: int | None = None,
    allow_int8: bool = False,
    fresh: bool = False,
    seeds: _Path | None = None,
    in_process: bool = False,
    device: int | str | None = None,
    listen: Callable[[str], object] | None = None,
) -> TuneReport:
    """Finds the best plan for a model on a device: every candidate is checked against the reference, then timed.
    Returns what the plan is called, how many kernels were chosen, the chunk, and how many experiments were measured or
    recalled.

    out: the plan's file; None files it where `Model.load` finds it. budget: seconds to spend, roughly. ledger: where
    measurements are kept, by default beside the plan; an interrupted run goes on where it was. exhaustive: try every
    legal configuration. only: what to decide, of layouts, fusions, state, chunk and kernels; None for all. chunks:
    prefill chunks to compare. sequences: tune also for batched decode of so many. allow_int8: try also kernels that round to
    int8, with a quality gate of their own. fresh: search as if no plan were in use; otherwise the one that `Model.load`
    finds stays unless another is better. seeds: a file of configurations that enter the race, as `wgoose tune --seeds`
    takes it. in_process: run trials in this process, which a kernel that hangs or crashes takes with it; by default they
    run in another interpreter, which is killed then. listen: called with a line of text for whatever happens; what it raises,
    and KeyboardInterrupt, ends the sweep.

    Raises LoadError, DeviceError, Error.
    """
def bench(
    path: _Path,
    plan: _Path | None = None,
    device: int | str | None = None,
    gpu_budget: int | str | None = None,
    cpu: bool = False,
    *,
    foreign_plan: bool = False,
    chunk: int | None = None,
    prefill_tokens: int = 256,
    decode_tokens: int = 64,
    sequences: int = 1,
    runs: int = 6,
    cache: _Path | None = None,
    listen: Callable[[str], object] | None = None,
) -> BenchReport:
    """Measures a model as `wgoose bench` does: loading, the first token, reading a prompt, writing greedily; medians of so
    many samples, which are returned too. The answers must pass the quality gate, whose reference runs on the CPU once and is
    then kept in the folder `cache`.

    listen: called with a line of text for whatever comes next; what it raises, and KeyboardInterrupt, end the
    measurement after the run at hand.

    Raises LoadError, DeviceError, PlanError, Error.
    """
def convert(
    path: _Path,
    out: _Path,
    to: str | None = None,
    *,
    target_kl: float | None = None,
    budget_bytes: int | str | None = None,
    text: _Text | PathLike[str] | None = None,
    limit: int | None = None,
    plan: _Path | None = None,
    device: int | str | None = None,
    gpu_budget: int | str | None = None,
    cpu: bool = False,
    foreign_plan: bool = False,
    chunk: int | None = None,
    set: Mapping[str, str] | None = None,
    force: bool = False,
    check: bool = False,
    ignore_unknown: bool = False,
    vocab: _Path | None = None,
    adapter: _Path | tuple[_Path, float] | None = None,
    adapter_initial: _Path | None = None,
    listen: Callable[[int, int], object] | None = None,
) -> ConvertReport:
    """Writes a model as GGUF, or as safetensors, as `wgoose convert` does; the names say which. Returns a dict: bytes,
    tensors and weights of the file, its mix of formats, source_bytes, rounding (the largest error that rounding has made of
    one weight, relative, rms), worst (which) and, where it was checked, checked (weights compared).

    to: the formats, 'F32', 'F16', 'BF16', 'Q8_0', 'Q4_0', 'Q4_K_M', 'Q5_K_M' or 'Q6_K'; None keeps the precision of the
    source, F16 if it is quantised. 'auto' runs the model, measures every matrix in every format, and writes the
    smallest file whose mean KL divergence from the source is at most target_kl nats a token, or the file of least
    divergence that has at most budget_bytes (an int, or text such as '400MiB'); the dict then has allocation: tokens,
    kl (measured), estimated_kl, mixes (Q4_K_M, auto and source, with bytes and divergence) and tensors (every matrix
    with its format and what each format costs). text: a str or bytes, or the path of a file (an os.PathLike), to
    measure on; None has the model write one. limit: most tokens to measure on, 1024 if None. plan, device, gpu_budget,
    cpu, foreign_plan, chunk: as in `Model.load`.

    set: metadata of a GGUF file, such as {'general.license': 'MIT'}, beside what the source says of itself or in its
    place. force: replace a file of that name. check: read the file back and compare every tensor before it appears.
    ignore_unknown: leave out tensors that no op reads; otherwise such a source is a LoadError. adapter,
    adapter_initial: as in `Model.load`; the dict then has adapter, what was merged. vocab: a
    vocabulary file, or 'world', for a GGUF file whose source has none and has other than 65536 tokens.
    listen: called with the bytes done and in total, of the writing and then of the check, with 'auto' before that with
    the measurements; what it raises, and KeyboardInterrupt, leave no file.

    Raises LoadError, InputError (a name, a format, a goal), Error; with 'auto' also DeviceError and PlanError.
    """
def synth(
    out: _Path,
    preset: str | None = None,
    *,
    layers: int | None = None,
    width: int | None = None,
    ffn: int | None = None,
    head_size: int | None = None,
    vocab: int | None = None,
    ranks: Sequence[int] | None = None,
    deep_embed: int | None = None,
    mix: str = "F16",
    seed: int = 0,
    hot: bool = False,
    ffn_zeros: float | None = None,
    listen: Callable[[int, int], object] | None = None,
) -> SynthReport:
    """Makes a synthetic model, as `wgoose dev synth` does: same options, same bytes. Returns a dict: bytes, tensors and
    weights of the file, and its mix of formats.

    preset: a published size, '0.1B', '0.4B', '1.5B', '2.9B', '7.2B' or '13.3B'; or layers and width for a size of your own. ffn:
    width of the channel mix, 4 x width if None. head_size: channels per head, 64 if None. vocab: rows of the embedding
    and of the head, 65536 if None. ranks: of the adapters: decay, iclr, value, gate. deep_embed: size of the matrices of
    an RWKV-7a model, 32 in published ones; None makes an RWKV-7 model. mix: formats as in `convert`. hot: let relu^2
    come near the largest f16. ffn_zeros: share of zeros among the squares that ffn.value is multiplied with,
    0.5 to 0.99. listen: as in `convert`.

    Raises InputError (a size, a format, a name), Error.
    """
def evaluate(
    path: _Path,
    text: _Text | PathLike[str],
    plan: _Path | None = None,
    device: int | str | None = None,
    gpu_budget: int | str | None = None,
    cpu: bool = False,
    *,
    context: int | None = None,
    limit: int | None = None,
    against: _Path | None = None,
    against_plan: _Path | None = None,
    foreign_plan: bool = False,
    chunk: int | None = None,
    ignore_unknown: bool = False,
    vocab: _Path | None = None,
    adapter: _Path | tuple[_Path, float] | None = None,
    adapter_initial: _Path | None = None,
    listen: Callable[[int, float], object] | None = None,
) -> Evaluation:
    """How well a model predicts a text, as `wgoose eval` has it: bits per byte, perplexity, and, with against, how far it
    is from another model, quantisation or plan on the same tokens. Returns a dict, as `wgoose eval --json` prints it.

    text: a str or bytes, or the path of a file (an os.PathLike). Every token counts: reading begins with end-of-text,
    token 0. context: begin anew, with a fresh state, every so many tokens; None carries the state through the whole
    text. limit: stop after so many tokens. against: another model's path, or 'reference', the same model on the CPU
    reference, which is slow. against_plan: plan of that model, found if None. plan, device, gpu_budget, cpu,
    foreign_plan, chunk, ignore_unknown, vocab, adapter, adapter_initial: as in `Model.load`; another model is read
    without the adapter. listen: called with the bytes read and the bits per byte so far; what it raises, and
    KeyboardInterrupt, end the reading after the pass at hand.

    Raises LoadError, DeviceError, PlanError, InputError, Error.
    """
def trace(
    path: _Path,
    tokens: _Tokens,
    plan: _Path | None = None,
    device: int | str | None = None,
    gpu_budget: int | str | None = None,
    cpu: bool = False,
    *,
    out: _Path | None = None,
    only: list[str] | None = None,
    first_divergence: bool = False,
    foreign_plan: bool = False,
    chunk: int | None = None,
) -> TraceReport:
    """Shows what every op of the model makes, and the first that goes wrong on this GPU, as `wgoose dev trace` does. Returns a
    dict.

    outputs: a dict for each op in the order in which they run: pass, number in it, layer (None before the first and
    behind the last), name, op, values (float32 [rows, columns] or [planes, rows, columns]); with out, written: how many
    files. With first_divergence, ops: how many are within their tolerances, nearest: which came nearest to its own,
    divergence: the first that is not, or None; both with name, op, layer, kernel, got, want, error and tolerance.

    tokens: ids, as `Model.encode` makes them of a text. out: write each output into this folder instead, as
    pass-P/NNN-blocks.L.NAME.npy. only: only the outputs of these names, such as 'att.key'. first_divergence: hold each
    op against its CPU reference on the same operands, instead of outputs unless out is given; chunk=1 does so for the
    kernels of decoding. plan, device, gpu_budget, cpu, foreign_plan, chunk: as in `Model.load`.

    Raises LoadError, DeviceError, PlanError, InputError, Error; KeyboardInterrupt after the pass at hand.
    """
def chat_prompt(messages: Sequence[tuple[str, str]], think: bool = False) -> str:
    r"""The text of a conversation as the RWKV-7 G1 models know it, up to where the model answers, as `wgoose chat` has
    it.

    messages: pairs of a role ('system', 'user' or 'assistant') and a text. think: have the model think before it
    answers. An answer ends before "\n\nUser:".

    Raises InputError where a role is none of these.
    """

def devices() -> list[DeviceReport]:
    """The GPU adapters of this machine, the default first: a list of dicts, as `wgoose devices --json` prints them;
    empty where there are none. An adapter's place in it is what `device` takes.
    """
