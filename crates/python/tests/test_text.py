"""Tokens, generations, completions."""

from __future__ import annotations

import gc
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import wgoose

PROMPT = "A goose flies"
HOT = {"max_tokens": 40, "temperature": 1.0, "top_p": 1.0}


def test_text_and_tokens(model: wgoose.Model) -> None:
    """Any bytes come back; U+FFFD stands for what is no character."""
    for text in ["A goose", "gänse 🪿 雁", ""]:
        tokens = model.encode(text)
        assert tokens == model.tokenize(text.encode()) and all(isinstance(token, int) for token in tokens)
        assert model.decode(tokens) == text and model.detokenize(np.array(tokens, np.uint32)) == text.encode()
    assert model.detokenize(model.encode(b"\xff\xfe")) == b"\xff\xfe"
    assert model.decode(model.encode("雁".encode()[:2])) == "\ufffd"


@pytest.mark.parametrize("seed", [0, 7])
def test_generate_equals_the_tool(
    model: wgoose.Model, path: Path, cpu: bool, tool: Callable[..., str], seed: int
) -> None:
    """The same seed on the same device, another language."""
    words = ["--prompt", PROMPT, "--max-tokens", 40, "--top-p", 1.0, "--seed", seed]
    want = tool("generate", path, *words, "--backend", "cpu" if cpu else "gpu")
    assert "".join(model.generate(PROMPT, seed=seed, **HOT)) + "\n" == want


def test_grammars(model: wgoose.Model) -> None:
    """A model of random weights writes what a grammar says, alone and in a batch."""
    schema = {
        "type": "object",
        "properties": {"zip": {"type": "string", "pattern": "^[0-9]{3}$"}, "age": {"type": "integer", "maximum": 99}},
        "required": ["zip", "age"],
        "additionalProperties": False,
    }
    schema["properties"]["age"]["minimum"] = 0
    for given in [schema, json.dumps(schema)]:
        grammar = model.grammar(json_schema=given)
        text = "".join(model.generate(PROMPT, seed=5, grammar=grammar, **HOT | {"max_tokens": 200}))
        found = json.loads(text)
        assert list(found) == ["zip", "age"] and len(found["zip"]) == 3 and 0 <= found["age"] <= 99
    assert "".join(model.generate(PROMPT, grammar=model.grammar(choice=["honk"]))) == "honk"
    regex = model.grammar(regex="[a-z]{4}[!?]")
    alone = model.create_completion(PROMPT, seed=5, grammar=regex, **HOT)
    assert re.fullmatch("[a-z]{4}[!?]", alone["choices"][0]["text"])
    together = model.generate_batch([PROMPT, "swan"], seed=5, grammar=regex, **HOT)
    assert together[0]["choices"] == alone["choices"]
    assert "".join(model.generate(PROMPT, grammar=model.grammar(grammar='root ::= "a" "b"'))) == "ab"
    for wrong in [{}, {"regex": "("}, {"regex": "a", "choice": ["a"]}, {"json_schema": {"type": "x"}}, {"choice": []}]:
        with pytest.raises(wgoose.InputError):
            model.grammar(**wrong)


def test_seeds_differ(model: wgoose.Model) -> None:
    """The seed is used, and greedy text does not depend on it."""
    texts = {"".join(model.generate(PROMPT, seed=seed, **HOT)) for seed in range(4)}
    assert len(texts) == 4
    assert len({"".join(model.generate(PROMPT, 20, temperature=0.0, seed=seed)) for seed in range(3)}) == 1
    assert len({"".join(model.generate(PROMPT, 20, top_k=1, top_p=1.0, seed=seed)) for seed in range(3)}) == 1


