"""The server, asked by OpenAI's own client."""

from __future__ import annotations

import struct
import subprocess
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import pytest


@pytest.fixture(scope="module")
def address(
    request: pytest.FixtureRequest, path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Where a server listens."""
    tool = request.config.getoption("--wgoose")
    kept = tmp_path_factory.mktemp("states")
    words = [tool, "serve", path, "--port", "0", "--backend", "cpu", "--api-key", "secret", "--state-dir", kept]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as served:
        assert served.stderr is not None
        lines = iter(served.stderr)
        line = next(line for line in lines if line.startswith("listening at "))
        # What it says of refusals needs a reader.
        threading.Thread(target=lambda: list(lines), daemon=True).start()
        yield line.split(" ")[2].rstrip(",")
        served.terminate()


@pytest.fixture
def client(address: str) -> openai.OpenAI:
    """A client that does not try again."""
    return openai.OpenAI(base_url=address, api_key="secret", max_retries=0)


def test_texts(client: openai.OpenAI, tool: Callable[..., str], path: Path) -> None:
    """Whole and as a stream, which ends, a text is the tool's."""
    want = tool("generate", path, "--backend", "cpu", "-p", "A goose", "-n", 12, "-t", 0).removesuffix("\n")
    asked = {"model": "tiny", "prompt": "A goose", "max_tokens": 12, "temperature": 0.0}
    whole = client.completions.create(**asked)
    assert whole.choices[0].text == want and whole.usage is not None
    is_cut = whole.usage.completion_tokens == 12
    assert whole.choices[0].finish_reason == ("length" if is_cut else "stop")
    pieces = list(client.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(choice.text for piece in pieces for choice in piece.choices) == want
    assert pieces[-1].usage == whole.usage
    several = client.completions.create(**asked | {"prompt": ["A goose", "A swan"]}, n=2)
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    assert several.choices[1].text == want


def test_chats(client: openai.OpenAI) -> None:
    """The stream of a chat has the text of the whole answer; the second turn starts from the prefix cache."""
    said: list[dict[str, str]] = [{"role": "user", "content": "A goose? " * 100}]
    whole = client.chat.completions.create(model="tiny", messages=said, max_tokens=9, temperature=0)
    answer = whole.choices[0].message.content
    stream = client.chat.completions.create(model="tiny", messages=said, max_tokens=9, temperature=0, stream=True)
    deltas = [piece.choices[0].delta.content or "" for piece in stream if piece.choices]
    assert "".join(deltas) == answer
    said += [{"role": "assistant", "content": answer or ""}, {"role": "user", "content": "A swan?"}]
    more = client.chat.completions.create(model="tiny", messages=said, max_tokens=1)
    assert more.usage is not None and more.usage.prompt_tokens_details is not None
    assert more.usage.prompt_tokens_details.cached_tokens


def test_embeddings(client: openai.OpenAI, tool: Callable[..., str], path: Path) -> None:
    """The default call, for which the client asks base64, has the tool's numbers."""
    found = client.embeddings.create(model="tiny", input=["a goose", "a swan"])
    plain = client.embeddings.create(model="tiny", input="a swan", encoding_format="float").data[0].embedding
    assert found.data[1].embedding == pytest.approx(plain) and len(plain) == 128
    raw = client.embeddings.create(model="tiny", input="a swan", encoding_format="base64").data[0].embedding
    assert list(struct.unpack("<128f", b64decode(str(raw)))) == pytest.approx(plain)


def test_errors(client: openai.OpenAI, address: str) -> None:
    """Errors are those that the client knows, and name their field."""
    with pytest.raises(openai.BadRequestError) as raised:
        client.completions.create(model="tiny", prompt="a", extra_body={"guided_json": {}}, stream=True)
    assert raised.value.param == "guided_json"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=address, api_key="wrong", max_retries=0).models.list()
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("goose")
    assert client.models.list().data[0].id == "tiny"


def test_many_clients(client: openai.OpenAI) -> None:
    """Answers in company are those alone, and a stream may be left."""

    def ask(prompt: str) -> str:
        asked = client.completions.create(model="tiny", prompt=prompt, max_tokens=10, temperature=1, seed=3)
        return asked.choices[0].text

    prompts = ["A goose", "x", "The swan swims on the lake"]
    alone = [ask(prompt) for prompt in prompts]
    with client.completions.create(model="tiny", prompt="a", max_tokens=30_000, stream=True) as left:
        next(iter(left))
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(ask, prompts * 8)) == alone * 8


def test_responses(client: openai.OpenAI) -> None:
    """A response continues a stored one; a stream has the same text."""
    first = client.responses.create(model="tiny", input="A goose?", max_output_tokens=6, temperature=0)
    asked = {"model": "tiny", "input": "A swan?", "max_output_tokens": 6, "temperature": 0.0}
    second = client.responses.create(**asked, previous_response_id=first.id)
    assert second.output_text and second.usage is not None and second.usage.output_tokens <= 6
    assert client.responses.retrieve(first.id).output_text == first.output_text
    with client.responses.stream(**asked, previous_response_id=first.id) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert "".join(deltas) == second.output_text
