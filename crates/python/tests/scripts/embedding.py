"""Embeddings in the form of OpenAI's API."""

from llama_cpp import Llama

llm = Llama(model_path="model.gguf", embedding=True, pooling_type=1, verbose=False)  # LLAMA_POOLING_TYPE_MEAN
embeddings = llm.create_embedding(["Hello, world!", "Goodbye, world!"])
vectors = [row["embedding"] for row in embeddings["data"]]
assert [row["index"] for row in embeddings["data"]] == [0, 1]
assert len(vectors[0]) == len(vectors[1]) == llm.n_embd()
print(embeddings["usage"], vectors[0][:3])
