"""Trains the demo model on one GPU: `train.py corpus.jsonl.xz --out DIR --minutes 8`.

Writes `model.pth` (matrices in F16, for `wgoose convert`), `curve.jsonl` and `samples.md`. The learning rate falls as a
cosine over the time given. With `--checkpoint FILE` the state of training is kept there, and taken up again if it is.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

import corpus
import wkv7
from model import PARTS, Rwkv7, Shape, channel_mix, squares
from vocabulary import END_OF_TEXT, Vocabulary, bytes_alone

PROMPTS = (
    "# Struct ",
    "A trait is ",
    "```\nfn main() {\n    let mut numbers = vec![1, 2, 3];\n",
    "The SELECT statement ",
    "Ownership in Rust means that ",
    "impl<T: Clone> ",
)
# Seconds between two lines of the curve that have the validation split's bits per byte, and between two checkpoints.
VALIDATION_EVERY = 20
CHECKPOINT_EVERY = 60
# Kept free at the end for the last evaluation and the samples.
RESERVE = 30


def main() -> None:
    """Trains, evaluates, samples."""
    start = time.monotonic()
    args = _arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    args.out.mkdir(parents=True, exist_ok=True)
    vocabulary = Vocabulary.read(args.vocabulary) if args.vocabulary else bytes_alone()
    documents = corpus.read(args.corpus)
    texts = {split: corpus.split_of(documents, split) for split in ("validation", "held-out")}
    train = stream(corpus.split_of(documents, "train"), vocabulary).to(device)
    shape = Shape(layers=args.layers, width=args.width, vocab=len(vocabulary.tokens))
    model = Rwkv7(shape, wkv7.wkv7 if device == "cuda" else wkv7.wkv7_reference, args.dropout).to(device)
    if args.compile:
        model.parts = tuple(torch.compile(part) for part in PARTS)
    optimizer = _optimizer(model, args, device)
    random = torch.Generator().manual_seed(args.seed)
    step, spent, clock = 0, 0.0, None
    if args.checkpoint and args.checkpoint.exists():
        kept = torch.load(args.checkpoint, map_location=device)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        random.set_state(kept["random"].cpu())
        step, spent, clock = kept["step"], kept["spent"], kept["clock"]
    curve = (args.out / "curve.jsonl").open("a", encoding="utf-8")
    log = {"parameters": sum(p.numel() for p in model.parameters()), "train_tokens": len(train)} | vars(args)
    _say(curve, {key: str(value) if isinstance(value, Path) else value for key, value in log.items()})

    budget = args.minutes * 60
    validated = saved = 0.0
    losses: list[Tensor] = []
    while args.steps is None or step < args.steps:
        for batch in batches(train, args.batch, args.context, random):
            elapsed = spent + time.monotonic() - start
            if clock is None and losses:
                clock = elapsed  # what compiling took is no part of the schedule
            progress = (elapsed - clock) / max(1.0, budget - RESERVE - clock) if clock is not None else 0.0
            if args.steps is not None:
                progress = step / args.steps
            if progress >= 1:
                break
            for group in optimizer.param_groups:
                group["lr"] = args.lr * schedule(progress)
            loss = training_step(model, optimizer, batch, device)
            losses.append(loss)
            step += 1
            if step % 50 == 0 or step == 1:
                mean = torch.stack(losses[-50:]).mean().item()
                if not math.isfinite(mean):
                    raise SystemExit(f"the loss is {mean} at step {step}: lower --lr")
                line = {"step": step, "seconds": round(elapsed, 1), "loss": mean, "lr": args.lr * schedule(progress)}
                if elapsed - validated > VALIDATION_EVERY or step == 1:
                    validated = elapsed
                    line["validation"] = bits_per_byte(model, texts["validation"], vocabulary, args)
                line["tokens"] = step * args.batch * args.context
                _say(curve, line)
            if args.checkpoint and clock is not None and elapsed - saved > CHECKPOINT_EVERY:
                saved = elapsed
                kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": random.get_state()}
                torch.save(kept | {"step": step, "spent": elapsed, "clock": clock}, args.checkpoint)
        else:
            continue
        break
    save(model, args.out / "model.pth")
    last = {split: bits_per_byte(model, text, vocabulary, args) for split, text in texts.items()}
    last |= {"step": step, "zeros_of_relu2": zeros_of_relu2(model, texts["held-out"], vocabulary, args)}
    last["seconds"] = round(spent + time.monotonic() - start, 1)
    if device == "cuda":
        last |= {"gpu": torch.cuda.get_device_name(), "peak_memory": torch.cuda.max_memory_allocated()}
    _say(curve, last)
    samples = (f"```text\n{sample(model, prompt, vocabulary, args)}\n```\n" for prompt in PROMPTS)
    (args.out / "samples.md").write_text("\n".join(samples), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--vocabulary", type=Path, help="file of `vocabulary.py`; default: bytes")
    parser.add_argument("--minutes", type=float, default=8.0, help="wall time, compiling included")
    parser.add_argument("--steps", type=int, help="so many steps instead of a time")
    parser.add_argument("--checkpoint", type=Path, help="where the state of training is kept")
    parser.add_argument("--layers", type=int, default=Shape.layers)
    parser.add_argument("--width", type=int, default=Shape.width)
    parser.add_argument("--batch", type=int, default=64, help="sequences a step")
    parser.add_argument("--context", type=int, default=1024, help="tokens a sequence, a multiple of 16")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=0.1, help="weight decay of matrices")
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--sample", type=int, default=300, help="tokens of a sample")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def stream(texts: list[bytes], vocabulary: Vocabulary) -> Tensor:
    """All texts in a row, an end of text before each."""
    return torch.tensor([i for text in texts for i in (END_OF_TEXT, *vocabulary.encode(text))], dtype=torch.int32)


def batches(tokens: Tensor, batch: int, context: int, random: torch.Generator) -> Iterator[Tensor]:
    """One pass over the tokens in pieces of `context` + 1, cut at another place and shuffled anew each time."""
    offset = int(torch.randint(context, (1,), generator=random))
    starts = torch.arange(offset, len(tokens) - context, context)
    starts = starts[torch.randperm(len(starts), generator=random)]
    span = torch.arange(context + 1)
    if len(starts) < batch:
        raise SystemExit(f"{len(tokens)} tokens do not fill a batch of {batch} sequences of {context}")
    for at in range(0, len(starts) - batch + 1, batch):
        yield tokens[(starts[at : at + batch, None] + span).to(tokens.device)].long()


def schedule(progress: float) -> float:
    """The learning rate's share: a short rise, then a cosine down to a hundredth."""
    return min(1.0, 0.01 + progress / 0.02) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def training_step(model: Rwkv7, optimizer: torch.optim.Optimizer, batch: Tensor, device: str) -> Tensor:
    """One update; the mean loss in nats a token, still on the device."""
    model.train()
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def _optimizer(model: Rwkv7, args: argparse.Namespace, device: str) -> torch.optim.Optimizer:
    matrices = [p for name, p in model.named_parameters() if name.endswith(".weight") and p.dim() == 2]
    rest = [p for name, p in model.named_parameters() if not (name.endswith(".weight") and p.dim() == 2)]
    groups = [{"params": matrices, "weight_decay": args.decay}, {"params": rest, "weight_decay": 0.0}]
    fused = {"fused": True} if device == "cuda" else {}
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.98), eps=1e-12, **fused)


