"""Holds `wgoose convert --to MIX` against the quantiser of llama.cpp: `--wgoose BINARY --library FILE`.

The library is any that has llama.cpp's C interface: `libllama.so` of the PyPI package `llama-cpp-python`, or the
extension module in a wheel of `llama-cpp-cffi`. The demo model and a synthetic one are quantised by both programs from
the same F16 file. It says which tensors they store in other formats, which of the others have other bytes, and how far
either is from the source: the root mean square of the error over that of the weights, of all weights in these tensors
together.
"""

from __future__ import annotations

import argparse
import ctypes
import platform
import subprocess
import tempfile
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import numpy as np
from gguf import GGUFReader
from gguf.gguf_reader import ReaderTensor
from gguf.quants import dequantize

DEMO = Path(__file__).parent.parent / "assets" / "demo.gguf"
SYNTHETIC = ["--layers", 4, "--width", 768, "--vocab", 1024, "--seed", 1]
# Layer 0 has no value residual: files have these tensors, no program reads them, and wgoose fills them in itself.
UNREAD = ("blk.0.time_mix_v0.", "blk.0.time_mix_v1.", "blk.0.time_mix_v2.")
# `enum llama_ftype`.
FILE_TYPES = {"Q8_0": 7, "Q4_0": 2, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18}


class QuantiseParams(ctypes.Structure):
    """`llama_model_quantize_params`: what follows the first two differs between versions and keeps its defaults."""

    _fields_ = [("threads", ctypes.c_int32), ("file_type", ctypes.c_int32), ("others", ctypes.c_uint8 * 248)]


class LlamaCpp:
    """llama.cpp's quantiser."""

    def __init__(self, library: Path) -> None:
        """Loads it."""
        self.library = ctypes.CDLL(str(library))
        self.library.llama_model_quantize_default_params.restype = QuantiseParams
        self.library.llama_model_quantize.restype = ctypes.c_uint32
        self.library.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(QuantiseParams)]
        self.library.llama_backend_init()

    def quantise(self, source: Path, to: Path, mix: str) -> None:
        """Quantises a file."""
        params = self.library.llama_model_quantize_default_params()
        params.threads, params.file_type = 2, FILE_TYPES[mix]
        code = self.library.llama_model_quantize(str(source).encode(), str(to).encode(), ctypes.byref(params))
        if code != 0:
            raise SystemExit(f"llama.cpp does not make {mix} of {source.name}: {code}")


@dataclass
class Errors:
    """Errors of weights in some tensors."""

    tensors: int = 0
    weights: float = 0.0
    """Sum of squares."""
    error: dict[str, float] = field(default_factory=lambda: {"ours": 0.0, "theirs": 0.0})

    def add(self, source: np.ndarray, ours: ReaderTensor, theirs: ReaderTensor) -> None:
        """Adds a tensor."""
        self.tensors += 1
        self.weights += float((source**2).sum())
        for who, tensor in (("ours", ours), ("theirs", theirs)):
            self.error[who] += float(((values(tensor) - source) ** 2).sum())

    def said(self) -> str:
        """Both errors, relative to the weights."""
        return " ".join(f"{who} {(error / self.weights) ** 0.5:.6f}" for who, error in self.error.items())


def values(tensor: ReaderTensor) -> np.ndarray:
    """Its weights, flat, as float64."""
    return dequantize(tensor.data, tensor.tensor_type).astype(np.float64).ravel()


def tensors(path: Path) -> dict[str, ReaderTensor]:
    """The tensors of a file that are read."""
    return {tensor.name: tensor for tensor in GGUFReader(path).tensors if not tensor.name.startswith(UNREAD)}


def compare(name: str, mix: str, source: Path, ours: Path, theirs: Path) -> None:
    """Prints how two files of a source differ."""
    of_source, of_ours, of_theirs = tensors(source), tensors(ours), tensors(theirs)
    if of_ours.keys() != of_theirs.keys():
        raise SystemExit(f"{name}, {mix}: other tensors: {sorted(of_ours.keys() ^ of_theirs.keys())[:4]}")
    same, formats, bytes_ = 0, {}, {}
    for key, tensor in of_ours.items():
        other = of_theirs[key]
        kinds = (tensor.tensor_type.name, other.tensor_type.name)
        if kinds[0] == kinds[1] and tensor.data.tobytes() == other.data.tobytes():
            same += 1
            continue
        found = formats if kinds[0] != kinds[1] else bytes_
        weights = values(of_source[key])
        found.setdefault(" as ".join(dict.fromkeys(kinds)), Errors()).add(weights, tensor, other)
    sizes = f"{ours.stat().st_size:,} bytes, theirs {theirs.stat().st_size:,}"
    print(f"{name} {mix}: {same} of {len(of_ours)} tensors the same; {sizes}")
    for kind, errors in sorted(bytes_.items()):
        print(f"  other bytes, {kind}: {errors.tensors} tensors, error {errors.said()}")
    for kind, errors in sorted(formats.items()):
        print(f"  ours as theirs, {kind}: {errors.tensors} tensors, error {errors.said()}")


def main() -> None:
    """Compares all mixes of both models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wgoose", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--mix", action="append", choices=FILE_TYPES)
    options = parser.parse_args()
    llama = LlamaCpp(options.library)

    def wgoose(*words: object) -> None:
        subprocess.run([options.wgoose, *map(str, words)], check=True, capture_output=True)

    print(f"{options.library.name} on {platform.machine()}, {date.today()}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wgoose("convert", DEMO, folder / "demo.gguf", "--to", "F16")
        wgoose("dev", "synth", folder / "synthetic.gguf", *SYNTHETIC, "--mix", "F16")
        for model in ("demo", "synthetic"):
            source = folder / f"{model}.gguf"
            for mix in options.mix or FILE_TYPES:
                ours, theirs = folder / f"{model}-ours.gguf", folder / f"{model}-theirs.gguf"
                ours.unlink(missing_ok=True)
                wgoose("convert", source, ours, "--to", mix)
                llama.quantise(source, theirs, mix)
                compare(model, mix, source, ours, theirs)


if __name__ == "__main__":
    main()
