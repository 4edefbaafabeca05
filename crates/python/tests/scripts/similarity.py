"""Which of some texts is nearest to a question."""

import numpy as np
from llama_cpp import Llama

llm = Llama(model_path="model.gguf", embedding=True, pooling_type=1, n_ctx=512, verbose=False)
documents = ["a goose on a lake", "the train to Basel", "a swan in the reeds"]
vectors = np.array(llm.embed(documents, normalize=True))
question = np.array(llm.embed("which birds swim?", normalize=True))
scores = vectors @ question
assert vectors.shape == (3, llm.n_embd()) and np.all(np.abs(scores) <= 1 + 1e-5)
print(documents[int(scores.argmax())])