def test_pieces_never_split_a_character(model: wgoose.Model) -> None:
    """Random weights give random bytes: pieces together are the decoded tokens."""
    for seed in range(6):
        generation = model.generate(PROMPT, seed=seed, **HOT)
        pieces = list(generation)
        assert all(pieces), "no empty pieces"
        assert "".join(pieces) == model.decode(generation.tokens)
        assert len(pieces) > 1, "text comes as it is made"
        assert generation.prompt_tokens == len(model.encode(PROMPT))
        assert (generation.finish_reason == "length") == (len(generation.tokens) == 40)


def test_a_generation_leaves_the_model_alone(model: wgoose.Model) -> None:
    """It begins with the model's state, which stays; several may go on at once."""
    alone = ["".join(model.generate(PROMPT, seed=seed, **HOT)) for seed in range(3)]
    generations = [model.generate(PROMPT, seed=seed, **HOT) for seed in range(3)]
    rounds = itertools.zip_longest(*generations, fillvalue="")
    assert ["".join(pieces) for pieces in zip(*rounds, strict=True)] == alone
    model.read("Once upon a time")
    assert "".join(model.generate(PROMPT, seed=0, **HOT)) != alone[0]
    model.reset()
    assert "".join(model.generate(PROMPT, seed=0, **HOT)) == alone[0]


@pytest.mark.parametrize("taken", [1, 5, 40])
def test_the_state_of_a_generation(model: wgoose.Model, taken: int) -> None:
    """However it ends, its state is the one after the prompt and its tokens, one a pass."""
    generation = model.generate(PROMPT, seed=3, **HOT)
    text = "".join(itertools.islice(generation, taken))
    state, tokens = generation.state, generation.tokens
    assert model.decode(tokens).startswith(text) and (taken == 40 or len(tokens) < 40)
    assert next(generation, None) is None
    model.read(PROMPT)
    for token in tokens:
        model.read([token])
    for name, piece in model.state.items():
        np.testing.assert_array_equal(piece, state[name])


def test_stop_strings(model: wgoose.Model) -> None:
    """The text ends before the first of them, however pieces are cut; what only looked like one is given."""
    whole = "".join(model.generate(PROMPT, seed=3, **HOT))
    stop = whole[10:13]
    generation = model.generate(PROMPT, seed=3, stop=[stop, whole[20:22]], **HOT)
    pieces = list(generation)
    assert "".join(pieces) == whole[: min(whole.find(stop), whole.find(whole[20:22]))]
    assert generation.finish_reason == "stop" and len(generation.tokens) < 40
    model.state = generation.state
    assert "".join(model.generate(PROMPT, 4)), "one can go on from there"
    model.reset()
    almost = whole[-1] + "never"
    assert "".join(model.generate(PROMPT, seed=3, stop=almost, **HOT)) == whole
    for wrong in ["", ["a", ""]]:
        with pytest.raises(wgoose.InputError, match="stop string is empty"):
            model.generate(PROMPT, stop=wrong)


def test_completions(model: wgoose.Model, path: Path) -> None:
    """Dicts that clients of other engines know."""
    text = "".join(model.generate(PROMPT, seed=1, **HOT))
    whole = model.create_completion(PROMPT, seed=1, **HOT)
    assert whole["object"] == "text_completion" and whole["model"] == str(path)
    assert whole["choices"][0]["text"] == text and whole["choices"][0]["finish_reason"] in ("stop", "length")
    usage = whole["usage"]
    assert usage["prompt_tokens"] == len(model.encode(PROMPT))
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    chunks = list(model.create_completion(PROMPT, seed=1, stream=True, echo=True, **HOT))
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == PROMPT + text
    assert {chunk["id"] for chunk in chunks} == {chunks[0]["id"]} and chunks[0]["id"] != whole["id"]
    # As other clients call it.
    assert model.tokenize(b"a goose", False, special=True) == model.encode("a goose")
    again = model.create_completion(model.tokenize(PROMPT), seed=1, presence_penalty=0.0, echo=True, **HOT)
    assert again["choices"][0]["text"] == PROMPT + text
    some = model.create_completion(PROMPT, max_tokens=None, seed=None, stop=list("abcdefghijklmnopqrstuvwxyz ,."))
    assert some["choices"][0]["finish_reason"] == "stop"
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons[:-1] == [None] * (len(chunks) - 1) and reasons[-1] == whole["choices"][0]["finish_reason"]


