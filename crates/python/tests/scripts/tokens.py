"""Text to tokens and back, and a prompt cut to a budget."""

from llama_cpp import Llama

llm = Llama(model_path="model.gguf", verbose=False)
tokens = llm.tokenize("A goose, é.".encode("utf-8"), add_bos=False)
assert llm.detokenize(tokens).decode("utf-8", errors="ignore") == "A goose, é."
assert 0 <= max(tokens) < llm.n_vocab() and llm.token_eos() >= 0
budget = 4
prompt = llm.detokenize(tokens[:budget]).decode("utf-8", errors="ignore")
output = llm.create_completion(prompt, max_tokens=3)
assert output["usage"]["prompt_tokens"] >= 1
# Tokens are taken as they are.
print(llm(tokens, max_tokens=3)["choices"][0]["text"])
