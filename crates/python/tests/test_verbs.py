"""convert, synth, evaluate and trace: what the tool's verbs do, with their options by their names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import wgoose

SIZES = {"layers": 2, "width": 128, "ffn": 256, "vocab": 320, "head_size": 64, "ranks": [32, 24, 16, 48], "seed": 1}
TEXT = "a goose flies over the hills\n"


def test_synth(path: Path, tmp_path: Path) -> None:
    """The same bytes as the tool's."""
    shown: list[tuple[int, int]] = []
    made = wgoose.synth(tmp_path / "tiny.gguf", **SIZES, listen=lambda done, total: shown.append((done, total)))
    assert (tmp_path / "tiny.gguf").read_bytes() == path.read_bytes()
    assert made == {"bytes": path.stat().st_size, "tensors": made["tensors"], "weights": made["weights"], "mix": "F16"}
    assert made["tensors"] > 40 and shown[-1] == (made["bytes"], made["bytes"])
    for wrong, why in [
        ({"preset": "0.3B"}, "'0.3B' is none of 0.1B, 0.4B"),
        ({"layers": 2}, "either preset, or layers and width"),
        ({"preset": "0.1B", "layers": 2, "width": 64}, "either preset"),
        ({**SIZES, "mix": "Q9"}, "unknown mix 'Q9'"),
        ({**SIZES, "head_size": 60}, "head size"),
        ({**SIZES, "mix": "Q4_K_M", "hot": True}, "hot"),
        ({**SIZES, "ffn_zeros": 2.0}, "0.5 to 0.99"),
    ]:
        with pytest.raises(wgoose.InputError, match=why):
            wgoose.synth(tmp_path / "wrong.gguf", **wrong)
    with pytest.raises(wgoose.InputError, match="ends in .gguf, .st or .safetensors"):
        wgoose.synth(tmp_path / "wrong.bin", **SIZES)
    with pytest.raises(wgoose.Error, match="no folder|No such file"):
        wgoose.synth(tmp_path / "absent" / "tiny.gguf", **SIZES)
    assert [file.name for file in tmp_path.iterdir()] == ["tiny.gguf"]


def test_convert(path: Path, tmp_path: Path, tool: Callable[..., str]) -> None:
    """The same bytes as the tool's, and what it says of them."""
    copy, theirs = tmp_path / "copy.gguf", tmp_path / "tool" / "copy.gguf"
    theirs.parent.mkdir()
    made = wgoose.convert(path, copy, "Q8_0", check=True)
    tool("convert", path, theirs, "--to", "Q8_0")
    assert copy.read_bytes() == theirs.read_bytes()
    assert (made["mix"], made["bytes"], made["source_bytes"]) == ("Q8_0", copy.stat().st_size, path.stat().st_size)
    assert made["checked"] > 40 and 0 < made["rounding"] < 0.01 and made["worst"]
    kept = wgoose.convert(path, tmp_path / "copy.st")
    assert kept["mix"] == "F16" and "checked" not in kept
    assert wgoose.Model.load(tmp_path / "copy.st", cpu=True).info["container"] == "safetensors"
    with pytest.raises(wgoose.Error, match="exists already"):
        wgoose.convert(path, copy)
    wgoose.convert(path, copy, "F16", force=True)
    with pytest.raises(wgoose.InputError, match="unknown mix"):
        wgoose.convert(path, copy, "F12")
    with pytest.raises(wgoose.InputError, match="safetensors holds"):
        wgoose.convert(path, tmp_path / "copy2.st", "Q8_0")
    with pytest.raises(wgoose.LoadError, match=r"absent\.gguf"):
        wgoose.convert(tmp_path / "absent.gguf", copy, force=True)


