"""README is true: its scripts run as they are printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"
FIRST_PAGE = Path(__file__).parents[3] / "docs" / "python.md"
MIGRATING = Path(__file__).parents[3] / "docs" / "migrating.md"


def test_scripts_run(
    tool: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other: later ones go on with the model of the first."""
    sizes = "--layers 4 --width 128 --ffn 256 --vocab 320 --head-size 64 --ranks 32,24,16,48 --mix F16 --seed 1"
    tool("dev", "synth", tmp_path / "model.gguf", *sizes.split())
    monkeypatch.chdir(tmp_path)
    scripts = [block.split("```")[0] for block in README.read_text().split("```python\n")[1:]]
    names: dict[str, object] = {}
    for script in scripts:
        exec(script, names)
    assert len(scripts) >= 4 and (tmp_path / "goose.state").exists()
    said = capsys.readouterr().out
    assert "Q: Name a goose. A:" in said and said.endswith("b'a goose' True\n")


def test_the_first_page_s_script_runs(
    tool: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script of docs/python.md; crates/cli/tests/cli/readme.rs runs the commands of all pages."""
    tool("dev", "synth", tmp_path / "model.gguf", *"--layers 1 --width 64 --ffn 64 --vocab 320 --ranks 16,16,16,16".split())
    monkeypatch.chdir(tmp_path)
    (script,) = [block.split("```")[0] for block in FIRST_PAGE.read_text().split("```python\n")[1:]]
    exec(script, {})
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "(1, 64, 64)" and said[-2].startswith("[")


def test_the_calls_of_web_rwkv_s_applications_run(
    tool: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script of docs/migrating.md."""
    sizes = "--layers 2 --width 128 --ffn 128 --vocab 320 --ranks 16,16,16,16"
    tool("dev", "synth", tmp_path / "model.gguf", *sizes.split())
    monkeypatch.chdir(tmp_path)
    (script,) = [block.split("```")[0] for block in MIGRATING.read_text().split("```python\n")[1:]]
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["logits"].shape == (320,) and (names["more"] != names["logits"]).any()
    assert abs(names["vectors"][0] @ names["vector"] - 1) < 1e-6
    cosine = float(capsys.readouterr().out.splitlines()[-1])
    twice = names["document"]("a goose") @ names["document"]("a goose")
    assert -1 <= cosine < 1 and abs(twice - 1) < 1e-6


def test_commands_are_known() -> None:
    """A command that is new on the page must be tried somewhere, and said here where."""
    blocks = [block.split("```")[0] for block in README.read_text().split("```sh\n")[1:]]
    commands = [line.split(" #")[0].strip() for block in blocks for line in block.splitlines()]
    assert commands == [
        "pip install .",  # `cargo xtask test` builds the wheel and installs it
        "pytest crates/python/tests --wgoose target/debug/wgoose",  # this
        "python crates/python/tests/soak.py model.gguf --requests 1000 --threads 8",  # an hour: CONTRIBUTING.md
    ]
