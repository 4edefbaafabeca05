"""Many mixed calls on one model from several threads: each result must be what it is alone, and memory must stay.

By hand: python soak.py MODEL [--requests 1000] [--threads 8] [--cpu]
"""

from __future__ import annotations

import argparse
import gc
import itertools
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import wgoose

TEXTS = ["A goose", "flies over the hills", "雁が飛ぶ", "and far away, " * 6, "x"]

PAGE = os.sysconf("SC_PAGE_SIZE")


def generate(model: wgoose.Model, choice: random.Random) -> bytes:
    """Text, to the end or broken off."""
    text, tokens = choice.choice(TEXTS), choice.choice([3, 12, 24])
    generation = model.generate(text, tokens, top_p=1.0, seed=choice.randrange(4))
    return "".join(itertools.islice(generation, choice.choice([2, 100]))).encode()


def complete(model: wgoose.Model, choice: random.Random) -> bytes:
    """A completion with a stop string."""
    completion = model.create_completion(choice.choice(TEXTS), 12, top_p=1.0, seed=choice.randrange(4), stop="e")
    return completion["choices"][0]["text"].encode()


def embed(model: wgoose.Model, choice: random.Random) -> bytes:
    """A few embeddings."""
    return model.embed_batch(choice.sample(TEXTS, 3), pooling=choice.choice(["mean", "last"])).tobytes()


def state(model: wgoose.Model, choice: random.Random) -> bytes:
    """A fork reads, is asked for its state, and goes on from another's."""
    fork = model.fork()
    fork.read(choice.choice(TEXTS))
    kept = fork.state
    first = fork.logits(choice.choice(TEXTS))
    fork.state = kept
    return first.tobytes() + fork.logits([5, 6]).tobytes() + b"".join(piece.tobytes() for piece in kept.values())


def peek(model: wgoose.Model, choice: random.Random) -> bytes:
    """The shared model's own state, which nobody changes."""
    return model.state["blocks.0.wkv"].tobytes()


REQUESTS: list[Callable[[wgoose.Model, random.Random], bytes]] = [generate, complete, embed, state, peek]


def answer(model: wgoose.Model, seed: int) -> bytes:
    """What the request of that number gives."""
    choice = random.Random(seed)
    return choice.choice(REQUESTS)(model, choice)


def resident() -> int:
    """Bytes of this process in memory that belong to no file."""
    fields = Path("/proc/self/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * PAGE


@dataclass
class Report:
    """What a soak found."""

    requests: int
    wrong: list[int]
    bytes_a_request: float


def soak(model: wgoose.Model, requests: int, threads: int, kinds: int) -> Report:
    """Runs requests of so many kinds; the first third of them warms up, over the rest memory is fitted by a line."""
    alone = [answer(model, seed) for seed in range(kinds)]
    assert len(set(alone)) > kinds // 2, "requests that all look alike would show nothing"
    lock, wrong, samples = threading.Lock(), [], []

    def run(number: int) -> None:
        right = answer(model, number % kinds) == alone[number % kinds]
        with lock:
            if not right:
                wrong.append(number)
            samples.append(resident())

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(requests)))
    gc.collect()
    settled = np.array(samples[requests // 3 :], dtype=np.float64)
    slope = np.polyfit(np.arange(len(settled)), settled, 1)[0] if len(settled) > 2 else 0.0
    return Report(requests, wrong, float(slope))


def main() -> None:
    """Soaks a model that the user names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    model = wgoose.Model.load(args.model, cpu=args.cpu)
    model.read("Once upon a time")
    report = soak(model, args.requests, args.threads, kinds=40)
    print(f"{report.requests} requests, {len(report.wrong)} wrong, {report.bytes_a_request:.0f} bytes more a request")
    state_bytes = model.info["state_bytes"]
    # A leak of as little as a tenth of a state a request would be seen.
    if report.wrong or report.bytes_a_request > state_bytes / 10:
        raise SystemExit("failed")


if __name__ == "__main__":
    main()
