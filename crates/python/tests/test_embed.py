"""Embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wgoose

TEXTS = ["A goose", "flies over the hills and far away", "雁", "A goose", "x" * 300]


@pytest.mark.parametrize("options", [{}, {"pooling": "last", "layer": 0, "normalise": False}, {"pooling": "state"}])
@pytest.mark.parametrize("prefix", [None, "query: "])
def test_a_batch_is_its_texts(model: wgoose.Model, options: dict, prefix: str | None) -> None:
    """Bit for bit, whatever else is in the batch, as text or as tokens."""
    batch = model.embed_batch(TEXTS, prefix=prefix, **options)
    assert batch.dtype == np.float32 and batch.flags.c_contiguous
    assert batch.shape == ((5, 2, 64, 64) if "state" in options.values() else (5, 128))
    for text, row in zip(TEXTS, batch, strict=True):
        np.testing.assert_array_equal(model.embed(text, prefix=prefix, **options), row)
        np.testing.assert_array_equal(model.embed(model.encode(text), prefix=prefix, **options), row)
    np.testing.assert_array_equal(batch[0], batch[3])
    assert len(np.unique(batch.reshape(5, -1), axis=0)) == 4
    if not options:
        np.testing.assert_allclose(np.linalg.norm(batch, axis=1), 1, rtol=1e-6)


def test_every_token(model: wgoose.Model) -> None:
    """A matrix for each text; the last rows are those of pooling last."""
    rows = model.embed_batch(TEXTS, pooling="every")
    assert [matrix.shape for matrix in rows] == [(len(model.encode(text)), 128) for text in TEXTS]
    for matrix, last in zip(rows, model.embed_batch(TEXTS, pooling="last"), strict=True):
        np.testing.assert_allclose(matrix[-1], last, rtol=1e-4, atol=1e-6)


def test_reading_and_embedding_do_not_meet(model: wgoose.Model) -> None:
    """An embedding begins with nothing, and leaves the state alone."""
    fresh = model.embed("A goose")
    model.read("Once upon a time")
    before = model.state
    np.testing.assert_array_equal(model.embed("A goose"), fresh)
    for name, piece in model.state.items():
        np.testing.assert_array_equal(piece, before[name])


def test_embed_batch_takes_more_texts_than_a_pass(model: wgoose.Model) -> None:
    """In their order."""
    texts = [f"goose {i}" for i in range(150)]
    batch = model.embed_batch(texts)
    for i in (0, 63, 64, 127, 128, 149):
        np.testing.assert_array_equal(batch[i], model.embed(texts[i]))
    assert model.embed_batch([]).shape == (0, 128)
    with pytest.raises(wgoose.InputError, match="put it into a list"):
        model.embed_batch("abc")
    with pytest.raises(wgoose.InputError, match="sequence 149 "):
        model.embed_batch([*texts[:149], ""])


def test_a_store_remembers(path: Path, tmp_path: Path) -> None:
    """The same vectors, from a file."""
    rows = wgoose.Model.load(path, cpu=True, embedding_store=tmp_path / "store").embed_batch(TEXTS)
    assert (tmp_path / "store").stat().st_size >= 4 * rows[:4].nbytes // 5
    again = wgoose.Model.load(path, embedding_store=tmp_path / "store").embed_batch(TEXTS)
    np.testing.assert_array_equal(again, rows)