def test_convert_chooses_formats(path: Path, cpu: bool, tmp_path: Path, tool: Callable[..., str]) -> None:
    """The same bytes as the tool's `--to auto`, with one goal or the other; no goal, two, and one without 'auto' are refused."""
    copy, theirs = tmp_path / "copy.gguf", tmp_path / "tool" / "copy.gguf"
    theirs.parent.mkdir()
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    seen: list[tuple[int, int]] = []
    made = wgoose.convert(
        path, copy, "auto", target_kl=1e-4, text=file, limit=8, cpu=cpu, listen=lambda *done: seen.append(done)
    )
    backend = "cpu" if cpu else "gpu"
    options = ["--text", file, "--limit", "8", "--backend", backend]
    tool("convert", path, theirs, "--to", "auto", "--target-kl", "1e-4", *options)
    assert copy.read_bytes() == theirs.read_bytes()
    allocation = made["allocation"]
    assert made["mix"] == "auto" and 0 <= allocation["kl"] <= 1e-4 and allocation["tokens"] == 8
    measured = sum(len(tensor["formats"]) - 1 for tensor in allocation["tensors"])
    assert seen[:measured] == [(done, measured) for done in range(measured)]

    whole = wgoose.convert(path, copy, "auto", budget_bytes="1GiB", text=TEXT, limit=4, cpu=cpu, force=True)
    assert whole["allocation"]["kl"] == 0 and whole["bytes"] == copy.stat().st_size
    for wrong, why in [
        ({"to": "auto"}, "needs one goal"),
        ({"to": "auto", "target_kl": 1.0, "budget_bytes": 1}, "needs one goal"),
        ({"to": "Q8_0", "target_kl": 1.0}, "go with to='auto'"),
        ({"text": TEXT}, "go with to='auto'"),
        ({"to": "auto", "target_kl": -1.0}, "greater than 0"),
        ({"to": "auto", "budget_bytes": 10}, "10 bytes are too few"),
        ({"to": "auto", "target_kl": 1.0, "text": ""}, "the text is empty"),
    ]:
        with pytest.raises(wgoose.InputError, match=why):
            wgoose.convert(path, tmp_path / "no.gguf", cpu=cpu, **wrong)
    assert not (tmp_path / "no.gguf").exists()


def test_convert_sets_metadata(path: Path, tmp_path: Path, tool: Callable[..., str]) -> None:
    """The same bytes as the tool's `--set`; what is no key, or says what the tensors are, is refused."""
    copy, theirs = tmp_path / "copy.gguf", tmp_path / "tool" / "copy.gguf"
    theirs.parent.mkdir()
    wgoose.convert(path, copy, set={"general.license": "MIT", "general.author": "a goose"})
    tool("convert", path, theirs, "--set", "general.license=MIT", "--set", "general.author=a goose")
    assert copy.read_bytes() == theirs.read_bytes() and b"a goose" in copy.read_bytes()
    for key in ["license", "rwkv7.block_count"]:
        with pytest.raises(wgoose.InputError, match=key):
            wgoose.convert(path, copy, set={key: "1"}, force=True)


@pytest.mark.parametrize("verb", ["synth", "convert"])
def test_a_listener_leaves_no_file(path: Path, tmp_path: Path, verb: str) -> None:
    """What it raises comes out, and nothing is left; so with Ctrl-C."""

    def listen(done: int, total: int) -> None:
        raise KeyError(done)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    for kind, heard in [(KeyError, listen), (KeyboardInterrupt, interrupt)]:
        with pytest.raises(kind):
            if verb == "synth":
                wgoose.synth(tmp_path / "new.gguf", **SIZES, listen=heard)
            else:
                wgoose.convert(path, tmp_path / "new.gguf", check=True, listen=heard)
    assert not list(tmp_path.iterdir())


def test_evaluate(path: Path, other_path: Path, cpu: bool, tmp_path: Path, tool: Callable[..., str]) -> None:
    """A text as such, as bytes, and in a file; the tool's numbers."""
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    shown: list[tuple[int, float]] = []
    score = wgoose.evaluate(path, TEXT, cpu=cpu, listen=lambda read, bits: shown.append((read, bits)))
    backend = "cpu" if cpu else "gpu"
    want = json.loads(tool("eval", path, "--text", file, "--backend", backend, "--json"))
    for got in (score, wgoose.evaluate(path, TEXT.encode(), cpu=cpu), wgoose.evaluate(path, file, cpu=cpu)):
        assert got.keys() == want.keys() and got["bits_per_byte"] == want["bits_per_byte"]
    assert score["bytes"] == len(TEXT) and shown[-1] == (len(TEXT), score["bits_per_byte"])
    assert wgoose.evaluate(path, TEXT, cpu=cpu, limit=3)["tokens"] == 3
    anew = wgoose.evaluate(path, TEXT, cpu=cpu, context=2)
    assert anew["tokens"] == score["tokens"] and anew["perplexity"] != score["perplexity"]
    same = wgoose.evaluate(path, TEXT, cpu=cpu, against="reference")
    other = wgoose.evaluate(path, TEXT, cpu=cpu, against=other_path, against_plan="default")
    assert same["divergence"]["mean_kl"] < 1e-5 < other["divergence"]["mean_kl"]
    assert other["divergence"]["by_position"][0]["first"] == 0 and other["reference"]["tokens"] == score["tokens"]
    for wrong, why in [
        ({"text": ""}, "empty"),
        ({"text": tmp_path / "absent.txt"}, r"absent\.txt"),
        ({"text": TEXT, "against_plan": "default"}, "name one in against"),
        ({"text": TEXT, "against": "reference", "against_plan": "default"}, "name one in against"),
    ]:
        with pytest.raises(wgoose.InputError, match=why):
            wgoose.evaluate(path, cpu=cpu, **wrong)
    for wrong in ({"context": 0}, {"limit": 0}):
        with pytest.raises(ValueError, match="zero|0|nonzero"):
            wgoose.evaluate(path, TEXT, cpu=cpu, **wrong)


