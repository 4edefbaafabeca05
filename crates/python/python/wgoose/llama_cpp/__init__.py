"""llama-cpp-python's interface for RWKV-7 models: `from wgoose.llama_cpp import Llama`."""

from .grammar import LlamaGrammar
from .llama import Llama
from .state import LlamaState

__all__ = ["Llama", "LlamaGrammar", "LlamaState"]
