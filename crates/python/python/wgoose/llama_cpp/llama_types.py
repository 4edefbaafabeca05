"""What goes in and comes out: dicts of the shapes, and by the names, that llama-cpp-python has."""

from __future__ import annotations

from typing import Literal, TypedDict


class CompletionUsage(TypedDict):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionChoice(TypedDict):
    """A text, or a piece of one: only the last piece has a reason.

    'stop': the text ended, or came to a stop string; 'length': it has as many tokens as it may; None: it was closed.
    """

    text: str
    index: int
    logprobs: None
    finish_reason: Literal["stop", "length"] | None


class CreateCompletionStreamResponse(TypedDict):
    """A piece of a completion."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]


class CreateCompletionResponse(CreateCompletionStreamResponse):
    """A completion."""

    usage: CompletionUsage


class TextPart(TypedDict):
    """A part of a message."""

    type: Literal["text"]
    text: str


class ChatCompletionRequestMessage(TypedDict):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str | list[TextPart] | None


class ChatCompletionResponseMessage(TypedDict):
    """An answer."""

    role: Literal["assistant"]
    content: str


class ChatCompletionResponseChoice(TypedDict):
    """An answer, and why it ended."""

    index: int
    message: ChatCompletionResponseMessage
    logprobs: None
    finish_reason: Literal["stop", "length"] | None


class CreateChatCompletionResponse(TypedDict):
    """An answer to a conversation."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatCompletionResponseChoice]
    usage: CompletionUsage


class ChatCompletionStreamResponseDelta(TypedDict, total=False):
    """What a piece adds to an answer: its role first, then text, at last nothing."""

    role: Literal["assistant"]
    content: str


class ChatCompletionStreamResponseChoice(TypedDict):
    """A piece of an answer: only the last has a reason."""

    index: int
    delta: ChatCompletionStreamResponseDelta
    logprobs: None
    finish_reason: Literal["stop", "length"] | None


class CreateChatCompletionStreamResponse(TypedDict):
    """A piece of an answer to a conversation."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChatCompletionStreamResponseChoice]


class EmbeddingUsage(TypedDict):
    """Tokens."""

    prompt_tokens: int
    total_tokens: int


class Embedding(TypedDict):
    """The vector of a text; with pooling_type 0 a vector for each token."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | list[list[float]]


class CreateEmbeddingResponse(TypedDict):
    """The vectors of texts."""

    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: EmbeddingUsage
