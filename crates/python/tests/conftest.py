"""Tiny models with random weights, made by the command-line tool, on the GPU (or lavapipe) and on the CPU reference."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import wgoose

ROOT = Path(__file__).parents[3]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Says where the command-line tool is."""
    parser.addoption("--wgoose", type=Path, default=ROOT / "target/debug/wgoose", help="the command-line tool")


@pytest.fixture(scope="session")
def tool(request: pytest.FixtureRequest) -> Callable[..., str]:
    """The command-line tool: words in, standard output out."""
    path = request.config.getoption("--wgoose")

    def run(*words: object) -> str:
        done = subprocess.run([path, *map(str, words)], check=True, capture_output=True)
        return done.stdout.decode()  # as text=True, but carriage returns stay

    return run


@pytest.fixture(scope="session")
def path(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two layers and 320 tokens."""
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    sizes = "--layers 2 --width 128 --ffn 256 --vocab 320 --head-size 64 --ranks 32,24,16,48 --mix F16 --seed 1"
    tool("dev", "synth", path, *sizes.split())
    return path


@pytest.fixture(scope="session")
def other_path(tool: Callable[..., str], path: Path) -> Path:
    """A model of the same sizes with other weights."""
    other = path.with_name("other.gguf")
    sizes = "--layers 2 --width 128 --ffn 256 --vocab 320 --head-size 64 --ranks 32,24,16,48 --mix F16 --seed 2"
    tool("dev", "synth", other, *sizes.split())
    return other


@pytest.fixture(params=["gpu", "cpu"])
def cpu(request: pytest.FixtureRequest) -> bool:
    """Whether a test runs on the CPU reference."""
    return request.param == "cpu"


@pytest.fixture
def model(path: Path, cpu: bool) -> wgoose.Model:
    """A model that has read nothing."""
    return wgoose.Model.load(path, cpu=cpu)
