"""Holds GGUF files against llama.cpp: `beside_llama.py --wgoose BINARY`, with the PyPI package `llama-cpp-python`.

The demo model and a synthetic one with the World vocabulary, converted into every mix, are loaded by llama.cpp on the
CPU. It continues a prompt greedily; wgoose's CPU reference reads the same tokens, and both must choose the same next
ones, but where llama.cpp's two best are closer than the logits differ. Before a product llama.cpp rounds activations to
the format that belongs to the weights', so that its logits are not those of the numbers in the file; it also reads a
copy of these numbers in F32, where the two programs must agree. Ids of special tokens and the chat template are
compared, too.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import numpy as np
from llama_cpp import Llama
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

from compare import Difference, compare

DEMO = Path(__file__).parent.parent / "assets" / "demo.gguf"
PROMPT = "The goose flies over the lake.\n\nÜber den See: 鵝 "
STEPS = 64
CHAT = [
    {"role": "system", "content": "Be brief.\n"},
    {"role": "user", "content": " one\n\n\n  two \n"},
    {"role": "assistant", "content": "Hello.\n\nYou? "},
    {"role": "user", "content": "well"},
]
# What `wgoose chat` makes of it (`crates/session/src/chat/template.rs`).
CHAT_TEXT = "System: Be brief.\n\nUser: one\n  two\n\nAssistant: Hello.\n\nYou?\n\nUser: well\n\nAssistant:"
# Largest error of a position: rms of the difference over rms of llama.cpp's logits. Its activations are f16 beside F16
# weights, bf16 beside BF16, and have 8 bits beside quantised ones; position 0 stands apart (`compare.py`).
MIXES = {"F32": 1e-5, "F16": 2e-3, "BF16": 2e-2}
MIXES |= dict.fromkeys(["Q8_0", "Q4_0", "Q4_K_M", "Q5_K_M", "Q6_K"], 5e-2)
# The same of a copy in F32, where only the order of sums differs.
SAME_NUMBERS = 1e-5


@dataclass(frozen=True)
class Greedy:
    """What llama.cpp makes of a prompt."""

    prompt: list[int]
    tokens: list[int]
    """The prompt, and what it chose."""
    logits: np.ndarray
    """After each of them but the last, [tokens - 1, vocabulary]."""


def greedy(llama: Llama) -> Greedy:
    """Continues the prompt by the likeliest tokens, one after the other."""
    prompt = llama.tokenize(PROMPT.encode(), add_bos=False)
    llama.reset()
    llama.eval(prompt)
    tokens = list(prompt)
    while len(tokens) < len(prompt) + STEPS:
        tokens.append(int(llama.scores[len(tokens) - 1].argmax()))
        if len(tokens) < len(prompt) + STEPS:
            llama.eval(tokens[-1:])
    return Greedy(prompt, tokens, np.array(llama.scores[: len(tokens) - 1]))


def wgoose(binary: Path, *arguments: object) -> str:
    """What a call of wgoose prints."""
    return subprocess.run([binary, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def logits(binary: Path, model: Path, tokens: list[int], folder: Path) -> np.ndarray:
    """The logits of wgoose's CPU reference after each token."""
    ids, out = folder / "ids.json", folder / "logits.npy"
    ids.write_text(json.dumps(tokens))
    wgoose(binary, "dev", "logits", model, "--tokens", ids, "--out", out, "--backend", "cpu")
    return np.load(out)


def llama_logits(model: Path, tokens: list[int]) -> np.ndarray:
    """The logits of llama.cpp after each token."""
    llama = opened(model)
    llama.eval(tokens)
    return np.array(llama.scores[: len(tokens)])


def opened(model: Path) -> Llama:
    """A file in llama.cpp, on the CPU."""
    return Llama(str(model), n_ctx=512, logits_all=True, verbose=False)


