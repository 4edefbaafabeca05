"""RWKV-7 language models on any GPU: `Model.load`, then `generate`, `embed`, `logits`, `state`."""

import os as _os
import sys as _sys
import tempfile as _tempfile
from collections.abc import Mapping as _Mapping

from .wgoose import *  # noqa: F403
from .wgoose import State as _State
from .wgoose import __all__  # noqa: F401

_Mapping.register(_State)

# Where the desktop's folder is not set, as in containers, a layer that Mesa puts into every Vulkan program complains about that
# on standard error: any folder without a socket of a display will do.
if _sys.platform == "linux":
    _os.environ.setdefault("XDG_RUNTIME_DIR", _tempfile.gettempdir())
