"""Bits per byte of the held-out text without a neural network: `baselines.py corpus.jsonl.xz [--limit BYTES]`.

- order-n models of bytes, n = 0 to 8, trained on the training split and fixed, with interpolated Witten-Bell smoothing
  down to uniform. Their size is limited: the contexts seen most often are kept until they fill `--limit` bytes.
- gzip -9 and xz -9e of the held-out text alone, and xz of it after as much of the training text as its window holds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
from pathlib import Path

import numpy as np

import corpus

ORDERS = 9
# What one counter of a compact table takes: a byte for the symbol, two for the count; a context adds a hash of four
# bytes and a pointer of three.
BYTES_PER_SYMBOL, BYTES_PER_CONTEXT = 3, 7


def _stream(texts: list[bytes]) -> np.ndarray:
    """The texts in a row, each after as many ends of text as the longest context has."""
    start = bytes(ORDERS - 1)
    return np.frombuffer(b"".join(start + text for text in texts), np.uint8)


def _hashes(symbols: np.ndarray, order: int) -> np.ndarray:
    """For each position, the `order` bytes before it: exact, as they fit 64 bits."""
    hashed = np.zeros(len(symbols), np.uint64)
    for back in range(1, order + 1):
        hashed[back:] |= symbols[:-back].astype(np.uint64) << np.uint64(8 * (back - 1))
    return hashed


class OrderN:
    """Counts of the symbols after each context of one order, the most frequent contexts up to a number of bytes."""

    def __init__(self, train: np.ndarray, order: int, places: np.ndarray, limit: int) -> None:
        hashes, symbols = _hashes(train, order)[places], train[places]
        rank = np.lexsort((symbols, hashes))
        hashes, symbols = hashes[rank], symbols[rank]
        new = np.append(True, (hashes[1:] != hashes[:-1]) | (symbols[1:] != symbols[:-1]))
        starts = np.flatnonzero(new)
        counts = np.diff(np.append(starts, len(hashes)))
        hashes, symbols = hashes[starts], symbols[starts]
        first = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
        distinct = np.diff(np.append(first, len(hashes)))
        total = np.add.reduceat(counts, first)
        # A context seen once says least for its bytes.
        size = distinct * BYTES_PER_SYMBOL + BYTES_PER_CONTEXT
        best = np.argsort(-total, kind="stable")
        kept = np.zeros(len(first), bool)
        kept[best[np.cumsum(size[best]) <= limit]] = True
        self.bytes = int(size[kept].sum())
        self.contexts, self.total, self.distinct = hashes[first][kept], total[kept], distinct[kept]
        of_kept = np.repeat(kept, distinct)
        self.symbols, self.counts = symbols[of_kept], counts[of_kept]
        self.first = np.append(0, np.cumsum(self.distinct))[:-1]

    def mix(self, text: np.ndarray, places: np.ndarray, order: int, lower: np.ndarray) -> np.ndarray:
        """Probabilities of what follows at `places`: with n seen and d distinct, (count + d * lower) / (n + d)."""
        hashes = _hashes(text, order)[places]
        slot = np.minimum(np.searchsorted(self.contexts, hashes), len(self.contexts) - 1)
        known = self.contexts[slot] == hashes
        count = np.zeros(len(places))
        for step in range(int(self.distinct.max())):
            at = self.first[slot] + step
            alive = known & (step < self.distinct[slot])
            if not alive.any():
                break
            hit = np.flatnonzero(alive)
            hit = hit[self.symbols[at[hit]] == text[places[hit]]]
            count[hit] = self.counts[at[hit]]
        n, d = self.total[slot], self.distinct[slot]
        return np.where(known, (count + d * lower) / (n + d), lower)


def order_n(train: list[bytes], held_out: list[bytes], limit: int) -> list[dict[str, float]]:
    """For each order, the bits per byte of all orders up to it, sharing `limit` bytes, lower orders first."""
    seen, text = _stream(train), _stream(held_out)
    places_seen, places = _places(train), _places(held_out)
    probability = np.full(len(places), 1 / 256)
    rows, left = [], limit
    for order in range(ORDERS):
        # An order may take half of what is left: the next ones say more.
        model = OrderN(seen, order, places_seen, left if order == ORDERS - 1 else left // 2)
        left -= model.bytes
        probability = model.mix(text, places, order, probability)
        bits = float(-np.log2(probability).sum()) / len(places)
        rows.append({"order": order, "bits_per_byte": bits, "bytes": limit - left})
    return rows


def _places(texts: list[bytes]) -> np.ndarray:
    """Positions of the texts' own bytes in [`_stream`]."""
    lengths = np.array([len(text) for text in texts])
    own = np.ones(lengths.sum() + len(texts) * (ORDERS - 1), bool)
    begins = np.append(0, np.cumsum(lengths + ORDERS - 1))[:-1]
    for back in range(ORDERS - 1):
        own[begins + back] = False
    return np.flatnonzero(own)


def xz_after(train: bytes, held_out: bytes, kept: int) -> float:
    """Bytes that xz needs for `held_out` once it has read the last `kept` bytes of `train`."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 64 << 20}]
    context = train[-kept:]
    sizes = [len(lzma.compress(text, filters=filters)) for text in (context, context + held_out)]
    return sizes[1] - sizes[0]


def main() -> None:
    """Prints one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--limit", type=int, default=16_000_000, help="most bytes of the order-n models")
    args = parser.parse_args()
    documents = corpus.read(args.corpus)
    train, held_out = (corpus.split_of(documents, split) for split in ("train", "held-out"))
    text = b"".join(held_out)
    bits = lambda size: 8 * size / len(text)  # noqa: E731
    result = {
        "held_out_bytes": len(text),
        "gzip -9": bits(len(gzip.compress(text, 9, mtime=0))),
        "xz -9e": bits(len(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))),
        "xz -9e after the training text": bits(xz_after(b"".join(train), text, 48 << 20)),
        "order_n": order_n(train, held_out, args.limit),
        "order_n_without_limit": order_n(train, held_out, 1 << 40),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
