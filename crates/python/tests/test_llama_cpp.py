"""Scripts written for llama-cpp-python, with another import."""

from __future__ import annotations

import inspect
import itertools
import json
import pickle
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import wgoose
from wgoose.llama_cpp import Llama, LlamaGrammar, LlamaState

PROMPT = "A goose flies"
HOT = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "seed": 1}
TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Honk?\n\nHonk!"}]


@pytest.fixture
def llm(path: Path, cpu: bool) -> Llama:
    """A model that has read nothing."""
    return Llama(str(path), cpu=cpu, n_ctx=256)


def text(answer: dict) -> str:
    """The text of a completion, or of a piece."""
    return answer["choices"][0]["text"]


def test_completion(llm: Llama, model: wgoose.Model, path: Path) -> None:
    """The text that the model writes, in the dict that scripts take apart."""
    want = "".join(model.generate(PROMPT, 24, 1.0, 1.0, seed=1))
    answer = llm(PROMPT, max_tokens=24, **HOT)
    assert text(answer) == want and json.loads(json.dumps(answer)) == answer
    assert answer["object"] == "text_completion" and answer["id"].startswith("cmpl-") and answer["created"] > 1e9
    assert answer["model"] == str(path) and set(answer) == {"id", "object", "created", "model", "choices", "usage"}
    assert set(answer["choices"][0]) == {"text", "index", "logprobs", "finish_reason"}
    usage, prompt = answer["usage"], len(model.encode(PROMPT))
    assert usage["prompt_tokens"] == prompt and usage["total_tokens"] == prompt + usage["completion_tokens"]
    assert text(llm.create_completion(PROMPT, None, 24, **HOT)) == want, "arguments in llama-cpp-python's order"
    assert text(llm(llm.tokenize(PROMPT.encode()), max_tokens=24, **HOT)) == want
    assert llm(PROMPT, max_tokens=2, model="mine")["model"] == "mine"
    assert llm("", max_tokens=2)["usage"]["prompt_tokens"] == 1, "after end-of-text"


@pytest.mark.parametrize("most", [-1, 0, None])
def test_completion_without_a_limit_ends_at_the_context(llm: Llama, most: int | None) -> None:
    """Until the text ends, or the context is full; too long a prompt is said."""
    endless = {"logit_bias": {0: float("-inf")}, "max_tokens": most}
    answer = llm(PROMPT, **endless, **HOT)
    assert answer["usage"]["total_tokens"] == 256 == llm.n_ctx() and answer["choices"][0]["finish_reason"] == "length"
    with pytest.raises(wgoose.InputError, match="n_ctx=256: leave n_ctx out"):
        llm("goose " * 300)


def test_streaming(llm: Llama) -> None:
    """Pieces make up the text, the last one says why it ended; echo comes first."""
    whole = llm(PROMPT, max_tokens=24, echo=True, **HOT)
    chunks = list(llm(PROMPT, max_tokens=24, echo=True, stream=True, **HOT))
    assert text(whole).startswith(PROMPT) and "".join(map(text, chunks)) == text(whole)
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + [whole["choices"][0]["finish_reason"]]
    assert len({chunk["id"] for chunk in chunks}) == 1 and len(chunks) > 3
    assert text(llm(llm.tokenize(PROMPT.encode()), max_tokens=24, echo=True, **HOT)) == text(whole)
    for _ in itertools.islice(llm(PROMPT, max_tokens=24, stream=True, **HOT), 2):
        pass
    assert text(llm(PROMPT, max_tokens=24, echo=True, **HOT)) == text(whole), "after a stream that was left"


def test_stop_strings(llm: Llama) -> None:
    """The text ends before the first."""
    whole = text(llm(PROMPT, max_tokens=40, **HOT))
    stop = whole[8:11]
    for stops in (stop, [stop, "never"]):
        answer = llm(PROMPT, max_tokens=40, stop=stops, **HOT)
        assert text(answer) == whole[: whole.find(stop)] and answer["choices"][0]["finish_reason"] == "stop"
    assert text(llm(PROMPT, max_tokens=40, stop=[], **HOT)) == whole


