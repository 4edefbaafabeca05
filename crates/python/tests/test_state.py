"""States: numpy arrays that share Rust's memory, and back."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import wgoose


def address(array: np.ndarray) -> int:
    """Where its floats are."""
    return array.__array_interface__["data"][0]


def test_tensors_are_views_of_the_state(model: wgoose.Model) -> None:
    """Two views of a tensor are one place in memory, and the state object is their base."""
    model.read("A goose")
    state = model.state
    assert len(state) == len(list(state)) == 6
    for name in state:
        first, second = state[name], state[name]
        assert address(first) == address(second) and np.shares_memory(first, second)
        assert first.base is state and not first.flags.owndata and first.dtype == np.float32
        assert first.flags.c_contiguous and first.flags.aligned
    assert state["blocks.1.wkv"].shape == (2, 64, 64) and state["blocks.0.att_shift"].shape == (128,)
    assert [(name, address(tensor)) for name, tensor in state.items()] == [
        (name, address(state[name])) for name in state
    ]
    assert sum(tensor.nbytes for tensor in state.values()) == state.nbytes == model.info["state_bytes"]
    assert "blocks.2.wkv" not in state
    with pytest.raises(KeyError, match=r"blocks\.2\.wkv"):
        state["blocks.2.wkv"]


def test_tensors_are_read_only(model: wgoose.Model) -> None:
    """Nobody can write to them, nor make them writeable."""
    tensor = model.state["blocks.0.wkv"]
    assert not tensor.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        tensor[:] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        tensor.flags.writeable = True
    assert not tensor[0].flags.writeable and tensor.copy().flags.writeable


def test_tensors_outlive_everything(path: Path, cpu: bool) -> None:
    """An array keeps its memory alive when model and state are gone."""
    model = wgoose.Model.load(path, cpu=cpu)
    model.read("A goose")
    tensor = model.state["blocks.1.wkv"]
    row, before = tensor[0, 3], tensor.copy()
    assert before.any()
    del model
    gc.collect()
    noise = [np.full_like(before, 7.0) for _ in range(64)]
    np.testing.assert_array_equal(tensor, before)
    del tensor, noise
    gc.collect()
    np.testing.assert_array_equal(row, before[0, 3])


def test_a_state_keeps_its_values_while_the_model_reads_on(model: wgoose.Model) -> None:
    """What is read later does not show in it."""
    model.read("A")
    state = model.state
    before = state["blocks.0.wkv"].copy()
    model.read(" goose")
    np.testing.assert_array_equal(state["blocks.0.wkv"], before)
    assert (model.state["blocks.0.wkv"] != before).any()


@pytest.mark.parametrize("way", ["state", "dict", "file", "fork"])
def test_restored_states_continue_exactly(model: wgoose.Model, path: Path, tmp_path: Path, cpu: bool, way: str) -> None:
    """Saved, restored elsewhere and continued equals uninterrupted, bit for bit."""
    tokens = model.encode("A goose flies over the hills and far away")
    model.read(tokens[:7])
    state = model.state
    model.save_state(tmp_path / "state")
    fork = model.fork()
    want = model.logits(tokens[7:], every=True)
    other = wgoose.Model.load(path, cpu=cpu)
    match way:
        case "state":
            other.state = state
        case "dict":
            other.state = {name: tensor.copy() for name, tensor in state.items()}
        case "file":
            other.load_state(tmp_path / "state")
        case "fork":
            other = fork
    np.testing.assert_array_equal(other.logits(tokens[7:], every=True), want)
    for name, tensor in model.state.items():
        np.testing.assert_array_equal(other.state[name], tensor)


def test_a_changed_state_matters(model: wgoose.Model) -> None:
    """Pieces can be replaced by others, whatever their order in memory."""
    model.read("A goose")
    tensors = dict(model.state.items())
    tensors["blocks.1.wkv"] = np.asfortranarray(0.5 * tensors["blocks.1.wkv"])
    want = tensors["blocks.1.wkv"].copy()
    model.state = tensors
    np.testing.assert_array_equal(model.state["blocks.1.wkv"], want)


@pytest.mark.parametrize("way", [lambda state: pickle.loads(pickle.dumps(state)), copy.deepcopy])
def test_a_state_is_pickled_and_copied(model: wgoose.Model, way: Callable[[wgoose.State], wgoose.State]) -> None:
    """It comes back as it was, in memory of its own, and is taken."""
    model.read("A goose")
    state = model.state
    other = way(state)
    assert type(other) is wgoose.State and list(other) == list(state) and other.nbytes == state.nbytes
    for name, tensor in state.items():
        np.testing.assert_array_equal(other[name], tensor)
        assert not np.shares_memory(other[name], tensor)
    want = model.logits(" flies")
    model.state = other
    np.testing.assert_array_equal(model.logits(" flies"), want)


def test_a_state_is_a_mapping(model: wgoose.Model) -> None:
    """As others see it; other floats than float32 are taken."""
    state = model.state
    assert isinstance(state, Mapping)
    np.testing.assert_array_equal(state.get("blocks.0.wkv"), state["blocks.0.wkv"])
    assert state.get("none") is None and state.get("none", 3) == 3
    model.read("A goose")
    want = model.state
    model.state = {name: tensor.astype(np.float64) for name, tensor in want.items()}
    for name, tensor in model.state.items():
        np.testing.assert_array_equal(tensor, want[name])


def test_wrong_states_are_refused(model: wgoose.Model, other_path: Path, tmp_path: Path) -> None:
    """What is wrong is said, and nothing changes."""
    model.read("A goose")
    before = model.state
    tensors = {name: tensor.copy() for name, tensor in before.items()}
    wkv = tensors["blocks.0.wkv"]
    for wrong, why in [
        ({name: tensor for name, tensor in tensors.items() if name != "blocks.0.wkv"}, "blocks.0.wkv is missing"),
        (tensors | {"blocks.0.wkv": wkv[:, :32]}, r"is \[2, 32, 64\], this model has \[2, 64, 64\]"),
        (tensors | {"blocks.0.wkv": "wkv"}, "blocks.0.wkv is no array of floats: str$"),
        (tensors | {"blocks.9.wkv": wkv}, "a state of 7 tensors"),
    ]:
        with pytest.raises(wgoose.StateError, match=why):
            model.state = wrong
    with pytest.raises(TypeError):
        model.state = 3
    wgoose.Model.load(other_path, cpu=True).save_state(tmp_path / "other")
    with pytest.raises(wgoose.StateError, match="belongs to the model with fingerprint"):
        model.load_state(tmp_path / "other")
    with pytest.raises(wgoose.StateError, match="absent"):
        model.load_state(tmp_path / "absent")
    for name, tensor in model.state.items():
        np.testing.assert_array_equal(tensor, before[name])


def test_logits(model: wgoose.Model) -> None:
    """After every token or the last one; they go on from the state, which reset() clears."""
    tokens = model.encode("A goose flies")
    every = model.logits(tokens, every=True)
    assert every.shape == (len(tokens), 320) and every.dtype == np.float32 and every.flags.writeable
    again = model.logits(tokens)
    assert again.shape == (320,) and not np.allclose(again, every[-1], rtol=1e-3)
    model.reset()
    np.testing.assert_allclose(model.logits("A goose flies"), every[-1], rtol=2e-3, atol=1e-4)
