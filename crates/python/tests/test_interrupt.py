"""Ctrl-C ends what takes long, soon, and leaves the model in order.

Greedy text after LONG goes on for 1337 tokens, which takes seconds.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import wgoose

LONG = "hello world"


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """A program that was started in the background ignores SIGINT from its birth."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def interrupted() -> Iterator[None]:
    """Sends SIGINT soon, from another thread, which can only run if ours has let go of Python's lock."""
    sender = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    sender.start()
    try:
        yield
    finally:
        sender.cancel()
        sender.join()


@pytest.mark.parametrize("stream", [False, True], ids=["generate", "stream"])
def test_ctrl_c_while_generating(model: wgoose.Model, stream: bool) -> None:
    """The text breaks off; the same model answers as before."""
    want = model.embed("A goose")
    pieces: list[object] = []
    with pytest.raises(KeyboardInterrupt), interrupted():
        # No line of Python runs in between that would notice the signal by itself.
        pieces.extend(
            model.create_completion(LONG, 2000, 0.0, stream=True) if stream else model.generate(LONG, 2000, 0.0)
        )
    assert len(pieces) < 1337
    assert (model.embed("A goose") == want).all()
    assert "".join(model.generate("A goose", 4))


def test_ctrl_c_while_a_batch_is_generated(model: wgoose.Model) -> None:
    """All of its texts break off."""
    with pytest.raises(KeyboardInterrupt), interrupted():
        model.generate_batch([LONG] * 3, 2000, 0.0)
    assert "".join(model.generate("A goose", 4))


@pytest.mark.parametrize("read", ["generate", "logits"])
def test_ctrl_c_while_a_prompt_is_read(model: wgoose.Model, read: str) -> None:
    """A text whose reading would take hours is left at the end of a pass."""
    text = "a goose " * 1_000_000
    with pytest.raises(KeyboardInterrupt), interrupted():
        list(model.generate(text, 1)) if read == "generate" else model.logits(text)
    model.reset()


def test_ctrl_c_while_embedding(model: wgoose.Model) -> None:
    """The batch, which would take minutes, is left at the end of a pass."""
    want = model.embed("A goose")
    with pytest.raises(KeyboardInterrupt), interrupted():
        model.embed_batch([[1, 2, 3, 4]] * 400_000)
    assert (model.embed("A goose") == want).all()


def test_ctrl_c_while_one_text_is_embedded(model: wgoose.Model) -> None:
    """A text of a million tokens is left at the end of a pass, too; what the model has read stays."""
    want = model.embed("A goose")
    model.read("A goose")
    with pytest.raises(KeyboardInterrupt), interrupted():
        model.embed([1, 2, 3, 4] * 400_000)
    assert (model.embed("A goose") == want).all()
    assert len(model.logits("flies")) == 320


@pytest.mark.parametrize("call", ["evaluate", "trace", "bench"])
def test_ctrl_c_in_functions_that_take_a_file(path: Path, cpu: bool, call: str) -> None:
    """Minutes of work end after the pass or the run at hand."""
    calls = {
        "evaluate": lambda: wgoose.evaluate(path, "a goose " * 200_000, cpu=cpu),
        "trace": lambda: wgoose.trace(path, [1, 2, 3, 4] * 100_000, cpu=cpu, chunk=4, only=["head"]),
        "bench": lambda: wgoose.bench(path, cpu=cpu, prefill_tokens=64, decode_tokens=8, runs=10_000),
    }
    with pytest.raises(KeyboardInterrupt), interrupted():
        calls[call]()


MAPS = Path("/proc/self/maps")


@pytest.mark.skipif(not MAPS.exists(), reason="what is open is looked up where Linux lists it")
def test_ctrl_c_while_a_model_is_opened(cpu: bool, tmp_path: Path) -> None:
    """It does not wait for hundreds of megabytes on their way to the GPU, which go on by themselves."""
    if cpu:
        pytest.skip("the reference opens a model at once")
    path = tmp_path / "large.gguf"
    wgoose.synth(path, layers=2, width=1024, vocab=65536, mix="F32")
    with pytest.raises(KeyboardInterrupt), interrupted():
        wgoose.Model.load(path, eager=True)
    assert str(path) in MAPS.read_text()
    while str(path) in MAPS.read_text():
        time.sleep(0.01)
    assert len(wgoose.Model.load(path).logits([1])) == 65536