def test_sampling_options_are_used(llm: Llama) -> None:
    """Seeds, penalties, biases and stop tokens are used."""
    plain = text(llm(PROMPT, max_tokens=24, **HOT))
    assert text(llm(PROMPT, max_tokens=24, **{**HOT, "seed": 2})) != plain
    drawn = {text(llm(PROMPT, max_tokens=24, **{**HOT, "seed": seed})) for seed in (-1, None, -1, None)}
    assert len(drawn) == 4
    llm.set_seed(1)
    assert text(llm(PROMPT, max_tokens=24, **{**HOT, "seed": None})) == plain
    greedy = {"max_tokens": 24, "temperature": 0.0}
    first = text(llm(PROMPT, **greedy))
    assert text(llm(PROMPT, frequency_penalty=50.0, **greedy)) != first
    tokens = llm.tokenize(first.encode())
    assert text(llm(PROMPT, logit_bias={tokens[0]: float("-inf")}, **greedy)) != first
    bias = {ord("a") + 1: 100.0}  # byte tokens are one more than the byte
    assert text(llm(PROMPT, logit_bias=bias, **greedy)) == "a" * 24
    ended = llm(PROMPT, logit_bias=bias, stop_tokens=[ord("a") + 1], **greedy)
    assert text(ended) == "" and ended["choices"][0]["finish_reason"] == "stop"


def test_chat(llm: Llama, model: wgoose.Model) -> None:
    """The format of the G1 models, and a second round."""
    prompt = "System: Be brief.\n\nUser: Honk?\nHonk!\n\nAssistant:"
    assert wgoose.chat_prompt([(said["role"], said["content"]) for said in TALK]) == prompt
    want = "".join(model.generate(prompt, 24, 1.0, 1.0, seed=1, stop="\n\nUser:"))
    answer = llm.create_chat_completion(TALK, max_tokens=24, **HOT)
    assert answer["object"] == "chat.completion" and answer["id"].startswith("chatcmpl-")
    choice = answer["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": want.lstrip()} and choice["index"] == 0
    assert answer["usage"]["prompt_tokens"] == len(model.encode(prompt))
    chunks = list(llm.create_chat_completion(TALK, max_tokens=24, stream=True, **HOT))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant"} and deltas[-1] == {}
    assert "".join(delta["content"] for delta in deltas[1:-1]) == want.lstrip()
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert chunks[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]
    more = [*TALK, choice["message"], {"role": "user", "content": [{"type": "text", "text": "Again."}]}]
    assert llm.create_chat_completion(more, max_tokens=4)["usage"]["prompt_tokens"] > answer["usage"]["prompt_tokens"]
    thought = llm.create_chat_completion(TALK, max_tokens=4, think=True, **HOT)
    assert thought["choices"][0]["message"]["content"].startswith("<think")
    with pytest.raises(wgoose.InputError, match="role 'tool' is none of"):
        llm.create_chat_completion([{"role": "tool", "content": "x"}])
    with pytest.raises(wgoose.InputError, match="image_url"):
        llm.create_chat_completion([{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}])


