"""A completion piece by piece."""

import sys

import llama_cpp

llm = llama_cpp.Llama(model_path="model.gguf", n_ctx=512, verbose=False)
reason = None
for chunk in llm("Once upon a time", max_tokens=12, temperature=0.0, stream=True):
    choice = chunk["choices"][0]
    sys.stdout.write(choice["text"])
    reason = choice["finish_reason"] or reason
sys.stdout.flush()
assert reason in ("stop", "length"), reason
