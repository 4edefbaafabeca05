"""RWKV-7 language models on any GPU: `Model.load`, then `generate`, `embed`, `logits`, `state`."""

from .wgoose import *  # noqa: F403
from .wgoose import __all__  # noqa: F401
