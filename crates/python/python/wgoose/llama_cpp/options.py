"""Options of llama-cpp-python that wgoose cannot honour: none is passed over in silence."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import wgoose

HINTS = frozenset(
    {
        "flash_attn",
        "n_threads",
        "n_threads_batch",
        "n_ubatch",
        "no_perf",
        "numa",
        "offload_kqv",
        "op_offload",
        "swa_full",
        "type_k",
        "type_v",
        "use_mlock",
        "use_mmap",
    }
)
"""Options of `Llama` that change how fast llama.cpp is, never what it says."""

MODEL: Mapping[str, object] = {
    "split_mode": 1,
    "tensor_split": None,
    "vocab_only": False,
    "kv_overrides": None,
    "rope_scaling_type": -1,
    "attention_type": -1,
    "rope_freq_base": 0.0,
    "rope_freq_scale": 0.0,
    "yarn_ext_factor": -1.0,
    "yarn_attn_factor": 1.0,
    "yarn_beta_fast": 32.0,
    "yarn_beta_slow": 1.0,
    "yarn_orig_ctx": 0,
    "logits_all": False,
    "last_n_tokens_size": 64,
    "lora_base": None,
    "lora_scale": 1.0,
    "lora_path": None,
    "chat_handler": None,
    "draft_model": None,
    "tokenizer": None,
    "spm_infill": False,
}
"""Other options of `Llama` that have no counterpart, and the value at which each changes nothing."""

COMPLETION: Mapping[str, object] = {
    "suffix": None,
    "logprobs": None,
    "tfs_z": 1.0,
    "mirostat_mode": 0,
    "stopping_criteria": None,
    "logits_processor": None,
    "functions": None,
    "function_call": None,
    "tools": None,
    "tool_choice": None,
    "top_logprobs": None,
}
"""The same for completions."""

INSTEAD: Mapping[str, str] = {
    "logprobs": "`wgoose.Model.logits` has the logits of every token",
    "logits_all": "`wgoose.Model.logits` has the logits of every token",
    "logits_processor": "use logit_bias",
    "stopping_criteria": "use stop and stop_tokens, or leave a stream",
}


def refuse(neutral: Mapping[str, object], **given: object) -> None:
    """Raises InputError where one of these options is given, with another value than the one that changes nothing."""
    for name, value in given.items():
        if value is None or value is False or value == [] or value == neutral[name]:
            continue
        instead = INSTEAD.get(name, "leave it out")
        raise wgoose.InputError(f"{name}={value!r} is an option of llama-cpp-python that wgoose has not: {instead}")


def check_model(options: Mapping[str, object]) -> None:
    """Looks at the options of `Llama` that it does not name itself."""
    for name, value in options.items():
        if name in HINTS:
            if value is not None:
                text = f"{name}={value!r} tells llama.cpp how to be fast; wgoose has plans for that, and ignores it"
                warnings.warn(text, stacklevel=3)
        elif name in MODEL:
            refuse(MODEL, **{name: value})
        else:
            raise TypeError(f"Llama() got an unexpected keyword argument '{name}'")
