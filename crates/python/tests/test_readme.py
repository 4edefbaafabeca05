"""README is true: its scripts run as they are printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_scripts_run(
    tool: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One after the other: later ones go on with the model of the first."""
    sizes = "--layers 4 --width 128 --ffn 256 --vocab 320 --head-size 64 --ranks 32,24,16,48 --mix F16 --seed 1"
    tool("synth", tmp_path / "model.gguf", *sizes.split())
    monkeypatch.chdir(tmp_path)
    scripts = [block.split("```")[0] for block in README.read_text().split("```python\n")[1:]]
    names: dict[str, object] = {}
    for script in scripts:
        exec(script, names)
    assert len(scripts) >= 4 and (tmp_path / "goose.state").exists()
    said = capsys.readouterr().out
    assert "Q: Name a goose. A:" in said and said.endswith("b'a goose' True\n")