@torch.no_grad()
def bits_per_byte(model: Rwkv7, texts: list[bytes], vocabulary: Vocabulary, args: argparse.Namespace) -> float:
    """Of the texts in a row, an end of text before each and a fresh state every `context` tokens; every byte counts."""
    model.eval()
    nats = 0.0
    for batch, targets in _evaluated(texts, vocabulary, args):
        with torch.autocast(batch.device.type, torch.bfloat16, enabled=batch.is_cuda):
            logits = model(batch).float().flatten(0, 1)
        # What follows an end of text is predicted; an end of text is not: it is no byte.
        targets = targets.masked_fill(targets == END_OF_TEXT, -100)
        nats += F.cross_entropy(logits, targets.flatten(), ignore_index=-100, reduction="sum").item()
    return nats / math.log(2) / sum(map(len, texts))


def _evaluated(texts: list[bytes], vocabulary: Vocabulary, args: argparse.Namespace) -> Iterator[tuple[Tensor, Tensor]]:
    tokens = stream(texts, vocabulary).long()
    tokens = F.pad(tokens, (0, -(len(tokens) - 1) % args.context))  # ends of text
    device = "cuda" if torch.cuda.is_available() else "cpu"
    inputs, targets = (part.reshape(-1, args.context).to(device) for part in (tokens[:-1], tokens[1:]))
    # Whole batches: another size would be compiled anew.
    missing = -len(inputs) % args.batch
    inputs, targets = F.pad(inputs, (0, 0, 0, missing)), F.pad(targets, (0, 0, 0, missing))
    yield from zip(inputs.split(args.batch), targets.split(args.batch), strict=True)


