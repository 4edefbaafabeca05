"""Draws the training curve: `plot.py [curve.jsonl [plot.svg]]`.

Loss and the validation split in bits per byte (of a vocabulary of bytes: a token is a byte), over the bytes read.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 52, 150, 16, 44
# Begins above the first steps, which would leave no room for the rest.
LOW, HIGH = 0.5, 2.5
# Colours come from the reader's scheme where the file is shown as an image too.
STYLE = """
.ground { fill: #fff } text { font: 12px sans-serif; fill: #333 } .grid { stroke: #ccc } path { fill: none; stroke-width: 2 }
.train { stroke: #7a7a7a } .validation { stroke: #0b62c4 } .mark { fill: #0b62c4 } .bound { stroke: #b3541e }
@media (prefers-color-scheme: dark) {
.ground { fill: #14171a } text { fill: #ddd } .grid { stroke: #444 } .train { stroke: #9a9a9a } .validation { stroke: #6fb1ff }
.mark { fill: #6fb1ff } .bound { stroke: #f0a06a } }
"""


def draw(lines: list[dict[str, float]]) -> str:
    """The curve as SVG."""
    steps = [line for line in lines if "tokens" in line]
    train = [(line["tokens"], line["loss"] / math.log(2)) for line in steps]
    validation = [(line["tokens"], line["validation"]) for line in steps if "validation" in line]
    last = lines[-1]
    per_step = steps[-1]["tokens"] / steps[-1]["step"]
    most = last["step"] * per_step
    validation.append((most, last["validation"]))

    def x(tokens: float) -> float:
        return LEFT + tokens / most * (WIDTH - LEFT - RIGHT)

    def y(bits: float) -> float:
        return TOP + (HIGH - bits) / (HIGH - LOW) * (HEIGHT - TOP - BOTTOM)

    def path(points: list[tuple[float, float]], name: str) -> str:
        inside = [(tokens, bits) for tokens, bits in points if bits <= HIGH]
        return f'<path class="{name}" d="M' + " L".join(f"{x(t):.1f} {y(b):.1f}" for t, b in inside) + '"/>'

    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>Bits per byte over bytes read</title>",
        f"<style>{STYLE}</style>",
        '<rect class="ground" width="100%" height="100%"/>',
    ]
    for bits in (0.5, 1.0, 1.5, 2.0, 2.5):
        parts.append(f'<path class="grid" style="stroke-width:1" d="M{LEFT} {y(bits):.1f} H{right}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(bits) + 4:.1f}" text-anchor="end">{bits}</text>')
    for millions in range(0, int(most / 1e6) + 1, 20):
        parts.append(f'<text x="{x(millions * 1e6):.1f}" y="{bottom + 18}" text-anchor="middle">{millions}</text>')
    middle = (LEFT + right) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">bytes read, millions</text>')
    parts.append(f'<text x="{LEFT + 8}" y="{TOP + 14}">bits per byte</text>')
    parts += [path(train, "train"), path(validation, "validation")]
    parts += [f'<circle class="mark" r="3" cx="{x(t):.1f}" cy="{y(b):.1f}"/>' for t, b in validation if b <= HIGH]
    held_out = last["held-out"]
    parts.append(f'<path class="bound" d="M{right - 14} {y(held_out):.1f} H{right}"/>')
    # Labels a little apart, where the curves end close together.
    ends = [
        (held_out + 0.05, f"held out {held_out:.3f}"),
        (train[-1][1], "training loss"),
        (last["validation"] - 0.02, f"validation {last['validation']:.3f}"),
    ]
    parts += [f'<text x="{right + 8}" y="{y(bits) + 4:.1f}">{text}</text>' for bits, text in ends]
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Reads the curve, writes the picture."""
    here = Path(__file__).parent
    source, target = (*map(Path, sys.argv[1:]), here / "curve.jsonl", here / "plot.svg")[:2]
    lines = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    target.write_text(draw(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
