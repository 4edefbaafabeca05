"""One model, many threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from soak import soak

import wgoose


def test_a_short_soak(model: wgoose.Model) -> None:
    """Mixed requests from 8 threads: each gives what it gives alone. Memory needs the long one, see soak.py."""
    model.read("Once upon a time")
    assert soak(model, requests=60, threads=8, kinds=20).wrong == []


def test_python_threads_run_meanwhile(model: wgoose.Model) -> None:
    """Another thread runs while one waits for the device; with Python's lock held it could not set the event."""
    ready, seen = threading.Event(), threading.Event()
    tokens = model.encode("A goose " * 10)

    def other() -> None:
        ready.wait()
        seen.set()

    thread = threading.Thread(target=other)
    thread.start()
    switch = sys.getswitchinterval()
    # Python itself does not take the lock away: only a call that gives it up lets the other thread run.
    sys.setswitchinterval(1000)
    try:
        ready.set()
        for _ in range(100):
            model.logits(tokens)
            if seen.is_set():
                break
        assert seen.is_set()
    finally:
        sys.setswitchinterval(switch)
        thread.join()


@pytest.mark.parametrize("closing", ["", "generation.close()", "del generation, model"])
def test_python_ends_in_the_middle(path: Path, cpu: bool, closing: str) -> None:
    """With a generation going on, the process ends at once and in order."""
    code = f"""
import wgoose
model = wgoose.Model.load({str(path)!r}, cpu={cpu})
generation = model.generate("hello world", 2000, 0.0)
print(len(next(generation)) > 0)
{closing}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
