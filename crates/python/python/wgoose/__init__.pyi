"""RWKV-7 language models on any GPU: `Model.load`, then `generate`, `embed`, `logits`, `state`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, TypeVar, final, overload

import numpy as np
import numpy.typing as npt

from .llama_cpp.llama_types import CreateCompletionResponse, CreateCompletionStreamResponse

__all__ = [
    "CompletionStream",
    "DeviceError",
    "Error",
    "ForkError",
    "Generation",
    "InputError",
    "LoadError",
    "Model",
    "PlanError",
    "State",
    "StateError",
    "__version__",
    "bench",
    "chat_prompt",
    "devices",
    "tune",
]

__version__: str

_Array: TypeAlias = npt.NDArray[np.float32]
_Default = TypeVar("_Default")
_Path: TypeAlias = str | PathLike[str]
_Text: TypeAlias = str | bytes
_Tokens: TypeAlias = Iterable[int] | npt.NDArray[np.integer[Any]]
_Pooling: TypeAlias = Literal["mean", "last", "every", "state"]
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
class State:
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
    def __contains__(self, name: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    @overload
    def get(self, name: str, default: None = None, /) -> _Array | None:
        """The tensor of that name, or the default."""
    @overload
    def get(self, name: str, default: _Default, /) -> _Array | _Default: ...
    def keys(self) -> list[str]:
        """The names of the tensors, layer by layer."""
    def values(self) -> list[_Array]:
        """The tensors, layer by layer."""
    def items(self) -> list[tuple[str, _Array]]:
        """Names and tensors, layer by layer."""

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
    ) -> Model:
        """staticmethod(function) -> method

        Convert a function to be a static method.

        A static method does not receive an implicit first argument. To declare a static method, use this idiom:

        class C: @staticmethod def f(arg1, arg2, argN): ...

        It can be called either on the class (e.g. C.f()) or on an instance (e.g. C().f()). Both the class and the
        instance are ignored, and neither is passed implicitly as the first argument to the method.

        Static methods in Python are similar to those found in Java or C++. For a more advanced concept, see the
        classmethod builtin.
        """
    @property
    def info(self) -> dict[str, Any]:
        """What the model is and where it runs: a dict."""
    @property
    def state(self) -> State:
        """What the model has read: arrays that share the memory of a copy made now. Setting it, to a State or to a dict
        of arrays, copies them to the device.
        """
    @state.setter
    def state(self, value: State | Mapping[str, npt.NDArray[np.float32]]) -> None: ...
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
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
    ) -> Generation:
        """Continues a prompt, text or token ids: an iterator over text as it comes.

        max_tokens None goes on until the text ends by itself. temperature 0 is greedy; top_p keeps the likeliest tokens
        whose probabilities reach this sum, top_k at most so many (0: all), typical of these those nearest to the
        expected information until their probabilities reach this sum. The same seed, plan and device give the same
        text; seed None draws one. stop: a string, or several, before which the text ends; stop_tokens: tokens that end
        it as end-of-text (0) does. presence_penalty is subtracted from the logit of every token chosen before,
        frequency_penalty for each time that it was; penalty_decay: factor by which these counts shrink with every
        token. logit_bias: a dict of tokens and what is added to their logits; minus infinity never chooses one.

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
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
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
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
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
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
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
        typical: float = 1.0,
        logit_bias: dict[int, float] | None = None,
        stop_tokens: list[int] | None = None,
    ) -> CreateCompletionResponse | CompletionStream: ...
    def embed(
        self,
        text: _Text | _Tokens,
        *,
        layer: int | None = None,
        pooling: _Pooling = "mean",
        normalise: bool = True,
        prefix: _Text | _Tokens | None = None,
        token_budget: int | None = None,
    ) -> _Array:
        """The embedding of a text, or of token ids: float32, [width] for pooling 'mean' and 'last', [tokens, width] for
        'every', [heads, value, key] for 'state' (the WKV state of the layer instead of hidden states).

        layer: take hidden states after this layer, from 0, instead of after the last norm. normalise: divide each row
        by its length. prefix: text or tokens read before, such as an instruction. token_budget: most tokens of several
        texts in one pass; changes no bit.

        Raises InputError, DeviceError.
        """
    @overload
    def embed_batch(
        self,
        texts: Iterable[_Text | _Tokens],
        *,
        layer: int | None = None,
        pooling: Literal["mean", "last", "state"] = "mean",
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
    chunks: list[int] | None = None,
    sequences: int | None = None,
    allow_int8: bool = False,
    device: int | str | None = None,
    listen: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Finds the best plan for a model on a device: every candidate is checked against the reference, then timed.
    Returns what the plan is called, how many kernels were chosen, the chunk, and how many experiments were measured or
    recalled.

    out: the plan's file; None files it where `Model.load` finds it. budget: seconds to spend, roughly. ledger: where
    measurements are kept, by default beside the plan; an interrupted run goes on where it was. exhaustive: try every
    legal configuration. chunks: prefill chunks to compare. sequences: tune also for batched decode of so many.
    allow_int8: try also kernels that round to int8, with a quality gate of their own. listen: called with a line of
    text for whatever happens; what it raises, and KeyboardInterrupt, ends the sweep.

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
    runs: int = 5,
    cache: _Path | None = None,
) -> dict[str, Any]:
    """Measures a model as `wgoose bench` does: loading, the first token, reading a prompt, writing greedily; medians of
    so many runs, with the samples. The answers must pass the quality gate, whose reference runs on the CPU once and is
    then kept in the folder `cache`.

    Raises LoadError, DeviceError, PlanError, Error.
    """
def chat_prompt(messages: Sequence[tuple[str, str]], think: bool = False) -> str:
    r"""The text of a conversation as the RWKV-7 G1 models know it, up to where the model answers, as `wgoose chat` has
    it.

    messages: pairs of a role ('system', 'user' or 'assistant') and a text. think: have the model think before it
    answers. An answer ends before "\n\nUser:".

    Raises InputError where a role is none of these.
    """

def devices() -> list[dict[str, Any]]:
    """The GPU adapters of this machine, the default first: a list of dicts, as `wgoose devices --json` prints them;
    empty where there are none. An adapter's place in it is what `device` takes.
    """