@torch.no_grad()
def zeros_of_relu2(model: Rwkv7, texts: list[bytes], vocabulary: Vocabulary, args: argparse.Namespace) -> list[float]:
    """Per layer, the share of squares of the channel mix that are exactly zero, over one batch of the texts."""
    shares: list[float] = []

    def watched(p: dict[str, Tensor], x: Tensor) -> Tensor:
        shares.append((squares(p, x) == 0).float().mean().item())
        return channel_mix(p, x)

    model.eval()
    parts, model.parts = model.parts, (*PARTS[:2], watched)
    batch, _ = next(_evaluated(texts, vocabulary, args))
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=batch.is_cuda):
        model(batch[:8])
    model.parts = parts
    return shares


@torch.no_grad()
def sample(model: Rwkv7, prompt: str, vocabulary: Vocabulary, args: argparse.Namespace) -> str:
    """Continues a prompt, reading everything anew for each token: simple, and quick enough for a few hundred."""
    model.eval()
    parts, model.parts = model.parts, PARTS  # every length would be compiled anew
    device = model.emb.weight.device
    random = torch.Generator(device=device).manual_seed(args.seed)
    ids = [END_OF_TEXT, *vocabulary.encode(prompt.encode())]
    for _ in range(args.sample):
        recent = ids[-args.context :]
        padded = torch.tensor([recent + [END_OF_TEXT] * (-len(recent) % wkv7.CHUNK)], device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = model(padded)[0, len(recent) - 1].float()
        # Temperature 0.8 over the tokens that hold nine tenths of the probability.
        probabilities, order = torch.softmax(logits / 0.8, 0).sort(descending=True)
        probabilities[probabilities.cumsum(0) - probabilities > 0.9] = 0
        ids.append(int(order[torch.multinomial(probabilities, 1, generator=random)]))
        if ids[-1] == END_OF_TEXT:
            break
    model.parts = parts
    return vocabulary.decode(ids).decode(errors="replace")


def save(model: Rwkv7, path: Path) -> None:
    """A checkpoint under the names that `wgoose convert` reads: matrices in F16, vectors in F32."""
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    big = {name for name, tensor in weights.items() if tensor.squeeze().dim() == 2}
    torch.save({name: tensor.half() if name in big else tensor.clone() for name, tensor in weights.items()}, path)


def _say(curve: object, line: dict[str, object]) -> None:
    text = json.dumps(line)
    curve.write(text + "\n")
    curve.flush()
    print(text, flush=True)


if __name__ == "__main__":
    main()
