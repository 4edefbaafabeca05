"""A chat whose answer appears as it is made."""

from llama_cpp import Llama

llm = Llama("model.gguf", n_ctx=0, verbose=False)
parts = []
for chunk in llm.create_chat_completion(
    [{"role": "user", "content": "Honk?"}], max_tokens=10, temperature=0.0, stream=True, stop=["User:"]
):
    delta = chunk["choices"][0]["delta"]
    if "role" in delta:
        print(delta["role"], end=": ")
    elif "content" in delta:
        parts.append(delta["content"])
        print(delta["content"], end="", flush=True)
assert parts
