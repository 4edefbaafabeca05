"""Gives a GGUF file another vocabulary: `with_vocabulary.py IN.gguf vocabulary.txt OUT.gguf`.

`wgoose convert` takes the tokens of a .pth to be RWKV's own; a model of a vocabulary that `vocabulary.py` learned needs
these instead. Needs PyPI's `gguf` (oracle/requirements.txt). Everything else is copied.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gguf import GGUFReader, GGUFValueType, GGUFWriter

from vocabulary import Vocabulary

TOKENS = "tokenizer.ggml.tokens"


def as_text(token: bytes) -> str:
    """A token as llama.cpp's converter writes it: Python's literal without its quotes."""
    return repr(token)[2:-1]


def rewrite(source: Path, vocabulary: Vocabulary, target: Path) -> None:
    """Copies keys and tensors, the tokens apart; raises `ValueError` for a vocabulary of another size."""
    reader = GGUFReader(source)
    if len(reader.fields[TOKENS].data) != len(vocabulary.tokens):
        raise ValueError(f"{source} has {len(reader.fields[TOKENS].data)} tokens, not {len(vocabulary.tokens)}")
    writer = GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if name == TOKENS:
            writer.add_array(name, ["<s>", *(as_text(token) for token in vocabulary.tokens[1:])])
        elif field.types[0] == GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, field.contents(), field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    """Rewrites one file."""
    source, vocabulary, target = map(Path, sys.argv[1:])
    rewrite(source, Vocabulary.read(vocabulary), target)


if __name__ == "__main__":
    main()
