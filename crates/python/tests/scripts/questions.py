"""Several questions one after the other, each forgotten before the next; closed at the end."""

import json

from llama_cpp import Llama

llm = Llama(model_path="model.gguf", n_ctx=256, n_threads=4, n_gpu_layers=0, verbose=False)
answers = []
for question in ["What swims?", "What flies?", "What rolls?"]:
    output = llm(f"Question: {question}\nAnswer:", max_tokens=6, temperature=0.2, top_p=0.95, stop=["\n", "Question:"])
    answers.append({"question": question, "answer": output["choices"][0]["text"].strip(), "id": output["id"]})
    llm.reset()
llm.close()
assert len({answer["id"] for answer in answers}) == 3
print(json.dumps(answers, indent=2))
