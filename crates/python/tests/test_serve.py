"""The server, asked by OpenAI's own client."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal

import openai
import pydantic
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
        client.completions.create(model="tiny", prompt="a", extra_body={"guided_regex": "("}, stream=True)
    assert raised.value.param == "guided_regex"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=address, api_key="wrong", max_retries=0).models.list()
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("goose")
    assert client.models.list().data[0].id == "tiny"


class Bird(pydantic.BaseModel):
    """What a model of random weights writes under a schema."""

    model_config = pydantic.ConfigDict(extra="forbid")
    kind: Literal["goose", "swan"]
    is_wild: bool
    zip: Annotated[str, pydantic.StringConstraints(pattern="^[0-9]{5}$")]


def test_structured_output(client: openai.OpenAI) -> None:
    """The client's own parsing takes what comes, in chats and responses."""
    said: list[dict[str, str]] = [{"role": "user", "content": "A goose?"}]
    asked = {"model": "tiny", "messages": said, "max_tokens": 300, "seed": 5}
    parsed = client.chat.completions.parse(**asked, response_format=Bird)
    assert parsed.choices[0].finish_reason == "stop" and isinstance(parsed.choices[0].message.parsed, Bird)
    with client.chat.completions.stream(**asked, response_format=Bird) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == parsed.choices[0].message.parsed
    response = client.responses.parse(model="tiny", input="A goose?", text_format=Bird, store=False)
    assert isinstance(response.output_parsed, Bird)
    regex = client.completions.create(model="tiny", prompt="a", extra_body={"guided_regex": "[a-c]{5}"})
    assert re.fullmatch("[a-c]{5}", regex.choices[0].text)


def weather(name: str = "weather") -> openai.types.chat.ChatCompletionToolParam:
    """A tool."""
    parameters = {
        "type": "object",
        "properties": {"place": {"enum": ["Jena", "Weimar"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["place", "days"],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}


def test_tools(client: openai.OpenAI) -> None:
    """Calls come whole and as deltas, and their results continue the conversation."""
    said: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    asked: dict[str, Any] = {
        "model": "tiny",
        "tools": [weather(), weather("forecast")],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 300,
        "seed": 3,
    }
    whole = client.chat.completions.create(**asked, messages=said).choices[0]
    assert whole.finish_reason == "tool_calls" and whole.message.content is None and whole.message.tool_calls
    call = whole.message.tool_calls[0]
    assert call.type == "function" and call.function.name in ("weather", "forecast")
    arguments = json.loads(call.function.arguments)
    assert arguments["place"] in ("Jena", "Weimar") and 1 <= arguments["days"] <= 9
    with client.chat.completions.stream(**asked, messages=said) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls" and streamed.message.tool_calls
    assert streamed.message.tool_calls[0].function.arguments == call.function.arguments
    said += [whole.message, {"role": "tool", "tool_call_id": call.id, "content": "4 °C"}]
    more = client.chat.completions.create(**asked | {"tool_choice": "none", "max_tokens": 3}, messages=said)
    assert more.choices[0].message.tool_calls is None


def test_tools_of_responses(client: openai.OpenAI) -> None:
    """A call is an item, and its result goes to the stored response."""
    tool: Any = {**weather()["function"], "type": "function"}
    asked: dict[str, Any] = {"model": "tiny", "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
    response = client.responses.create(**asked, input="How is the weather?")
    call = response.output[0]
    assert call.type == "function_call" and json.loads(call.arguments)["place"] in ("Jena", "Weimar")
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "4 °C"}
    more = client.responses.create(
        model="tiny", input=[result], previous_response_id=response.id, max_output_tokens=3
    )
    assert more.previous_response_id == response.id
    with client.responses.stream(**asked, input="How is the weather?") as stream:
        kinds = [event.type for event in stream]
        streamed = stream.get_final_response().output[0]
    assert "response.function_call_arguments.done" in kinds and streamed.type == "function_call"


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
