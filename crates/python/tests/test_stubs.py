"""The stubs say what the module has, and what is written in Python keeps to its types."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = '''
from collections.abc import Iterator
from typing import Literal
from typing_extensions import assert_type

import wgoose
from wgoose.llama_cpp import Llama
from wgoose.llama_cpp.llama_types import CreateCompletionResponse, CreateCompletionStreamResponse

def typed(stream: bool) -> None:
    with Llama("model.gguf", n_ctx=512) as llm:
        assert_type(llm("a")["choices"][0]["finish_reason"], Literal["stop", "length"] | None)
        assert_type(next(llm("a", stream=True))["choices"][0]["text"], str)
        assert_type(llm("a", stream=stream), CreateCompletionResponse | Iterator[CreateCompletionStreamResponse])
        talk = llm.create_chat_completion([{"role": "user", "content": "a"}])
        assert_type(talk["choices"][0]["message"]["content"], str)
        assert_type(next(llm.create_chat_completion([], stream=True))["choices"][0]["delta"]["content"], str)
        assert_type(llm.create_embedding("a")["usage"]["total_tokens"], int)
    model = wgoose.Model.load("model.gguf")
    assert_type(model.create_completion([1, 2])["usage"]["prompt_tokens"], int)
    assert_type(next(model.create_completion("a", stream=True))["choices"][0]["text"], str)
    assert_type(model.create_completion("a", stream=stream), CreateCompletionResponse | wgoose.CompletionStream)
    llm("a", no_such=1)  # type: ignore[call-overload]
    talk["no_such"]  # type: ignore[typeddict-item]
'''


def run(tmp_path: Path, *words: object) -> tuple[int, str]:
    """What mypy says."""
    command = [sys.executable, "-m", *map(str, words)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def test_stubs_are_true(tmp_path: Path) -> None:
    """Names, arguments and defaults, both ways."""
    # The module within the package is no part of the interface.
    allowed = tmp_path / "allowed"
    allowed.write_text("wgoose.wgoose\n")
    code, said = run(tmp_path, "mypy.stubtest", "wgoose", "--allowlist", allowed)
    assert code == 0, said


def test_types_are_strict(tmp_path: Path) -> None:
    """All that is written in Python, and the dicts that scripts take apart."""
    code, said = run(tmp_path, "mypy", "--strict", "-p", "wgoose.llama_cpp")
    assert code == 0, said
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    code, said = run(tmp_path, "mypy", "--strict", script)
    assert code == 0, said
