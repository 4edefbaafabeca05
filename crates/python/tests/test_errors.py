"""What goes wrong is an exception with a kind and one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import wgoose


def test_errors_derive_from_wgoose_error() -> None:
    """A user who catches Error catches all."""
    for name in ["LoadError", "DeviceError", "PlanError", "StateError", "InputError"]:
        kind = getattr(wgoose, name)
        assert issubclass(kind, wgoose.Error) and kind.__module__ == "wgoose" and kind.__doc__
    assert not issubclass(wgoose.Error, ValueError)


def test_opening(path: Path, tmp_path: Path) -> None:
    """File, plan, device and options are told apart."""
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(path.read_bytes()[:1000])
    plan = tmp_path / "plan.ron"
    plan.write_text("no plan")
    for kind, options in [
        (wgoose.LoadError, {"path": tmp_path / "absent.gguf"}),
        (wgoose.LoadError, {"path": broken}),
        (wgoose.PlanError, {"path": path, "plan": plan}),
        (wgoose.DeviceError, {"path": path, "device": "no such device"}),
        (wgoose.DeviceError, {"path": path, "gpu_budget": 1000}),
        (wgoose.InputError, {"path": path, "gpu_budget": "much"}),
        (wgoose.InputError, {"path": path, "gpu_budget": "600MiB", "eager": True}),
    ]:
        with pytest.raises(kind) as caught:
            wgoose.Model.load(**options)
        assert type(caught.value) is kind and "\n" not in str(caught.value) and len(str(caught.value)) > 20


def test_running(model: wgoose.Model) -> None:
    """Wrong input is refused and harms nothing."""
    want = model.embed("A goose")
    for wrong in [
        lambda: model.logits([1, 320]),
        lambda: model.logits([]),
        lambda: model.embed(""),
        lambda: model.embed_batch(["a", ""]),
        lambda: model.embed("a", layer=2),
        lambda: model.embed("a", pooling="max"),
        lambda: model.decode([1, 100_000]),
        lambda: list(model.generate("")),
        lambda: list(model.generate("a", temperature=-1)),
        lambda: model.create_completion("a", top_p=2),
        lambda: next(model.create_completion("a", top_p=2, stream=True)),
    ]:
        with pytest.raises(wgoose.InputError) as caught:
            wrong()
        assert "\n" not in str(caught.value)
    for kind, wrong in [
        (TypeError, lambda: model.encode(3)),
        (TypeError, lambda: model.logits(3)),
        (TypeError, lambda: model.logits(["a"])),
        (OverflowError, lambda: model.logits([-1])),
        (OverflowError, lambda: model.generate("a", max_tokens=-1)),
    ]:
        with pytest.raises(kind):
            wrong()
    assert (model.embed("A goose") == want).all()


def test_a_failed_generation_fails_once(model: wgoose.Model) -> None:
    """As generators do."""
    generation = model.generate("")
    with pytest.raises(wgoose.InputError, match="prompt is empty"):
        next(generation)
    assert next(generation, None) is None
    with pytest.raises(wgoose.Error, match="failed"):
        generation.state  # noqa: B018


def test_a_model_without_text(tool: Callable[..., str], tmp_path: Path) -> None:
    """A vocabulary that lacks bytes: tokens only."""
    path = tmp_path / "mute.gguf"
    tool("dev", "synth", path, *["--layers", "1", "--width", "64", "--ffn", "64", "--vocab", "100", "--ranks", "16,16,16,16"])
    model = wgoose.Model.load(path, cpu=True)
    assert model.logits([1, 2, 3]).shape == (100,) and model.embed([1, 2]).shape == (64,)
    for wrong in [lambda: model.encode("a"), lambda: model.embed("a"), lambda: next(model.generate("a"))]:
        with pytest.raises(wgoose.InputError, match="only be given token ids"):
            wrong()


def test_a_panic_is_an_error_of_the_family(model: wgoose.Model) -> None:
    """What a program handles as Exception ends no program, and the model goes on."""
    for text in ["index out of bounds", "two\nlines"]:
        with pytest.raises(Exception) as caught:
            wgoose.wgoose._panic(text)  # type: ignore[attr-defined]
        assert type(caught.value) is wgoose.Error and text.replace("\n", " ") in str(caught.value)
        assert "\n" not in str(caught.value)
    assert len(model.logits("A goose")) == 320


def test_plans_of_nonsense(path: Path, tmp_path: Path, tool: Callable[..., str]) -> None:
    """Whatever a plan says, what is wrong is a PlanError that names the file."""
    tool("tune", path, "--out", tmp_path / "good.ron", "--budget", 1, "--chunks", 16)
    good = (tmp_path / "good.ron").read_text()
    plan = tmp_path / "plan.ron"
    chunk = next(line for line in good.splitlines() if "prefill_chunk" in line)
    choice = '(key: (op: "mul", k: 128, m: 128, formats: [], up_to_rows: 1), variant: "elements", config: {}, source: "")'
    for wrong in [
        good.replace(chunk, "    prefill_chunk: 0,"),
        good.replace(chunk, "    prefill_chunk: 99999999999,"),
        good.replace("choices: [", f"choices: [{choice},", 1),
        good.replace("choices: [", "choices: [" + choice.replace("{}", '{"WG": " 8"}') + ",", 1),
        good.replace("choices: [", "choices: [" + "[" * 100_000, 1),
    ]:
        assert wrong != good
        plan.write_text(wrong)
        with pytest.raises(wgoose.PlanError) as caught:
            wgoose.Model.load(path, plan=plan)
        assert type(caught.value) is wgoose.PlanError and "plan.ron" in str(caught.value)
