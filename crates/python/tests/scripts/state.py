"""A long prompt that is read once and continued twice, also from a file."""

import pickle
from pathlib import Path

from llama_cpp import Llama

llm = Llama(model_path="model.gguf", n_ctx=1024, verbose=False)
tokens = llm.tokenize(b"The rules of the house: geese are fed at noon.")
llm.reset()
llm.eval(tokens)
state = llm.save_state()
Path("house.state").write_bytes(pickle.dumps(state))
before = llm.n_tokens

llm.reset()
assert llm.n_tokens == 0
llm.load_state(pickle.loads(Path("house.state").read_bytes()))
assert llm.n_tokens == before == len(tokens)
question = tokens + llm.tokenize(b" And the swans?", add_bos=False)
print(llm.create_completion(question, max_tokens=6, temperature=0.0)["choices"][0]["text"])
