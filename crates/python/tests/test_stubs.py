"""The stubs say what the module has, and what is written in Python keeps to its types."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import wgoose

SCRIPT = """
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
"""


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


def documented(body: list[ast.stmt], owner: object) -> Iterator[tuple[str, str, str]]:
    """The names of a stub, with the texts that it and the module have for them."""
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("__"):
            continue
        here, text = inspect.getattr_static(owner, node.name), ast.get_docstring(node)
        here = getattr(here, "__func__", here)  # a static method's text is its function's
        decorators = set(map(ast.unparse, node.decorator_list))
        # Setters, and of overloads all but the first, have none.
        if text or not decorators & {"overload", f"{node.name}.setter"}:
            yield node.name, " ".join((text or "").split()), " ".join((inspect.getdoc(here) or "").split())
        if isinstance(node, ast.ClassDef):
            yield from documented(node.body, here)


def test_stubs_have_the_docstrings_of_the_module() -> None:
    """The stubs have the texts of the module, which are written once, in Rust."""
    assert wgoose.__file__
    stub = ast.parse(Path(wgoose.__file__).with_suffix(".pyi").read_text())
    names = 0
    for name, stubs, modules in documented(stub.body, wgoose):
        assert stubs == modules, name
        names += 1
    assert names > 40
    assert "max_tokens=128" in str(inspect.signature(wgoose.Model.generate)), "real defaults"
