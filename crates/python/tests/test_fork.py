"""Forked processes get an error from every call, and end; spawned ones, and children of a parent that only imported, work."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest

import wgoose

# Calls in a child of a process that has used a model; each must raise, and the child must end by itself.
CALLS = """
import os, sys
import wgoose
path, cpu, ending = sys.argv[1], sys.argv[2] == "True", sys.argv[3]
model = wgoose.Model.load(path, cpu=cpu)
text = model.generate("hello world", 2000, 0.0)
stream = model.create_completion("hello world", 2000, 0.0, stream=True)
next(text), next(stream)
state = model.state
want = model.embed("goose")
child = os.fork()
if child == 0:
    calls = [
        lambda: wgoose.Model.load(path, cpu=True),
        lambda: wgoose.Model.load(path),
        lambda: wgoose.tune(path, "plan.ron"),
        lambda: wgoose.bench(path, cpu=True),
        lambda: model.logits("goose"),
        lambda: model.read("goose"),
        lambda: model.embed("goose"),
        lambda: model.embed_batch(["goose"]),
        lambda: model.generate("goose"),
        lambda: model.create_completion("goose"),
        lambda: model.encode("goose"),
        lambda: model.decode([1]),
        lambda: model.state,
        lambda: setattr(model, "state", state),
        lambda: model.reset(),
        lambda: model.save_state("s.st"),
        lambda: model.load_state("s.st"),
        lambda: model.fork(),
        lambda: model.info,
        lambda: next(text),
        lambda: text.close(),
        lambda: text.tokens,
        lambda: next(stream),
    ]
    for number, call in enumerate(calls):
        try:
            call()
        except wgoose.ForkError as error:
            assert "spawn" in str(error)
        else:
            print("no error from call", number, flush=True)
    repr(model), state["blocks.0.wkv"].sum()
    if ending == "drop":
        del text, stream, model, calls
        os._exit(0)
    sys.exit(0)
pid, status = os.waitpid(child, 0)
print("child", status, len(next(text)) > 0, (model.embed("goose") == want).all())
"""


@pytest.mark.parametrize("ending", ["drop", "exit"])
def test_a_forked_process_gets_errors(path: Path, cpu: bool, ending: str) -> None:
    """Nothing hangs, nothing panics, and the parent goes on."""
    arguments = [sys.executable, "-c", CALLS, str(path), str(cpu), ending]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "child 0 True True\n", "")


def test_a_parent_that_only_imported_may_fork(path: Path, cpu: bool) -> None:
    """As a server that loads its model in each worker."""
    code = f"""
import os, sys
import wgoose
child = os.fork()
if child == 0:
    print(len(wgoose.Model.load({str(path)!r}, cpu={cpu}).embed("goose")))
    sys.exit(0)
print(os.waitpid(child, 0)[1], len(wgoose.Model.load({str(path)!r}, cpu={cpu}).embed("goose")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "128\n0 128\n", "")


def embedded(path: str, cpu: bool, text: str) -> list[float]:
    """What a worker does."""
    return wgoose.Model.load(path, cpu=cpu).embed(text).tolist()


def test_spawned_workers_work(path: Path, cpu: bool, model: wgoose.Model) -> None:
    """Beside a model of the parent's."""
    texts = ["a goose", "two geese"]
    want = [model.embed(text).tolist() for text in texts]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.starmap(embedded, [(str(path), cpu, text) for text in texts]) == want