def choices(ours: np.ndarray, llama: Greedy) -> tuple[int, int]:
    """How many of llama.cpp's choices are ours, and how many others are farther apart than rounding can explain."""
    first = len(llama.prompt) - 1
    same = unexplained = 0
    for position in range(first, len(llama.logits)):
        theirs, chosen = llama.logits[position], llama.tokens[position + 1]
        best = int(ours[position].argmax())
        same += best == chosen
        unexplained += theirs[chosen] - theirs[best] > 2 * np.abs(ours[position] - theirs).max()
    return same, unexplained


def check(binary: Path, model: Path, allowed: float, folder: Path) -> None:
    """Compares one file; raises `ValueError` with what differs."""
    llama = opened(model)
    if (llama.token_bos(), llama.token_eos()) != (0, 0):
        raise ValueError(f"llama.cpp sees begin {llama.token_bos()} and end {llama.token_eos()} of text, not 0 and 0")
    continued = greedy(llama)
    ids = json.loads(wgoose(binary, "tokenize", PROMPT, "--model", model))
    if ids != continued.prompt:
        raise ValueError(f"the prompt is {continued.prompt} to llama.cpp and {ids} to wgoose")
    if llama.token_eos() in continued.tokens:
        raise ValueError("the end of text was chosen")
    template = llama.metadata.get("tokenizer.chat_template")
    if template is not None:
        formatter = Jinja2ChatFormatter(template, eos_token="<s>", bos_token="<s>")
        if formatter(messages=CHAT).prompt != CHAT_TEXT:
            raise ValueError(f"the chat is {formatter(messages=CHAT).prompt!r}, expected {CHAT_TEXT!r}")
    ours = logits(binary, model, continued.tokens[:-1], folder)
    numbers = folder / "numbers.gguf"
    wgoose(binary, "convert", model, numbers, "--to", "F32", "--force")
    as_stored, as_numbers = compare(ours, continued.logits), compare(ours, llama_logits(numbers, continued.tokens[:-1]))
    same, unexplained = choices(ours, continued)
    print(f"{model.name:<18} greedy {same}/{STEPS}   {errors(as_stored)}   in F32 {errors(as_numbers)}", flush=True)
    if unexplained or not as_stored.within(allowed, allowed) or not as_numbers.within(SAME_NUMBERS, SAME_NUMBERS):
        raise ValueError(f"{unexplained} choices differ by more than rounding; allowed {allowed:g}, {SAME_NUMBERS:g}")


def errors(difference: Difference) -> str:
    """The worst position, and the divergence, for a line of many."""
    return f"worst {max(difference.first, difference.worst):.1e} KL {difference.kl:.1e}"


def models(binary: Path, folder: Path) -> dict[Path, float]:
    """The demo model in F16, and the synthetic one in every mix, each with the error that it may have."""
    source = folder / "world.st"
    wgoose(binary, "dev", "synth", source, "--layers", 4, "--width", 256, "--vocab", 65536, "--mix", "F32", "--seed", 3)
    found = {DEMO: MIXES["F16"]}
    for mix, allowed in MIXES.items():
        copy = folder / f"world-{mix}.gguf"
        wgoose(binary, "convert", source, copy, "--to", mix, "--set", "general.license=MIT")
        found[copy] = allowed
    return found


def main() -> None:
    """Compares every file; exits with 1 where one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wgoose", type=Path, required=True, help="the built command-line tool")
    args = parser.parse_args()
    of = wgoose(args.wgoose, "--version").splitlines()[0]
    print(f"{date.today()}  llama-cpp-python {version('llama-cpp-python')}, {of}, {platform.machine()}")
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for model, allowed in models(args.wgoose, folder).items():
            try:
                check(args.wgoose, model, allowed, folder)
            except (subprocess.CalledProcessError, ValueError) as failed:
                failures += 1
                print(f"{model.name:<18} FAILED: {getattr(failed, 'stderr', None) or failed}", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
