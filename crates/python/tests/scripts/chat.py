"""A chat of two turns."""

from llama_cpp import Llama

llm = Llama(model_path="model.gguf", n_ctx=4096, n_gpu_layers=-1, verbose=False)
messages = [
    {"role": "system", "content": "You are an assistant who perfectly describes birds."},
    {"role": "user", "content": "Describe a goose."},
]
for question in ("And a swan?", None):
    answer = llm.create_chat_completion(messages=messages, max_tokens=8, temperature=0.7)
    message = answer["choices"][0]["message"]
    assert message["role"] == "assistant" and isinstance(message["content"], str)
    print("assistant:", message["content"])
    messages.append({"role": "assistant", "content": message["content"]})
    if question:
        messages.append({"role": "user", "content": question})
assert len(messages) == 5