def test_trace(path: Path, model: wgoose.Model, cpu: bool, tmp_path: Path) -> None:
    """Every op by name, in arrays or in files; the last are the logits."""
    tokens = model.encode("a goose")
    traced = wgoose.trace(path, tokens, cpu=cpu, chunk=2)["outputs"]
    assert {row["pass"] for row in traced} == set(range((len(tokens) + 1) // 2))
    assert [row["number"] for row in traced if row["pass"] == 0][:3] == [1, 2, 3]
    head = [row for row in traced if row["name"] == "head"][-1]
    assert head["layer"] is None and head["op"] and head["values"].dtype == np.float32
    np.testing.assert_allclose(head["values"][-1], model.logits(tokens), rtol=1e-4, atol=1e-4)
    some = wgoose.trace(path, tokens, cpu=cpu, only=["head"])["outputs"]
    assert {row["name"] for row in some} == {"head"}
    assert wgoose.trace(path, tokens, cpu=cpu, out=tmp_path / "ops", only=["head"]) == {"written": len(some)}
    (file,) = (tmp_path / "ops" / "pass-0").iterdir()
    np.testing.assert_array_equal(np.load(file), some[-1]["values"])
    with pytest.raises(wgoose.InputError, match="no op is called 'goose' under this plan; there are"):
        wgoose.trace(path, tokens, cpu=cpu, only=["goose"])
    with pytest.raises(wgoose.InputError, match="token ids are wanted"):
        wgoose.trace(path, "a goose", cpu=cpu)
    with pytest.raises(wgoose.InputError, match="outside|below|vocabulary"):
        wgoose.trace(path, [1, 320], cpu=cpu)


def test_first_divergence(path: Path) -> None:
    """All ops of a right kernel are right."""
    report = wgoose.trace(path, [1, 2, 3], first_divergence=True)
    nearest = report["nearest"]
    assert report["ops"] > 20 and report["divergence"] is None and nearest and nearest["error"] <= nearest["tolerance"]
    assert "outputs" not in report
    with pytest.raises(wgoose.InputError, match="diverges from nothing"):
        wgoose.trace(path, [1, 2, 3], cpu=True, first_divergence=True)


def lora(path: Path) -> Path:
    """A LoRA of rank 4 for the receptance of the first layer, as safetensors."""
    random = np.random.default_rng(1)
    halves = {"lora_A": random.normal(size=(4, 128)), "lora_B": random.normal(size=(128, 4))}
    header, data = {}, b""
    for name, half in halves.items():
        raw = half.astype(np.float32).tobytes()
        place = {"dtype": "F32", "shape": half.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        header[f"blocks.0.att.receptance.{name}"] = place
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_evaluate_with_an_adapter(path: Path, other_path: Path, cpu: bool, tmp_path: Path) -> None:
    """As the merged model; the reference has the adapter too, and another model has not."""
    adapter = (lora(tmp_path / "lora.safetensors"), 0.1)
    wgoose.convert(path, tmp_path / "merged.gguf", adapter=adapter)
    merged = wgoose.evaluate(tmp_path / "merged.gguf", TEXT, cpu=cpu)
    score = wgoose.evaluate(path, TEXT, cpu=cpu, adapter=adapter, against="reference")
    assert score["bits_per_byte"] == merged["bits_per_byte"]
    assert score["bits_per_byte"] != wgoose.evaluate(path, TEXT, cpu=cpu)["bits_per_byte"]
    assert score["divergence"]["mean_kl"] < 1e-5
    beside = wgoose.evaluate(path, TEXT, cpu=cpu, adapter=adapter, against=other_path)
    alone = wgoose.evaluate(tmp_path / "merged.gguf", TEXT, cpu=cpu, against=other_path)
    assert beside["divergence"] == alone["divergence"]
    with pytest.raises(wgoose.InputError, match="adapter_initial goes with adapter"):
        wgoose.evaluate(path, TEXT, cpu=cpu, adapter_initial=adapter[0])
