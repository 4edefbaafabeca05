"""What a `Llama` does but for completions: it opens a model, reads, embeds, and keeps what it has read."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

import wgoose

from . import options
from .llama_types import CompletionUsage, CreateEmbeddingResponse
from .state import LlamaState

Opened = TypeVar("Opened", bound="Reader")

END_OF_TEXT = 0
ANY_SEED = 0xFFFFFFFF
"""What llama.cpp calls a seed that is to be drawn, beside -1."""
POOLINGS: dict[int, Literal["mean", "last", "every"]] = {-1: "mean", 0: "every", 1: "mean", 3: "last"}
"""What is made of a text's hidden states, by llama.cpp's numbers; it leaves -1 to the model."""


class Reader:
    """A model, and the tokens that it has read."""

    def __init__(
        self,
        model_path: str | PathLike[str],
        *,
        n_gpu_layers: int = -1,
        main_gpu: int = 0,
        seed: int = ANY_SEED,
        n_ctx: int = 0,
        n_batch: int | None = None,
        pooling_type: int = -1,
        embedding: bool = False,
        chat_format: Literal["rwkv-world"] | None = None,
        verbose: bool = False,
        plan: str | PathLike[str] | None = None,
        device: int | str | None = None,
        gpu_budget: int | str | None = None,
        cpu: bool = False,
        prefix_cache: int | str | None = None,
        **others: Any,
    ) -> None:
        """Opens a model file: GGUF, safetensors or .pth.

        n_gpu_layers: 0 runs on the slow CPU reference, as cpu=True does; other numbers on the GPU, where gpu_budget
        says how much memory to use. main_gpu: the adapter's index, unless device says it. seed: of completions that have
        none; -1 draws one for each. n_ctx: most tokens of a prompt and its completion; 0: no limit, RWKV needs none. n_batch:
        most tokens in one pass. pooling_type: of embeddings, 0 a vector for each token, 1 or -1 their mean, 3 the last.
        embedding: changes nothing, every model can embed. verbose: say on standard error what was opened. plan, device,
        gpu_budget, cpu, prefix_cache: as of `wgoose.Model.load`.

        Raises what `wgoose.Model.load` raises.
        """
        options.check_model(others)
        if pooling_type not in POOLINGS:
            raise wgoose.InputError(
                f"pooling_type={pooling_type}: take 0 (a vector for each token), 1 (mean) or 3 (last)"
            )
        if chat_format not in (None, "rwkv-world"):
            raise wgoose.InputError(f"chat_format={chat_format!r}: RWKV-7 models know 'rwkv-world' alone, leave it out")
        self.model_path = fspath(model_path)
        self.verbose = verbose
        self._seed = seed
        self._n_ctx = n_ctx
        self._pooling = POOLINGS[pooling_type]
        self._pooling_type = pooling_type
        self._turn = threading.Lock()
        if device is None and main_gpu != 0:
            device = main_gpu
        cpu = cpu or n_gpu_layers == 0
        self._model: wgoose.Model | None = wgoose.Model.load(
            model_path, plan, device, gpu_budget, cpu, chunk=n_batch, prefix_cache=prefix_cache
        )
        self._info = self._model.info
        self._empty = self._read = self._state([])
        if verbose:
            print(f"{self._model!r} on {self._info['device']}, plan: {self._info['plan']}", file=sys.stderr)

    def create_embedding(self, input: str | list[str], model: str | None = None) -> CreateEmbeddingResponse:
        """The vectors of a text, or of several: a dict."""
        texts = [input] if isinstance(input, str) else input
        vectors, tokens = self._embed(texts, normalise=False)
        return {
            "object": "list",
            "model": model or self.model_path,
            "data": [
                {"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def embed(
        self,
        input: str | list[str],
        normalize: bool = False,
        truncate: bool = True,
        return_count: bool = False,
    ) -> Any:
        """The vector of a text, or a list of those of several; with return_count, that and how many tokens were read.

        normalize: divide each by its length. truncate: changes nothing, a text may have any length.
        """
        vectors, tokens = self._embed([input] if isinstance(input, str) else input, normalise=normalize)
        answer = vectors[0] if isinstance(input, str) else vectors
        return (answer, tokens) if return_count else answer

    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> list[int]:
        """The tokens of a text. RWKV has none for a beginning or for markers: add_bos and special change nothing."""
        return self._open.tokenize(text, add_bos, special)

    def detokenize(self, tokens: list[int], prev_tokens: list[int] | None = None, special: bool = False) -> bytes:
        """The bytes of tokens. They depend on no tokens before: prev_tokens and special change nothing."""
        return self._open.detokenize(tokens)

    def eval(self, tokens: Sequence[int]) -> None:
        """Reads tokens, after those that were read before."""
        with self._turn:
            self._open.state = self._read.llama_state
            self._open.read(tokens)
            self._read = self._state([*self._read.input_ids.tolist(), *tokens])

    def reset(self) -> None:
        """Forgets what was read."""
        self._read = self._empty

    def save_state(self) -> LlamaState:
        """What was read by the last completion or by `eval`, to go on from later; it can be pickled."""
        _ = self._open
        return self._read

    def load_state(self, state: LlamaState) -> None:
        """Goes on from there: a completion whose prompt begins with its tokens reads only the others.

        Raises StateError where it is of another model.
        """
        if state.fingerprint != self._info["fingerprint"]:
            raise wgoose.StateError(f"the state is of the model with fingerprint {state.fingerprint}, not of this one")
        self._read = state

    @property
    def input_ids(self) -> npt.NDArray[np.intc]:
        """The tokens that were read."""
        return self._read.input_ids

    @property
    def n_tokens(self) -> int:
        """How many tokens were read."""
        return self._read.n_tokens

    def n_ctx(self) -> int:
        """Most tokens of a prompt and its completion; where there is no limit, the largest number."""
        return self._n_ctx or sys.maxsize

    def n_embd(self) -> int:
        """The width of the model, and of its vectors."""
        return int(self._info["width"])

    def n_vocab(self) -> int:
        """How many tokens there are."""
        return int(self._info["vocab"])

    def pooling_type(self) -> int:
        """What is made of a text's hidden states."""
        return self._pooling_type

    def set_seed(self, seed: int) -> None:
        """Sets the seed of completions that have none."""
        self._seed = seed

    def token_eos(self) -> int:
        """End-of-text."""
        return END_OF_TEXT

    def token_bos(self) -> int:
        """End-of-text, which texts are trained after."""
        return END_OF_TEXT

    def token_nl(self) -> int:
        """A line end."""
        return self.tokenize(b"\n")[0]

    def close(self) -> None:
        """Lets go of the model."""
        self._model = None

    def __enter__(self: Opened) -> Opened:
        """The model, to be closed at the end."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets go of the model."""
        self.close()

    @property
    def _open(self) -> wgoose.Model:
        if self._model is None:
            raise wgoose.Error(f"{self.model_path} was closed: open it again")
        return self._model

    def _state(self, tokens: list[int]) -> LlamaState:
        """The model's state, which has read these tokens."""
        return LlamaState(tokens, self._open.state, self._info["fingerprint"])

    def _generate(
        self,
        tokens: list[int],
        max_tokens: int | None,
        seed: int | None,
        *,
        logit_bias: Mapping[int, float] | None,
        **sampling: Any,
    ) -> tuple[wgoose.Generation, list[int]]:
        """Starts a generation after these tokens; returns it and them."""
        # As JSON has them, keys are texts; llama-cpp-python takes these too.
        bias = {int(token): value for token, value in (logit_bias or {}).items()}
        tokens = tokens or [END_OF_TEXT]
        if max_tokens is not None and max_tokens <= 0:
            max_tokens = None
        if self._n_ctx > 0:
            room = self._n_ctx - len(tokens)
            if room <= 0:
                text = (
                    f"a prompt of {len(tokens)} tokens with n_ctx={self._n_ctx}: leave n_ctx out, RWKV needs no limit"
                )
                raise wgoose.InputError(text)
            max_tokens = room if max_tokens is None else min(max_tokens, room)
        seed = self._seed if seed is None else seed
        drawn = seed in (-1, ANY_SEED)
        with self._turn:
            known = self._read.n_tokens
            if len(tokens) <= known or tokens[:known] != self._read.input_ids.tolist():
                known = 0
            if known:
                self._open.state = self._read.llama_state
            else:
                self._open.reset()
            generation = self._open.generate(
                tokens[known:], max_tokens, seed=None if drawn else seed, logit_bias=bias, **sampling
            )
        return generation, tokens

    def _remember(self, generation: wgoose.Generation, read: list[int]) -> CompletionUsage:
        """Takes over what a generation has read, at its end."""
        made = generation.tokens
        self._read = LlamaState([*read, *made], generation.state, self._info["fingerprint"])
        prompt, completion = len(read), len(made)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _embed(self, texts: list[str], normalise: bool) -> tuple[list[Any], int]:
        """The vectors of texts as lists, and how many tokens they have."""
        tokens = [self.tokenize(text.encode()) for text in texts]
        if self._pooling == "every":
            vectors = self._open.embed_batch(tokens, pooling="every", normalise=normalise)
        else:
            vectors = list(self._open.embed_batch(tokens, pooling=self._pooling, normalise=normalise))
        return [vector.tolist() for vector in vectors], sum(map(len, tokens))
