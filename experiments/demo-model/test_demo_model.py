"""Tests on the CPU: `WGOOSE=target/debug/wgoose TRITON_INTERPRET=1 python -m unittest test_demo_model`.

Needs PyTorch, Triton, numpy and PyPI's gguf; Triton's interpreter runs the kernels without a GPU.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch

if not hasattr(torch.Tensor, "untyped_storage"):  # PyTorch before 2.0, with which Triton's interpreter works otherwise
    torch.Tensor.untyped_storage = lambda self: self.storage().untyped()

import corpus
import html_text
import train
import vocabulary
import wkv7
from model import Rwkv7, Shape

HERE = Path(__file__).parent
TEXT = "fn main() { println!('The quick brown fox jumps over the lazy dog'); } // é\n"


def _error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float(((got.double() - want).pow(2).mean() / want.pow(2).mean()).sqrt())


def _wgoose(*words: str | Path) -> str:
    binary = os.environ.get("WGOOSE", "wgoose")
    return subprocess.run([binary, *words], check=True, capture_output=True, text=True).stdout


class Scan(unittest.TestCase):
    def test_kernels_equal_the_reference_in_value_and_gradient(self) -> None:
        torch.manual_seed(0)
        batch, steps, heads = 2, 2 * wkv7.CHUNK, 2
        r, k, v, w, direction, rate, grad = torch.randn(7, batch, steps, heads, wkv7.HEAD)
        kk = torch.nn.functional.normalize(direction, dim=-1)
        operands = (r, -0.606531 * torch.sigmoid(3 * w), 0.3 * k, v, -kk, kk * torch.sigmoid(rate))
        want = [x.double().requires_grad_() for x in operands]
        got = [x.clone().requires_grad_() for x in operands]
        wanted, gotten = wkv7.wkv7_reference(*want), wkv7.wkv7(*got)
        wanted.backward(grad.double())
        gotten.backward(grad)
        self.assertLess(_error(gotten, wanted), 1e-6)
        for g, w in zip(got, want, strict=True):
            # Earlier states are found by dividing decays out: up to exp(0.6065 * 16) times float32's rounding.
            self.assertLess(_error(g.grad, w.grad), 1e-4)


class Text(unittest.TestCase):
    def test_pages_become_blocks(self) -> None:
        page = (
            "<body><nav>no</nav><main><h2>Title</h2><p>One <code>Vec</code>&amp; <b>two</b>\n lines.</p>"
            "<pre><code>fn f() {\n\n    g();\n}</code></pre><ul><li>first<li>second</ul>"
            "<script>no</script></main></body>"
        )
        want = ["## Title", "One `Vec`& two lines.", "```\nfn f() {\n\n    g();\n}\n```", "- first", "- second"]
        self.assertEqual(html_text.blocks(page), want)

    def test_a_vocabulary_survives_its_file_and_every_text_its_tokens(self) -> None:
        learned = vocabulary.learn([TEXT.encode() * 3], 280)
        with tempfile.TemporaryDirectory() as folder:
            learned.write(Path(folder) / "v.txt")
            again = vocabulary.Vocabulary.read(Path(folder) / "v.txt")
        self.assertEqual(again.tokens, learned.tokens)
        every_byte = bytes(range(256)) + TEXT.encode()
        self.assertEqual(again.decode(again.encode(every_byte)), every_byte)
        self.assertLess(len(again.encode(TEXT.encode())), len(TEXT.encode()))


class Training(unittest.TestCase):
    def test_a_tiny_model_learns_and_the_runtime_agrees_with_it(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with lzma.open(folder / "corpus.jsonl.xz", "wt", encoding="utf-8") as out:
                for split in ("train", "validation", "held-out"):
                    out.write(json.dumps(vars(corpus.Document(split, split, TEXT * 20))) + "\n")
            options = "--steps 50 --layers 2 --width 64 --batch 4 --context 32 --no-compile --sample 4 --lr 0.01"
            command = [sys.executable, HERE / "train.py", folder / "corpus.jsonl.xz", "--out", folder, *options.split()]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            curve = [json.loads(line) for line in (folder / "curve.jsonl").read_text().splitlines()]
            self.assertLess(curve[-1]["held-out"], 0.7 * curve[1]["validation"])
            self._agrees(folder)

    def test_a_model_with_its_own_vocabulary_evaluates_as_in_training(self) -> None:
        import with_vocabulary

        learned = vocabulary.learn([TEXT.encode() * 3], 280)
        torch.manual_seed(0)
        model = Rwkv7(Shape(layers=2, width=64, vocab=280)).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            train.save(model, folder / "model.pth")
            model.load_state_dict(torch.load(folder / "model.pth"))
            _wgoose("convert", folder / "model.pth", folder / "world.gguf")
            with_vocabulary.rewrite(folder / "world.gguf", learned, folder / "model.gguf")
            (folder / "text").write_text(TEXT, encoding="utf-8")
            text = _wgoose("eval", folder / "model.gguf", "--text", folder / "text", "--backend", "cpu", "--json")
        args = argparse.Namespace(context=128, batch=1)
        want = train.bits_per_byte(model, [TEXT.encode()], learned, args)
        self.assertAlmostEqual(json.loads(text)["bits_per_byte"] / want, 1, delta=1e-3)

    def _agrees(self, folder: Path) -> None:
        model = Rwkv7(Shape(layers=2, width=64))
        model.load_state_dict(torch.load(folder / "model.pth"))
        tokens = [0, *(byte + 1 for byte in TEXT.encode())]
        (folder / "ids.json").write_text(json.dumps(tokens))
        with torch.no_grad():
            want = model.float()(torch.tensor([tokens]))[0].double()
        _wgoose("convert", folder / "model.pth", folder / "model.gguf", "--check")
        out = folder / "logits.npy"
        _wgoose("logits", folder / "model.gguf", "--backend", "cpu", "--tokens", folder / "ids.json", "--out", out)
        got = torch.from_numpy(np.load(out))
        # Position 0 is ill-conditioned: the group norm leaves little but a sign.
        self.assertLess(_error(got[1:], want[1:]), 2e-3)
        self.assertLess(_error(got[:1], want[:1]), 2e-2)


if __name__ == "__main__":
    unittest.main()
