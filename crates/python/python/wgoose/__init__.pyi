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
    """What a model has read: a mapping of names to float32 arrays, read-only, which share this object's memory.

    For each layer i: 'blocks.i.att_shift' [C], 'blocks.i.wkv' [heads, value, key], 'blocks.i.ffn_shift' [C].
    """

    @property
    def nbytes(self) -> int: ...
    def __reduce__(self) -> tuple[Callable[[str, dict[str, _Array]], State], tuple[str, dict[str, _Array]]]: ...
    def __getitem__(self, name: str, /) -> _Array: ...
    def __contains__(self, name: str, /) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    @overload
    def get(self, name: str, default: None = None, /) -> _Array | None: ...
    @overload
    def get(self, name: str, default: _Default, /) -> _Array | _Default: ...
    def keys(self) -> list[str]: ...
    def values(self) -> list[_Array]: ...
    def items(self) -> list[tuple[str, _Array]]: ...

@final
class Generation:
    """An iterator over the text of a generation; reading one of its properties ends it."""

    @property
    def finish_reason(self) -> Literal["stop", "length"] | None: ...
    @property
    def tokens(self) -> list[int]: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def state(self) -> State: ...
    def __iter__(self) -> Generation: ...
    def __next__(self) -> str: ...
    def close(self) -> None: ...

@final
class CompletionStream:
    """An iterator over the pieces of a completion; the last one has no text and says why it ended."""

    def __iter__(self) -> CompletionStream: ...
    def __next__(self) -> CreateCompletionStreamResponse: ...

@final
class Model:
    """An RWKV-7 model, and the state of what it has read."""

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
    ) -> Model: ...
    @property
    def info(self) -> dict[str, Any]: ...
    @property
    def state(self) -> State: ...
    @state.setter
    def state(self, value: State | Mapping[str, npt.NDArray[np.float32]]) -> None: ...
    def encode(self, text: _Text) -> list[int]: ...
    def tokenize(self, text: _Text, add_bos: bool = False, special: bool = False) -> list[int]: ...
    def decode(self, tokens: _Tokens) -> str: ...
    def detokenize(self, tokens: _Tokens) -> bytes: ...
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

        max_tokens None goes on until the text ends by itself; seed None draws one. stop, stop_tokens: what the text ends
        before. `help(wgoose.Model.generate)` has the others.
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
        """Continues a prompt: a dict as OpenAI's API has it, or, with stream=True, an iterator over dicts."""
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
    ) -> _Array: ...
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
    ) -> _Array: ...
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
    def read(self, text: _Text | _Tokens) -> None: ...
    def logits(self, text: _Text | _Tokens, every: bool = False) -> _Array: ...
    def reset(self) -> None: ...
    def save_state(self, path: _Path) -> None: ...
    def load_state(self, path: _Path) -> None: ...
    def fork(self) -> Model: ...

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
) -> dict[str, Any]: ...
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
) -> dict[str, Any]: ...
def chat_prompt(messages: Sequence[tuple[str, str]], think: bool = False) -> str:
    """The text of a conversation as the RWKV-7 G1 models know it, up to where the model answers.

    messages: pairs of a role ('system', 'user' or 'assistant') and a text. An answer ends before "\\n\\nUser:".
    """

def devices() -> list[dict[str, Any]]:
    """The GPU adapters of this machine, the default first, as `wgoose devices --json` prints them."""
