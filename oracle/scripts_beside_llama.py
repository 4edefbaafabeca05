"""Scripts for llama-cpp-python on llama.cpp and, with another import, on wgoose: `scripts_beside_llama.py`.

The Python that runs it has both packages, `llama-cpp-python` and `wgoose`. The scripts are those of
`crates/python/tests/scripts`, the model is the demo model. Every script must end well on both. What is greedy, and
the nearest of some texts, must be the same on both; what is drawn by chance cannot be, and chats cannot, either: the
demo model names no chat template, and where there is none each program has its own.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "assets" / "demo.gguf"
SCRIPTS = ROOT / "crates" / "python" / "tests" / "scripts"
IMPORTS = {
    "from llama_cpp import Llama": "from wgoose.llama_cpp import Llama",
    "import llama_cpp": "import wgoose.llama_cpp as llama_cpp",
}
SAME = {"similarity", "state", "streaming"}


def ported(script: str) -> str:
    """The script with another import."""
    return "\n".join(IMPORTS.get(line, line) for line in script.splitlines())


def run(script: str, folder: Path) -> str:
    """What a script prints on the model of a folder."""
    file = folder / "script.py"
    file.write_text(script)
    # Mesa complains where nobody is logged in.
    environment = {"XDG_RUNTIME_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **os.environ}
    done = subprocess.run([sys.executable, file], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ValueError(done.stderr.strip().rpartition("\n")[2] or f"exit code {done.returncode}")
    return done.stdout


def check(script: Path, folder: Path) -> None:
    """Runs a script on both; raises `ValueError` with what is wrong."""
    text = script.read_text()
    outputs = []
    for name, one in {"llama_cpp": text, "wgoose": ported(text)}.items():
        try:
            outputs.append(run(one, folder))
        except ValueError as failed:
            raise ValueError(f"{name}: {failed}") from failed
    is_same = outputs[0] == outputs[1]
    if script.stem in SAME and not is_same:
        raise ValueError(f"llama_cpp prints {outputs[0]!r}, wgoose {outputs[1]!r}")
    print(f"{script.stem:<16} runs on both{', the same output' if is_same else ''}", flush=True)


def main() -> None:
    """Runs every script; exits with 1 where one fails."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("llama-cpp-python", "wgoose"))
    print(f"{date.today()}  {packages}, {platform.machine()}")
    failures = 0
    for script in sorted(SCRIPTS.glob("*.py")):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(DEMO, Path(folder) / "model.gguf")
            try:
                check(script, Path(folder))
            except ValueError as failed:
                failures += 1
                print(f"{script.stem:<16} FAILED: {failed}", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
