"""A vocabulary of byte strings and its greedy tokenizer: `vocabulary.py CORPUS --tokens 2048 --out vocabulary.txt`.

The file is in the format of RWKV's own (`id 'literal' length` a line), and ids follow it: 0 ends a text, 1 to 256 are
the single bytes. Tokens beyond those are learned by byte-pair encoding from the training split.
"""

from __future__ import annotations

import argparse
import ast
import heapq
import itertools
import re
from collections import Counter, defaultdict
from pathlib import Path

import corpus

END_OF_TEXT = 0
# Pairs are merged within these pieces: a word with the space before it, a number, marks, or white space.
PIECE = re.compile(rb" ?[A-Za-z]+| ?[0-9]{1,3}| ?[^\sA-Za-z0-9]+|\n+ *|\s")


class Vocabulary:
    """Tokens by id; entry 0 is empty."""

    def __init__(self, tokens: list[bytes]) -> None:
        self.tokens = tokens
        self.ids = {token: i for i, token in enumerate(tokens) if token}
        self.longest = max(map(len, tokens))

    @staticmethod
    def read(path: Path) -> Vocabulary:
        """Reads a file in RWKV's format."""
        tokens = [b""]
        for line in path.read_text(encoding="utf-8").splitlines():
            literal = ast.literal_eval(line[line.index(" ") + 1 : line.rindex(" ")])
            tokens.append(literal.encode() if isinstance(literal, str) else literal)
        return Vocabulary(tokens)

    def write(self, path: Path) -> None:
        """Writes a file in RWKV's format."""
        lines = (f"{i} {_literal(token)!r} {len(token)}\n" for i, token in enumerate(self.tokens) if i)
        path.write_text("".join(lines), encoding="utf-8", newline="\n")

    def encode(self, text: bytes) -> list[int]:
        """At each position the longest token that matches, as the runtime does."""
        ids, at = [], 0
        while at < len(text):
            length = self.longest
            while (token := self.ids.get(text[at : at + length])) is None:
                length -= 1
            ids.append(token)
            at += min(length, len(text) - at)
        return ids

    def decode(self, ids: list[int]) -> bytes:
        """The bytes of `ids`."""
        return b"".join(self.tokens[i] for i in ids)


def bytes_alone() -> Vocabulary:
    """257 ids: what `wgoose convert` gives a model of that size."""
    return Vocabulary([b"", *(bytes([byte]) for byte in range(256))])


def _literal(token: bytes) -> str | bytes:
    try:
        return token.decode()
    except UnicodeDecodeError:
        return token


def learn(texts: list[bytes], count: int) -> Vocabulary:
    """A vocabulary of `count` ids: the single bytes, then the tokens that byte-pair encoding makes of `texts`."""
    pieces = Counter(piece for text in texts for piece in PIECE.findall(text))
    words = [list(bytes([byte]) for byte in piece) for piece in pieces]
    frequency = list(pieces.values())
    pairs: Counter[tuple[bytes, bytes]] = Counter()
    where: defaultdict[tuple[bytes, bytes], set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in itertools.pairwise(word):
            pairs[pair] += frequency[index]
            where[pair].add(index)
    # Counts in the heap may be out of date: checked against `pairs` when they come up. Ties go by the bytes.
    heap = [(-n, pair) for pair, n in pairs.items()]
    heapq.heapify(heap)
    tokens = bytes_alone().tokens
    known = set(tokens)
    while len(tokens) < count and heap:
        n, pair = heapq.heappop(heap)
        if -n != pairs[pair] or not n:
            continue
        merged = pair[0] + pair[1]
        if merged not in known:
            known.add(merged)
            tokens.append(merged)
        changed = set()
        for index in where.pop(pair):
            old = words[index]
            words[index] = new = _merge(old, pair, merged)
            for sign, word in ((-1, old), (1, new)):
                for beside in itertools.pairwise(word):
                    pairs[beside] += sign * frequency[index]
                    changed.add(beside)
                    if sign > 0:
                        where[beside].add(index)
        for other in changed:
            if pairs[other] > 0:
                heapq.heappush(heap, (-pairs[other], other))
    return Vocabulary(tokens)


def _merge(word: list[bytes], pair: tuple[bytes, bytes], merged: bytes) -> list[bytes]:
    out, at = [], 0
    while at < len(word):
        if tuple(word[at : at + 2]) == pair:
            out.append(merged)
            at += 2
        else:
            out.append(word[at])
            at += 1
    return out


def main() -> None:
    """Learns a vocabulary and says how many bytes a token stands for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--tokens", type=int, default=2048, help="number of ids; 257: bytes alone")
    parser.add_argument("--out", type=Path, default=Path("vocabulary.txt"))
    args = parser.parse_args()
    documents = corpus.read(args.corpus)
    vocabulary = learn(corpus.split_of(documents, "train"), args.tokens)
    vocabulary.write(args.out)
    held_out = b"".join(corpus.split_of(documents, "held-out"))
    length = len(held_out) / len(vocabulary.encode(held_out))
    print(f"{len(vocabulary.tokens)} ids, {length:.2f} bytes a token, held out")


if __name__ == "__main__":
    main()
