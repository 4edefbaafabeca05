"""The options that people set, and the same text for the same seed."""

from llama_cpp import Llama

llm = Llama(model_path="./model.gguf", n_ctx=1024, n_batch=64, seed=1337, verbose=False)
options = {
    "max_tokens": 12,
    "temperature": 0.8,
    "top_p": 0.9,
    "top_k": 40,
    "presence_penalty": 0.2,
    "frequency_penalty": 0.2,
    "logit_bias": {"5": -100.0},
    "seed": 42,
}
first = llm.create_completion("The goose flies over", **options)
again = llm.create_completion("The goose flies over", **options)
assert first["object"] == "text_completion"
assert first["choices"][0]["text"] == again["choices"][0]["text"]
print(first["choices"][0]["text"])