def test_tokens_are_read_as_they_are(model: wgoose.Model) -> None:
    """A prompt of tokens need not be what its text is made of."""
    bytes_alone = [byte + 1 for byte in PROMPT.encode()]
    assert model.decode(bytes_alone) == PROMPT and model.generate(bytes_alone, 1).prompt_tokens == len(PROMPT)
    tokens = np.array(model.encode(PROMPT), np.uint32)
    assert "".join(model.generate(tokens, seed=1, **HOT)) == "".join(model.generate(PROMPT, seed=1, **HOT))
    for wrong in ([], [1, 320]):
        with pytest.raises(wgoose.InputError):
            list(model.generate(wrong))


def test_penalties_and_biases(model: wgoose.Model) -> None:
    """They are used, and what makes no sense is refused."""
    greedy = {"max_tokens": 20, "temperature": 0.0}
    plain = "".join(model.generate(PROMPT, **greedy))
    for changed in ({"presence_penalty": 50.0}, {"frequency_penalty": 50.0}, {"logit_bias": {98: 100.0}}):
        assert "".join(model.generate(PROMPT, **greedy, **changed)) != plain
    forgotten = {"presence_penalty": 50.0, "penalty_decay": 0.0}
    assert "".join(model.generate(PROMPT, **greedy, **forgotten)) != "".join(
        model.generate(PROMPT, **greedy, presence_penalty=50.0)
    )
    assert "".join(model.generate(PROMPT, 20, typical=0.01, top_p=1.0)) != "".join(model.generate(PROMPT, 20, top_p=1.0))
    ended = model.generate(PROMPT, **greedy, logit_bias={98: 100.0}, stop_tokens=[98])
    assert list(ended) == [] and ended.finish_reason == "stop"
    for wrong in ({"stop_tokens": [320]}, {"logit_bias": {320: 1.0}}, {"penalty_decay": 2.0}, {"typical": -1.0}):
        with pytest.raises(wgoose.InputError):
            list(model.generate(PROMPT, **wrong))


def test_a_batch_is_its_texts(model: wgoose.Model) -> None:
    """In the order of the prompts, however many there is room for."""
    prompts = [PROMPT, "hello", b"a train", PROMPT, "x" * 50]
    options = {"max_tokens": 12, "temperature": 0.0}
    want = [model.create_completion(prompt, **options) for prompt in prompts]
    for together in (1, 2, 16):
        answers = model.generate_batch(iter(prompts), together=together, **options)
        for answer, one in zip(answers, want, strict=True):
            assert answer["choices"] == one["choices"] and answer["usage"] == one["usage"]
    assert model.generate_batch([]) == []
    for wrong in (PROMPT, ["a", ""]):
        with pytest.raises(wgoose.InputError):
            model.generate_batch(wrong)
    with pytest.raises(wgoose.InputError, match="together"):
        model.generate_batch(["a"], together=0)


def test_abandoned_generations_end(model: wgoose.Model) -> None:
    """Nobody reads on: threads and memory go."""
    for _ in range(8):
        generation = model.generate("hello world", 2000, 0.0)
        next(generation)
        del generation
    generation = model.generate("hello world", 2000, 0.0)
    next(generation)
    generation.close()
    assert next(generation, None) is None and generation.finish_reason is None
    del generation
    gc.collect()
    threads = [Path(task, "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    assert not [name for name in threads if name.startswith("wgoose")]


def test_a_limit_of_zero_generates_no_token(model: wgoose.Model) -> None:
    """No token at all is a length, too."""
    generation = model.generate(PROMPT, 0)
    assert list(generation) == [] and generation.finish_reason == "length" and generation.tokens == []
