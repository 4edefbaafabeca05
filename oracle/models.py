"""The tiny models that goldens and checks are made of: one table, and how each is made with `wgoose dev synth`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from to_pth import convert

GOLDENS = Path(__file__).parent / "goldens"
FIXTURE = GOLDENS / "tiny.pth"


@dataclass(frozen=True)
class Model:
    """One synthetic model. Four different ranks, so that a swapped adapter cannot fit."""

    name: str
    mix: str
    container: str = "gguf"
    layers: int = 3
    width: int = 128
    ffn: int = 512
    vocab: int = 320
    ranks: tuple[int, int, int, int] = (32, 24, 16, 48)
    seed: int = 1
    hot: bool = False
    deep_embed: int | None = None

    def arguments(self) -> list[str]:
        """The options of `wgoose dev synth` that make it."""
        sizes = {"layers": self.layers, "width": self.width, "ffn": self.ffn, "vocab": self.vocab, "head-size": 64}
        options = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
        options += ["--ranks", ",".join(map(str, self.ranks)), "--mix", self.mix, "--seed", str(self.seed)]
        if self.deep_embed is not None:
            options += ["--deep-embed", str(self.deep_embed)]
        return options + ["--hot"] * self.hot

    def make(self, wgoose: Path, folder: Path) -> Path:
        """Writes it into `folder`; `synth` knows no .pth, so that one is converted from .st."""
        suffix = "st" if self.container == "pth" else self.container
        path = folder / f"{self.name}.{suffix}"
        subprocess.run([wgoose, "dev", "synth", path, *self.arguments()], check=True, stdout=subprocess.DEVNULL)
        if self.container == "pth":
            convert(path, path.with_suffix(".pth"))
            path = path.with_suffix(".pth")
        return path


# K-quants need rows of a multiple of 256.
MODELS = [
    Model("f16-gguf", "F16"),
    Model("f16-st", "F16", container="st", seed=2),
    Model("bf16-pth", "BF16", container="pth", seed=3),
    Model("q8_0", "Q8_0", seed=4),
    Model("q4_0", "Q4_0", seed=5),
    Model("q4_k_m", "Q4_K_M", layers=2, width=256, seed=6),
    Model("q5_k_m", "Q5_K_M", layers=2, width=256, seed=7),
    Model("q6_k", "Q6_K", layers=2, width=256, seed=8),
    Model("f16-hot", "F16", seed=9, hot=True),
    Model("f16-one-layer", "F16", layers=1, width=64, ffn=192, vocab=257, seed=10),
    # RWKV-7a; the package knows matrices of 32 x 32 only.
    Model("f16-7a-st", "F16", container="st", seed=11, deep_embed=32),
]


def tokens(vocab: int, count: int = 300) -> list[int]:
    """A fixed, well-mixed sequence of ids below `vocab` (Knuth's multiplicative hash of the position)."""
    return [(i * 2654435761 % 2**32 >> 8) % vocab for i in range(1, count + 1)]
