"""Scripts written for llama-cpp-python run after changing the import alone; where that package is installed, they run as they are.

`oracle/scripts_beside_llama.py` runs them with both on a trained model, and compares what they print.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import warnings
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
IMPORTS = {
    "from llama_cpp import Llama": "from wgoose.llama_cpp import Llama",
    "import llama_cpp": "import wgoose.llama_cpp as llama_cpp",
}


def ported(script: str) -> str:
    """The script with another import, in which nothing else has changed."""
    lines = script.splitlines()
    changed = [IMPORTS.get(line, line) for line in lines]
    assert sum(a != b for a, b in zip(lines, changed, strict=True)) == 1
    return "\n".join(changed)


def test_scripts_cover_every_common_call() -> None:
    """For everything that people use."""
    assert len(SCRIPTS) >= 10
    text = "".join(script.read_text() for script in SCRIPTS)
    for call in ["llm(", "create_completion", "stream=True", "create_chat_completion", "create_embedding", "llm.embed"]:
        assert call in text
    for call in ["save_state", "load_state", "tokenize", "detokenize", "eval(", "reset()", "close()"]:
        assert call in text


@pytest.mark.parametrize("package", ["wgoose.llama_cpp", "llama_cpp"])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_scripts_run(
    script: Path,
    package: str,
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Each says something, and what it asserts of the answers holds."""
    text = script.read_text()
    if package == "wgoose.llama_cpp":
        text = ported(text)
    elif importlib.util.find_spec(package) is None:
        pytest.skip("llama-cpp-python is not installed")
    shutil.copy(path, tmp_path / "model.gguf")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        # Hints for llama.cpp's speed are ignored, and said to be.
        warnings.filterwarnings("ignore", message=".* tells llama.cpp how to be fast")
        exec(compile(text, str(script), "exec"), {"__name__": "__main__"})
    assert re.search(r"\S", capfd.readouterr().out)
