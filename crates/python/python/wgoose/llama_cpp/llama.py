"""The class `Llama`: llama-cpp-python's calls on a `wgoose.Model`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, overload

import wgoose

from . import options
from .answers import Heading, without_leading_blanks
from .grammar import LlamaGrammar, grammar_of
from .llama_types import (
    ChatCompletionRequestMessage,
    CreateChatCompletionResponse,
    CreateChatCompletionStreamResponse,
    CreateCompletionResponse,
    CreateCompletionStreamResponse,
)
from .reader import Reader

NEXT_MESSAGE = "\n\nUser:"
"""Where an answer ends: the next message would begin."""


class Llama(Reader):
    """An RWKV-7 model with the calls of llama-cpp-python.

    A completion reads its prompt from the beginning, except for tokens that the last call has read. Options that wgoose
    cannot honour raise `wgoose.InputError`; those that only make llama.cpp fast are ignored with a warning.
    """

    @overload
    def create_completion(
        self,
        prompt: str | list[int],
        suffix: None = None,
        max_tokens: int | None = 16,
        temperature: float = 0.8,
        top_p: float = 0.95,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        logprobs: None = None,
        echo: bool = False,
        stop: str | list[str] | None = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        top_k: int = 40,
        stream: Literal[False] = False,
        seed: int | None = None,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        stopping_criteria: None = None,
        logits_processor: None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        *,
        penalty_decay: float = 1.0,
        stop_tokens: list[int] | None = None,
    ) -> CreateCompletionResponse: ...

    @overload
    def create_completion(
        self,
        prompt: str | list[int],
        suffix: None = None,
        max_tokens: int | None = 16,
        temperature: float = 0.8,
        top_p: float = 0.95,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        logprobs: None = None,
        echo: bool = False,
        stop: str | list[str] | None = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        top_k: int = 40,
        *,
        stream: Literal[True],
        seed: int | None = None,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        stopping_criteria: None = None,
        logits_processor: None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        penalty_decay: float = 1.0,
        stop_tokens: list[int] | None = None,
    ) -> Iterator[CreateCompletionStreamResponse]: ...

    @overload
    def create_completion(
        self,
        prompt: str | list[int],
        suffix: None = None,
        max_tokens: int | None = 16,
        temperature: float = 0.8,
        top_p: float = 0.95,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        logprobs: None = None,
        echo: bool = False,
        stop: str | list[str] | None = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        top_k: int = 40,
        *,
        stream: bool,
        seed: int | None = None,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        stopping_criteria: None = None,
        logits_processor: None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        penalty_decay: float = 1.0,
        stop_tokens: list[int] | None = None,
    ) -> CreateCompletionResponse | Iterator[CreateCompletionStreamResponse]: ...

    def create_completion(
        self,
        prompt: str | list[int],
        suffix: None = None,
        max_tokens: int | None = 16,
        temperature: float = 0.8,
        top_p: float = 0.95,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        logprobs: None = None,
        echo: bool = False,
        stop: str | list[str] | None = None,
        frequency_penalty: float = 0.0,
        presence_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        top_k: int = 40,
        stream: bool = False,
        seed: int | None = None,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        stopping_criteria: None = None,
        logits_processor: None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        *,
        penalty_decay: float = 1.0,
        stop_tokens: list[int] | None = None,
    ) -> CreateCompletionResponse | Iterator[CreateCompletionStreamResponse]:
        """Continues a prompt, a text or tokens: a dict, or, with stream=True, an iterator over dicts with a piece each.

        max_tokens None, 0 or less: until the text ends by itself, or n_ctx is reached. seed None: that of the model; -1
        draws one. repeat_penalty: `repetition_penalty` of `wgoose.Model.generate`, over the whole text. min_p,
        typical_p, presence_penalty, frequency_penalty, penalty_decay, logit_bias, stop_tokens: as there. model: what
        the answer calls the model. mirostat_tau and mirostat_eta mean nothing without mirostat_mode.

        Raises InputError for options that cannot be honoured, and what `wgoose.Model.generate` raises.
        """
        options.refuse(
            options.COMPLETION,
            suffix=suffix,
            logprobs=logprobs,
            tfs_z=tfs_z,
            mirostat_mode=mirostat_mode,
            stopping_criteria=stopping_criteria,
            logits_processor=logits_processor,
        )
        of_text = grammar_of(self._open, grammar)
        tokens = self._open.encode(prompt) if isinstance(prompt, str | bytes) else list(prompt)
        echoed = self._open.decode(tokens) if echo else ""
        generation, read = self._generate(
            tokens,
            max_tokens,
            seed,
            temperature=temperature,
            top_p=top_p,
            top_k=max(top_k, 0),
            min_p=min_p,
            typical=typical_p,
            stop=stop,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
            repetition_penalty=repeat_penalty,
            penalty_decay=penalty_decay,
            logit_bias=logit_bias,
            stop_tokens=stop_tokens,
            grammar=of_text,
        )
        heading = Heading(model or self.model_path)
        if stream:
            return self._stream(heading, generation, read, echoed)
        text = echoed + "".join(generation)
        usage = self._remember(generation, read)
        return heading.whole(text, generation.finish_reason, usage)

    __call__ = create_completion

    @overload
    def create_chat_completion(
        self,
        messages: list[ChatCompletionRequestMessage],
        functions: None = None,
        function_call: None = None,
        tools: None = None,
        tool_choice: None = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        stream: Literal[False] = False,
        stop: str | list[str] | None = None,
        seed: int | None = None,
        response_format: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        logits_processor: None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        logprobs: bool | None = None,
        top_logprobs: None = None,
        *,
        penalty_decay: float = 1.0,
        stop_tokens: list[int] | None = None,
        think: bool = False,
    ) -> CreateChatCompletionResponse: ...

    @overload
    def create_chat_completion(
        self,
        messages: list[ChatCompletionRequestMessage],
        functions: None = None,
        function_call: None = None,
        tools: None = None,
        tool_choice: None = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        *,
        stream: Literal[True],
        stop: str | list[str] | None = None,
        seed: int | None = None,
        response_format: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        logits_processor: None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        logprobs: bool | None = None,
        top_logprobs: None = None,
        penalty_decay: float = 1.0,
        stop_tokens: list[int] | None = None,
        think: bool = False,
    ) -> Iterator[CreateChatCompletionStreamResponse]: ...

    @overload
    def create_chat_completion(
        self,
        messages: list[ChatCompletionRequestMessage],
        functions: None = None,
        function_call: None = None,
        tools: None = None,
        tool_choice: None = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        *,
        stream: bool,
        stop: str | list[str] | None = None,
        seed: int | None = None,
        response_format: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        logits_processor: None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        logprobs: bool | None = None,
        top_logprobs: None = None,
        penalty_decay: float = 1.0,
        stop_tokens: list[int] | None = None,
        think: bool = False,
    ) -> CreateChatCompletionResponse | Iterator[CreateChatCompletionStreamResponse]: ...

    def create_chat_completion(
        self,
        messages: list[ChatCompletionRequestMessage],
        functions: None = None,
        function_call: None = None,
        tools: None = None,
        tool_choice: None = None,
        temperature: float = 0.2,
        top_p: float = 0.95,
        top_k: int = 40,
        min_p: float = 0.0,
        typical_p: float = 1.0,
        stream: bool = False,
        stop: str | list[str] | None = None,
        seed: int | None = None,
        response_format: dict[str, Any] | None = None,
        max_tokens: int | None = None,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repeat_penalty: float = 1.0,
        tfs_z: float = 1.0,
        mirostat_mode: int = 0,
        mirostat_tau: float = 5.0,
        mirostat_eta: float = 0.1,
        model: str | None = None,
        logits_processor: None = None,
        grammar: LlamaGrammar | None = None,
        logit_bias: dict[int, float] | None = None,
        logprobs: bool | None = None,
        top_logprobs: None = None,
        *,
        penalty_decay: float = 1.0,
        stop_tokens: list[int] | None = None,
        think: bool = False,
    ) -> CreateChatCompletionResponse | Iterator[CreateChatCompletionStreamResponse]:
        """Answers a conversation: a dict, or, with stream=True, an iterator over dicts with a piece each.

        The format is that of the RWKV-7 G1 models, as `wgoose chat` has it. think: the model thinks before it answers,
        and the answer begins with its thoughts. The other options are those of `create_completion`.

        Raises InputError for options and roles that cannot be honoured, and what `wgoose.Model.generate` raises.
        """
        options.refuse(
            options.COMPLETION,
            functions=functions,
            function_call=function_call,
            tools=tools,
            tool_choice=tool_choice,
            tfs_z=tfs_z,
            mirostat_mode=mirostat_mode,
            logits_processor=logits_processor,
            logprobs=logprobs,
            top_logprobs=top_logprobs,
        )
        of_text = grammar_of(self._open, grammar, response_format, answer=True, think=think)
        prompt = wgoose.chat_prompt([(message["role"], _text(message)) for message in messages], think)
        stops = [stop] if isinstance(stop, str) else list(stop or [])
        generation, read = self._generate(
            self.tokenize(prompt.encode()),
            max_tokens,
            seed,
            temperature=temperature,
            top_p=top_p,
            top_k=max(top_k, 0),
            min_p=min_p,
            typical=typical_p,
            stop=[*stops, NEXT_MESSAGE],
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
            repetition_penalty=repeat_penalty,
            penalty_decay=penalty_decay,
            logit_bias=logit_bias,
            stop_tokens=stop_tokens,
            grammar=of_text,
        )
        heading = Heading(model or self.model_path)
        opening = "<think" if think else ""
        if stream:
            return self._stream_chat(heading, generation, read, opening)
        text = opening + "".join(_answer(generation, opening))
        usage = self._remember(generation, read)
        return heading.chat_whole(text, generation.finish_reason, usage)

    def _stream(
        self, heading: Heading, generation: wgoose.Generation, read: list[int], echoed: str
    ) -> Iterator[CreateCompletionStreamResponse]:
        if echoed:
            yield heading.piece(echoed)
        for piece in generation:
            yield heading.piece(piece)
        self._remember(generation, read)
        yield heading.piece("", generation.finish_reason)

    def _stream_chat(
        self, heading: Heading, generation: wgoose.Generation, read: list[int], opening: str
    ) -> Iterator[CreateChatCompletionStreamResponse]:
        yield heading.chat_piece({"role": "assistant"})
        if opening:
            yield heading.chat_piece({"content": opening})
        for piece in _answer(generation, opening):
            yield heading.chat_piece({"content": piece})
        self._remember(generation, read)
        yield heading.chat_piece({}, generation.finish_reason)


def _answer(pieces: Iterable[str], opening: str) -> Iterator[str]:
    """The pieces of an answer, which goes on after an opening, or begins."""
    return iter(pieces) if opening else without_leading_blanks(pieces)


def _text(message: ChatCompletionRequestMessage) -> str:
    """The text of a message."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if wrong := [part["type"] for part in content if part["type"] != "text"]:
        raise wgoose.InputError(f"a message has a part of type {wrong[0]!r}: RWKV-7 models read text alone")
    return "".join(part["text"] for part in content)
