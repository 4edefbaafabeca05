"""The dicts of completions, whole and in pieces."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from .llama_types import (
    ChatCompletionStreamResponseDelta,
    CompletionUsage,
    CreateChatCompletionResponse,
    CreateChatCompletionStreamResponse,
    CreateCompletionResponse,
    CreateCompletionStreamResponse,
)


@dataclass(frozen=True)
class Heading:
    """What all dicts of a completion say."""

    model: str
    id: str = field(default_factory=lambda: f"cmpl-{uuid.uuid4()}")
    created: int = field(default_factory=lambda: int(time.time()))

    def piece(self, text: str, reason: Literal["stop", "length"] | None = None) -> CreateCompletionStreamResponse:
        """A piece of a completion."""
        return {
            "id": self.id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [{"text": text, "index": 0, "logprobs": None, "finish_reason": reason}],
        }

    def whole(
        self, text: str, reason: Literal["stop", "length"] | None, usage: CompletionUsage
    ) -> CreateCompletionResponse:
        """A completion."""
        return {**self.piece(text, reason), "usage": usage}

    def chat_piece(
        self, delta: ChatCompletionStreamResponseDelta, reason: Literal["stop", "length"] | None = None
    ) -> CreateChatCompletionStreamResponse:
        """A piece of an answer."""
        return {
            "id": f"chat{self.id}",
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
        }

    def chat_whole(
        self, text: str, reason: Literal["stop", "length"] | None, usage: CompletionUsage
    ) -> CreateChatCompletionResponse:
        """An answer."""
        return {
            "id": f"chat{self.id}",
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "logprobs": None,
                    "finish_reason": reason,
                }
            ],
            "usage": usage,
        }


def without_leading_blanks(pieces: Iterable[str]) -> Iterator[str]:
    """The pieces of an answer: the blank that parts it from 'Assistant:' is no part of it."""
    begun = False
    for piece in pieces:
        text = piece if begun else piece.lstrip()
        begun = begun or text != ""
        if text:
            yield text
