"""The judge of kernels, as programs ask it: by JSON lines, and by the official client of the Model Context Protocol."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "kernels-wgsl/ops/mul/elements.wgsl").read_text()

VERDICTS = "FASTER SAME UNSURE SLOWER REFUSED WRONG RACE IMPOSSIBLE CRASHED TIMEOUT".split()


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Path:
    """Where the command-line tool is."""
    path: Path = request.config.getoption("--wgoose")
    return path.absolute()


def test_a_program_that_sees_json_alone_ends_with_a_faster_kernel(program: Path, tmp_path: Path) -> None:
    """The loop of `examples/` varies a text until the verdict is FASTER."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples/kernel_loop.py", program, tmp_path / "kernels"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines and all(line.split()[1] in VERDICTS for line in lines), done.stdout + done.stderr
    assert done.returncode == 0 and lines[-1].split()[1] == "FASTER", done.stdout + done.stderr


def call(program: Path, folder: Path, calls: Callable[[ClientSession], Any]) -> Any:
    """What calls come to in a session with the server."""

    async def session() -> Any:
        arguments = ["dev", "mcp", "--folder", str(folder)]
        server = StdioServerParameters(command=str(program), args=arguments)
        async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            return await calls(client)

    return asyncio.run(session())


def last(text: str) -> dict[str, Any]:
    """The last judgement of a call."""
    judgement: dict[str, Any] = json.loads(text.splitlines()[-1])
    return judgement


def test_the_same_by_tools(program: Path, tmp_path: Path, path: Path) -> None:
    """List, card, check, time and compare, by the official client."""

    async def calls(client: ClientSession) -> None:
        tools = await client.list_tools()
        assert {tool.name for tool in tools.tools} == {"list", "card", "check", "time", "compare"}

        async def text(tool: str, **arguments: object) -> str:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result
            return "".join(part.text for part in result.content)

        listed = await text("list")
        assert "matmul" in listed and "one thread per element" in listed
        card = json.loads(await text("card", op="mul", model=str(path), tokens=[4]))
        assert "y = a * b" in card["definition"] and "// grid:" in card["rules"]
        [instance] = card["instances"]
        assert [operand["name"] for operand in instance["operands"]] == ["a", "b"] and instance["best"]["us"] > 0

        wrong = TEXT.replace("a[i] * b[i]", "a[i] * min(b[i], 4.0)")
        judged = last(await text("check", op="mul", name="mine", text=wrong, seed=3))
        assert (judged["verdict"], judged["seed"]) == ("WRONG", 3)
        broken = last(await text("check", op="mul", name="mine", text=TEXT.replace("y[i] =", "y[i] +")))
        assert broken["verdict"] == "REFUSED"
        right = await text("check", op="mul", name="mine", text=TEXT)
        assert last(right)["verdict"] == "UNSURE"
        # Each instance has a minute of its own.
        slow = await text("time", op="matmul", name="naive", model=str(path), tokens=[8], budget=60, seconds=3)
        assert last(slow)["verdict"] == "TIMEOUT", slow
        # In this model two lines of a text beside the built-in kernel's: the same, or nearly.
        judged = last(await text("time", op="mul", name="mine", text=TEXT, model=str(path), tokens=[8], budget=1))
        assert judged["verdict"] in ("SAME", "UNSURE", "FASTER", "SLOWER")
        for arguments in ({"op": "honk", "name": "mine"}, {"op": "mul", "name": "../mine", "text": TEXT}):
            result = await client.call_tool("check", arguments)
            assert result.is_error, arguments

    call(program, tmp_path / "work", calls)
    assert not (tmp_path / "mine.wgsl").exists()
    assert {entry.name for entry in tmp_path.iterdir()} == {"work"}


def test_a_kernel_in_a_whole_model(program: Path, tmp_path: Path, path: Path) -> None:
    """Compare runs the model with the kernel in the place of its op's."""
    text = (ROOT / "kernels-wgsl/ops/embed/elements.wgsl").read_text().replace("// default: 10\n", "")
    text = text.replace("let row", "let line").replace("row >=", "line >=").replace("row - params", "line - params")

    async def calls(client: ClientSession) -> str:
        arguments = {"model": str(path), "op": "embed", "name": "lines", "text": text, "budget": 4}
        result = await client.call_tool("compare", arguments)
        assert not result.is_error, result
        return "".join(part.text for part in result.content)

    lines = [json.loads(line) for line in call(program, tmp_path, calls).splitlines()]
    assert lines and all(line["arm"] == "variant embed/lines" and line["verdict"] in VERDICTS for line in lines)
