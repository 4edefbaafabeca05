"""RWKV-7 language models on any GPU: `Model.load`, then `generate`, `embed`, `logits`, `state`."""

from collections.abc import Mapping as _Mapping

from .wgoose import *  # noqa: F403
from .wgoose import State as _State
from .wgoose import __all__  # noqa: F401

_Mapping.register(_State)
