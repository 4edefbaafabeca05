"""Tuning and benchmarks: the same as the tool's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import wgoose


def test_tune(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes a plan that a model takes, says what it does, and remembers."""
    lines: list[str] = []
    plan = tmp_path / "plan.ron"
    report = wgoose.tune(path, plan, budget=1, chunks=[16], listen=lines.append)
    assert report["prefill_chunk"] in (16, 64) and report["measured"] > 0 and (tmp_path / "plan.jsonl").exists()
    # Where the clock of a busy machine is doubted, a note comes first.
    assert any(line.startswith("reference: ") for line in lines[:2]) and len(lines) > 3
    tuned = wgoose.Model.load(path, plan)
    want = wgoose.Model.load(path, plan="default").generate("A goose flies", 20, 0.0)
    assert "".join(tuned.generate("A goose flies", 20, 0.0)) == "".join(want)
    assert wgoose.tune(path, plan, budget=1, chunks=[16])["recalled"] > 0
    with monkeypatch.context() as patch:
        patch.setenv("WGOOSE_DATA_DIR", str(tmp_path))
        filed = wgoose.tune(path, ledger=tmp_path / "plan.jsonl", budget=1, chunks=[16])["plan"]
        assert (tmp_path / "plans" / f"{filed}.ron").exists()
        assert wgoose.Model.load(path).info["plan"].startswith("tuned ")
        assert wgoose.Model.load(path, plan="default").info["plan"] == "the device's default, as asked"
    stages: list[str] = []
    wgoose.tune(path, tmp_path / "none.ron", budget=0, only=["fusions"], listen=stages.append)
    assert any("out of time, not tried: decode with" in line for line in stages)
    assert not any(line.startswith("kernels") for line in stages)
    for wrong in ({"budget": -1}, {"ledger": plan}, {"only": ["fusion"]}):
        with pytest.raises(wgoose.InputError):
            wgoose.tune(path, plan, **wrong)
    with pytest.raises(wgoose.Error, match="chunk 0: it must be between 1 and 4096"):
        wgoose.tune(path, plan, chunks=[0])


@pytest.mark.skipif(sys.platform == "win32", reason="what children have used is not told there")
def test_trials_run_in_another_interpreter(path: Path, tmp_path: Path) -> None:
    """One that can be killed, with this package; in this process only where that is asked for."""
    import resource

    def of_children() -> float:
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    used = [of_children()]
    for i, in_process in enumerate((True, False)):
        plan = tmp_path / f"{i}.ron"
        assert wgoose.tune(path, plan, budget=1, chunks=[16], in_process=in_process)["measured"] > 0
        used.append(of_children())
    assert used[1] == used[0] and used[2] > used[1] + 0.1, used
    # What an interpreter says where it cannot: not of a model that is not there.
    child = [sys.executable, "-c", "from wgoose.trials import main; main()", "dev", "trial", str(tmp_path / "absent.gguf")]
    child += [f"--reference={tmp_path}", "--multiprocessors=1", "--no-cache"]
    ended = subprocess.run(child, input='{"request":"open"}\n', capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "absent.gguf" in ended.stderr.splitlines()[-1]


def test_seeds_enter_the_race(path: Path, tmp_path: Path) -> None:
    """As the tool takes them; a file that has none is refused."""
    seeds = tmp_path / "seeds.json"
    seeds.write_text('[{"op": "matmul", "variant": "naive", "config": {}, "rows": 1}]')
    lines: list[str] = []
    wgoose.tune(path, tmp_path / "plan.ron", budget=1, chunks=[16], seeds=seeds, listen=lines.append)
    assert '"naive"' in (tmp_path / "plan.jsonl").read_text()
    seeds.write_text("nothing")
    with pytest.raises(wgoose.InputError, match=r"seeds\.json"):
        wgoose.tune(path, tmp_path / "plan.ron", seeds=seeds)


def test_a_listener_ends_a_sweep(path: Path, tmp_path: Path) -> None:
    """With its own exception; what was measured until then stays."""

    def listen(line: str) -> None:
        raise KeyError(line)

    with pytest.raises(KeyError, match="reference"):
        wgoose.tune(path, tmp_path / "plan.ron", budget=1, listen=listen)
    assert not (tmp_path / "plan.ron").exists() and (tmp_path / "plan.jsonl").exists()
    with pytest.raises(wgoose.LoadError):
        wgoose.tune(tmp_path / "absent", tmp_path / "plan.ron")


def test_bench(path: Path, cpu: bool, tmp_path: Path) -> None:
    """One sample a run, and the answers' hash, which every device has in one class of precision."""
    result = wgoose.bench(path, cpu=cpu, prefill_tokens=8, decode_tokens=4, runs=2, cache=tmp_path)
    assert len(result["prefill_ms"]) == len(result["decode_ms"]) == 2 and result["decode_tokens"] == 4
    assert min(result["load_ms"], result["first_token_ms"], result["prefill_tok_s"], result["decode_tok_s"]) > 0
    assert result["fingerprint"] == wgoose.Model.load(path, cpu=True).info["fingerprint"]
    other = wgoose.bench(path, cpu=not cpu, prefill_tokens=1, decode_tokens=1, runs=1, cache=tmp_path)
    if result["quality_class"] == other["quality_class"]:
        assert result["quality_hash"] == other["quality_hash"]
    with pytest.raises(wgoose.InputError, match="at least 1"):
        wgoose.bench(path, runs=0)
    with pytest.raises(wgoose.LoadError):
        wgoose.bench(path.with_name("absent"))


def test_devices(tool: Callable[..., str]) -> None:
    """What the tool lists."""
    devices = wgoose.devices()
    assert [device["device"] for device in devices] == [row["device"] for row in json.loads(tool("devices", "--json"))]


def test_mesa_has_nothing_to_say() -> None:
    """A first program in a container, where nobody is logged in, prints what it prints."""
    words = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    program = [sys.executable, "-c", "import wgoose; print(len(wgoose.devices()))"]
    done = subprocess.run(program, env=words, check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{len(wgoose.devices())}\n", "")
