"""LangChain's OpenAI classes. Usage: langchain.py http://HOST:PORT/v1 KEY."""

import sys
from typing import Literal

from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

base, key = sys.argv[1:]
at = {"base_url": base, "api_key": key, "max_retries": 0}
chat = ChatOpenAI(model="any", temperature=0, max_tokens=12, **at)
whole = chat.invoke([("system", "Be brief."), ("user", "Honk?")])
pieces = chat.stream([("system", "Be brief."), ("user", "Honk?")])
assert "".join(str(piece.content) for piece in pieces) == whole.content
assert whole.usage_metadata is not None and whole.usage_metadata["output_tokens"] <= 12


def look(kind: Literal["goose", "swan"]) -> str:
    """Looks at a bird."""
    return kind


called = ChatOpenAI(model="any", max_tokens=200, **at).bind_tools([look], tool_choice="look").invoke("Honk?")
assert called.tool_calls[0]["name"] == "look" and called.tool_calls[0]["args"]["kind"] in ("goose", "swan")
text = OpenAI(model="any", temperature=0, max_tokens=8, **at)
assert "".join(text.stream("Honk")) == text.invoke("Honk")
assert text.batch(["Honk", "A swan"])[0] == text.invoke("Honk")
vectors = OpenAIEmbeddings(model="any", check_embedding_ctx_length=False, **at).embed_documents(["a", "b"])
assert len(vectors) == 2 and len(vectors[0]) == len(vectors[1]) > 0
