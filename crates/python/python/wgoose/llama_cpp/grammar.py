"""Grammars of llama-cpp-python's calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import wgoose


class LlamaGrammar:
    """A grammar in llama.cpp's notation (GBNF) or Lark's, or a JSON schema."""

    def __init__(self, *, grammar: str | None = None, json_schema: Any = None) -> None:
        """One of them; it is compiled where it is used."""
        self._source = {"grammar": grammar, "json_schema": json_schema}

    @classmethod
    def from_string(cls, grammar: str, verbose: bool = True) -> LlamaGrammar:
        """The grammar of a text; verbose changes nothing."""
        return cls(grammar=grammar)

    @classmethod
    def from_file(cls, file: str | Path, verbose: bool = True) -> LlamaGrammar:
        """The grammar of a file; verbose changes nothing."""
        return cls(grammar=Path(file).read_text(encoding="utf-8"))

    @classmethod
    def from_json_schema(cls, json_schema: str, verbose: bool = True) -> LlamaGrammar:
        """The grammar of a JSON schema; verbose changes nothing."""
        return cls(json_schema=json_schema)

    def compiled(self, model: wgoose.Model, *, answer: bool = False, think: bool = False) -> wgoose.Grammar:
        """The grammar for a model; that of the answer of a chat, which may begin with thoughts."""
        return model.grammar(**self._source, answer=answer, think=think)


def grammar_of(
    model: wgoose.Model,
    grammar: LlamaGrammar | None,
    response_format: dict[str, Any] | None = None,
    *,
    answer: bool = False,
    think: bool = False,
) -> wgoose.Grammar | None:
    """What the options of a call say that the text has to be."""
    kind = (response_format or {}).get("type", "text")
    if kind not in ("text", "json_object"):
        raise wgoose.InputError(f"response_format of type {kind!r}: text and json_object are there")
    if kind == "json_object":
        if grammar is not None:
            raise wgoose.InputError("response_format says what grammar says: give one of them")
        grammar = LlamaGrammar(json_schema=(response_format or {}).get("schema") or {"type": "object"})
    if grammar is None:
        return None
    if not isinstance(grammar, LlamaGrammar):
        raise wgoose.InputError("grammar is a LlamaGrammar: LlamaGrammar.from_string(text) makes one")
    return grammar.compiled(model, answer=answer, think=think)
