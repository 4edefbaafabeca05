"""Writes `blocks_golden.json`: random blocks of every quantised format and what PyPI's `gguf` decodes them to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, dequantize
from gguf.constants import GGML_QUANT_SIZES

FIXTURE = Path(__file__).parent.parent / "crates/loader/tests/fixtures/blocks_golden.json"

# Where the f16 scales of a block lie, and how many blocks are kept (K blocks decode to 256 numbers each).
FORMATS = {
    "F16": ([0], 64),
    "BF16": ([], 64),
    "Q8_0": ([0], 8),
    "Q4_0": ([0], 8),
    "Q4_K": ([0, 2], 3),
    "Q5_K": ([0, 2], 3),
    "Q6_K": ([208], 3),
    # Those that conversions alone read.
    "Q4_1": ([0, 2], 8),
    "Q5_0": ([0], 8),
    "Q5_1": ([0, 2], 8),
    "Q2_K": ([80, 82], 3),
    "Q3_K": ([108], 3),
    "IQ4_NL": ([0], 8),
    "IQ4_XS": ([0], 3),
}


def random_blocks(name: str, count: int, random: np.random.Generator) -> np.ndarray:
    """Random bytes whose f16 scales are finite: the first block's are negative, the second's subnormal."""
    scales = FORMATS[name][0]
    size = GGML_QUANT_SIZES[GGMLQuantizationType[name]][1]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    if name == "BF16":
        blocks[:, 1] &= 0xBF  # exponents below 2^0: no infinity, no NaN
    for at in scales:
        values = random.normal(0, 0.01, count).astype(np.float16)
        values[0] = -abs(values[0])
        values[1] = np.float16(3e-6)
        blocks[:, at : at + 2] = values.reshape(-1, 1).view(np.uint8)
    return blocks


def decode(name: str, blocks: np.ndarray) -> np.ndarray:
    """The oracle's numbers, as float32."""
    return dequantize(blocks, GGMLQuantizationType[name]).astype(np.float32).reshape(-1)


def main() -> None:
    """Regenerates the fixture; the same bytes every time."""
    random = np.random.default_rng(7)
    lines = []
    for name, (_, count) in FORMATS.items():
        blocks = random_blocks(name, count, random)
        values = decode(name, blocks).astype("<f4")
        record = {"format": name, "bytes": blocks.tobytes().hex(), "f32_le": values.tobytes().hex()}
        lines.append(json.dumps(record))
    FIXTURE.parent.mkdir(parents=True, exist_ok=True)
    FIXTURE.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
