"""A completion, as llama-cpp-python's first example has it."""

from llama_cpp import Llama

llm = Llama(model_path="./model.gguf", n_ctx=2048, verbose=False)
output = llm("Q: Name the planets in the solar system? A: ", max_tokens=16, stop=["Q:", "\n"], echo=True)
assert output["choices"][0]["text"].startswith("Q: Name the planets")
assert output["choices"][0]["finish_reason"] in ("stop", "length")
assert output["usage"]["completion_tokens"] <= 16
print(output)
