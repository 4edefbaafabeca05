"""What a `Llama` has read, as an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

import wgoose


class LlamaState:
    """Tokens, and the state of a model that has read them. It can be pickled.

    input_ids: the tokens. llama_state: the tensors by name, as `wgoose.State` has them. fingerprint: of the model.
    """

    def __init__(
        self,
        input_ids: Sequence[int],
        llama_state: wgoose.State | Mapping[str, npt.NDArray[np.float32]],
        fingerprint: str,
    ) -> None:
        """Holds on to the tensors, and copies none."""
        self.input_ids: npt.NDArray[np.intc] = np.array(input_ids, np.intc)
        self.llama_state = llama_state
        self.fingerprint = fingerprint

    @property
    def n_tokens(self) -> int:
        """How many tokens were read."""
        return len(self.input_ids)

    @property
    def llama_state_size(self) -> int:
        """Bytes of the tensors."""
        return sum(self.llama_state[name].nbytes for name in self.llama_state)

    def __getstate__(self) -> dict[str, object]:
        """Its attributes; the tensors leave the memory of the model that made them."""
        return vars(self) | {"llama_state": {name: self.llama_state[name] for name in self.llama_state}}