def test_chat_answers_as_the_tool_does(path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The same answer as `wgoose chat` gives."""
    tool = request.config.getoption("--wgoose")
    words = [
        tool,
        "chat",
        path,
        "--backend",
        "cpu",
        "--system",
        "Be brief.",
        "--temperature",
        "0",
        "--max-tokens",
        "12",
    ]
    words += ["--presence-penalty", "0", "--frequency-penalty", "0"]
    done = subprocess.run(list(map(str, words)), input=b"Honk?\n", capture_output=True, check=True)
    llm = Llama(path, cpu=True)
    talk = [TALK[0], {"role": "user", "content": "Honk?"}]
    answer = llm.create_chat_completion(talk, temperature=0.0, max_tokens=12)["choices"][0]["message"]["content"]
    assert answer and answer.strip() in done.stdout.decode()


def test_embedding(llm: Llama, model: wgoose.Model, path: Path, cpu: bool) -> None:
    """Lists of floats, for one text or several."""
    texts = ["a goose", "a train"]
    answer = llm.create_embedding(texts)
    assert answer["object"] == "list" and [row["index"] for row in answer["data"]] == [0, 1]
    want = model.embed_batch(texts, normalise=False)
    np.testing.assert_array_equal([row["embedding"] for row in answer["data"]], want)
    assert answer["usage"]["total_tokens"] == sum(len(model.encode(said)) for said in texts)
    assert llm.create_embedding("a goose")["data"][0]["embedding"] == want[0].tolist() == llm.embed("a goose")
    vectors, count = llm.embed(texts, normalize=True, return_count=True)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    assert count == answer["usage"]["prompt_tokens"] and len(vectors[0]) == llm.n_embd()
    every = Llama(path, cpu=cpu, embedding=True, pooling_type=0)
    assert np.shape(every.embed("a goose")) == (len(model.encode("a goose")), 128)


def test_tokens(llm: Llama) -> None:
    """Bytes to tokens and back."""
    tokens = llm.tokenize(b"a goose \xff", add_bos=False, special=True)
    assert llm.detokenize(tokens) == b"a goose \xff" and all(isinstance(token, int) for token in tokens)
    assert llm.n_vocab() == 320 and llm.token_eos() == llm.token_bos() == 0
    assert llm.detokenize([llm.token_nl()]) == b"\n"


def test_states(llm: Llama, path: Path, cpu: bool, other_path: Path) -> None:
    """What was read is kept, saved, pickled, and not read again; answers do not depend on it."""
    llm(PROMPT, max_tokens=8, **HOT)
    state = llm.save_state()
    assert isinstance(state, LlamaState) and state.n_tokens == llm.n_tokens > len(llm.tokenize(PROMPT.encode()))
    longer = [*llm.input_ids.tolist(), *llm.tokenize(b" and")]
    more = text(llm(longer, max_tokens=8, temperature=0.0))
    assert llm.n_tokens >= len(longer)
    llm.load_state(pickle.loads(pickle.dumps(state)))
    assert llm.n_tokens == state.n_tokens and text(llm(longer, max_tokens=8, temperature=0.0)) == more
    fresh = Llama(path, cpu=cpu)
    assert text(fresh(longer, max_tokens=8, temperature=0.0)) == more
    fresh.load_state(state)
    fresh.eval(llm.tokenize(b" and"))
    assert fresh.input_ids.tolist() == longer
    fresh.reset()
    assert fresh.n_tokens == 0
    with pytest.raises(wgoose.StateError, match="fingerprint"):
        Llama(other_path, cpu=cpu).load_state(state)


def test_a_state_is_used(llm: Llama) -> None:
    """Tokens that were read are not read again: a state that is not theirs shows."""
    prompt = llm.tokenize(b"A goose flies over the hills")
    want = text(llm(prompt, max_tokens=12, temperature=0.0))
    llm.reset()
    llm.eval(llm.tokenize(b"Once upon a time"))
    wrong = LlamaState(prompt[:3], llm.save_state().llama_state, llm.save_state().fingerprint)
    llm.load_state(wrong)
    assert text(llm(prompt, max_tokens=12, temperature=0.0)) != want
    llm.load_state(wrong)
    assert llm(PROMPT[::-1], max_tokens=1) and text(llm(prompt, max_tokens=12, temperature=0.0)) == want


def test_context_manager(path: Path) -> None:
    """It is closed at the end, and says so."""
    with Llama(model_path=path, cpu=True) as llm:
        assert llm(PROMPT, max_tokens=1)
    for wrong in [lambda: llm(PROMPT), lambda: llm.tokenize(b"a"), llm.save_state, lambda: llm.embed("a")]:
        with pytest.raises(wgoose.Error, match="was closed"):
            wrong()
    llm.close()


@pytest.mark.parametrize(
    "options",
    [{"tfs_z": 0.9}, {"logits_processor": [print]}, {"mirostat_mode": 2}],
)
def test_options_that_cannot_be_honoured(path: Path, options: dict) -> None:
    """They are refused, by name, and what to do is said."""
    llm = Llama(path, cpu=True)
    name = next(iter(options))
    for call in (llm, lambda _, **given: llm.create_chat_completion(TALK, **given)):
        with pytest.raises(wgoose.InputError, match=f"{name}=.* wgoose has not: ") as caught:
            call(PROMPT, **options)
        assert "\n" not in str(caught.value)


def test_options_that_are_there_for_scripts(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What changes nothing is taken, hints with a warning; the rest is refused."""
    with pytest.warns(UserWarning, match="n_threads=8 tells llama.cpp how to be fast"):
        llm = Llama(str(path), n_gpu_layers=0, n_threads=8, verbose=True, embedding=True, n_batch=16, logits_all=False)
    assert "on CPU reference" in capsys.readouterr().err
    assert llm(PROMPT, max_tokens=2, min_p=0.0, repeat_penalty=1.0, tfs_z=1.0, logprobs=None, grammar=None)
    assert llm(PROMPT, max_tokens=2, min_p=0.1, repeat_penalty=1.1)
    assert llm.create_chat_completion(TALK, max_tokens=1, response_format={"type": "text"}, tools=None)
    for options in [{"lora_path": "x"}, {"logits_all": True}, {"chat_format": "chatml"}, {"pooling_type": 2}]:
        with pytest.raises(wgoose.InputError, match=next(iter(options))):
            Llama(path, **options)
    with pytest.raises(wgoose.InputError, match="functions"):
        llm.create_chat_completion(TALK, functions=[{}])
    for wrong in [lambda: Llama(path, no_such=1), lambda: llm(PROMPT, no_such=1)]:
        with pytest.raises(TypeError, match="no_such"):
            wrong()


def test_grammars(path: Path) -> None:
    """A model of random weights writes what a grammar, or a response format, says."""
    llm = Llama(path, cpu=True)
    gbnf = LlamaGrammar.from_string('root ::= "a" [b-c]{3}')
    text = llm(PROMPT, max_tokens=20, grammar=gbnf)["choices"][0]
    assert re.fullmatch("a[bc]{3}", text["text"]) and text["finish_reason"] == "stop"
    schema = {
        "type": "object",
        "properties": {"b": {"enum": [1, 2]}, "a": {"type": "boolean"}},
        "required": ["b", "a"],
        "additionalProperties": False,
    }
    as_format = {"response_format": {"type": "json_object", "schema": schema}}
    for how in [as_format, {"grammar": LlamaGrammar.from_json_schema(json.dumps(schema))}]:
        answer = llm.create_chat_completion(TALK, max_tokens=200, seed=4, **how)
        found = json.loads(str(answer["choices"][0]["message"]["content"]))
        assert list(found) == ["b", "a"] and found["b"] in (1, 2)
        pieces = llm.create_chat_completion(TALK, max_tokens=200, seed=4, stream=True, **how)
        said = "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces)
        assert json.loads(said) == found
    cut = llm.create_chat_completion(TALK, max_tokens=4, response_format={"type": "json_object"})["choices"][0]
    assert cut["finish_reason"] == "length" and str(cut["message"]["content"]).startswith("{")
    for wrong in [{"response_format": {"type": "xml"}}, {"grammar": "x"}, {"grammar": LlamaGrammar.from_string("x ::=")}]:
        with pytest.raises(wgoose.InputError):
            llm.create_chat_completion(TALK, **wrong)


SIGNATURES: list[tuple[Callable, str]] = [
    (
        Llama.create_completion,
        "prompt suffix max_tokens temperature top_p min_p typical_p logprobs echo stop frequency_penalty "
        "presence_penalty repeat_penalty top_k stream seed tfs_z mirostat_mode mirostat_tau mirostat_eta model stopping_criteria "
        "logits_processor grammar logit_bias",
    ),
    (
        Llama.create_chat_completion,
        "messages functions function_call tools tool_choice temperature top_p top_k min_p typical_p stream stop seed "
        "response_format max_tokens presence_penalty frequency_penalty repeat_penalty tfs_z mirostat_mode mirostat_tau "
        "mirostat_eta model logits_processor grammar logit_bias logprobs top_logprobs",
    ),
    (Llama.create_embedding, "input model"),
    (Llama.embed, "input normalize truncate return_count"),
    (Llama.tokenize, "text add_bos special"),
    (Llama.detokenize, "tokens prev_tokens special"),
    (Llama.load_state, "state"),
    (Llama.save_state, ""),
]
"""Names in their order, of llama-cpp-python 0.3.36."""


@pytest.mark.parametrize(("call", "names"), SIGNATURES, ids=lambda value: getattr(value, "__name__", ""))
def test_signatures(call: Callable, names: str) -> None:
    """Arguments by place and by name go where they went; ours are by name alone."""
    given = [p for p in inspect.signature(call).parameters.values() if p.name != "self"]
    assert [p.name for p in given if p.kind is not p.KEYWORD_ONLY] == names.split()
    assert Llama.__call__ is Llama.create_completion
