"""Makes the corpus: `corpus.py [--rust DIR] [--sqlite DIR] [--out corpus.jsonl.xz]`, from two sets of documentation.

Rust's comes with every toolchain (`rustup component add rust-docs`), under MIT or Apache-2.0; SQLite's is in the public
domain and Debian's package `sqlite3-doc`. The same documentation gives the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import html_text

# Of Rust, books first, then pages about items, then sources: where a block occurs twice, the first place keeps it.
RUST_FOLDERS = (
    "book", "rust-by-example", "reference", "nomicon", "edition-guide", "embedded-book", "cargo", "rustc", "rustdoc",
    "clippy", "style-guide", "unstable-book", "error_codes", ".", "std", "alloc", "core", "proc_macro", "test", "src",
)  # fmt: skip
# Intrinsics of each processor, tables of Unicode, indices: generated, many lines alike. print.html is a book again.
RUST_LEFT_OUT = re.compile(r"(.*/)?(core_arch|arch|std_detect|unicode_data|print\.html|toc\.html|all\.html).*")
SQLITE_LEFT_OUT = re.compile(r"(requirements|doc_.*|keyword_index|capi3ref|sitemap|.*list)\.html")
# Pages do not name their version.
SQLITE = "3.40.1-2+deb12u2"
# Shorter blocks (headings, signatures of a word) may repeat.
UNIQUE_FROM = 40
# A document with less of its own says nothing.
SHORTEST = 400
# One document in so many is held out, and another validates choices.
HELD_OUT = 40
HEADING = re.compile(r"#{1,6} ")
# The documentation says most things about numbers once for each type.
NUMBER = re.compile(r"NonZero\w*|Atomic[IU]\w*|(?<![A-Za-z0-9])([iuf](8|16|32|64|128|size)|\d[\w.]*)")


@dataclass(frozen=True)
class Document:
    """One page: its path under the documentation, the split it belongs to, and its text."""

    path: str
    split: str
    text: str


def read(path: Path) -> list[Document]:
    """Reads a corpus file."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        return [Document(**json.loads(line)) for line in lines]


def split_of(documents: list[Document], split: str) -> list[bytes]:
    """The texts of a split, as UTF-8."""
    return [document.text.encode() for document in documents if document.split == split]


def documents(rust: Path, sqlite: Path) -> Iterator[Document]:
    """The documents below two folders, no block twice."""
    seen: set[bytes] = set()
    for path, blocks in [*_rust(rust), *_sqlite(sqlite)]:
        text = "\n\n".join(_with_content(list(_new(blocks, seen))))
        if len(text) >= SHORTEST:
            yield Document(path, _split(path), text + "\n")


def _rust(docs: Path) -> Iterator[tuple[str, list[str]]]:
    for folder in RUST_FOLDERS:
        pages = (docs / folder).glob("*.html" if folder == "." else "**/*.html")
        for page in sorted(pages, key=lambda page: page.as_posix()):
            path = page.relative_to(docs).as_posix()
            # std shows most items of core and alloc again, under the same path.
            shown = folder in ("alloc", "core") and (docs / "std" / page.relative_to(docs / folder)).exists()
            if not RUST_LEFT_OUT.fullmatch(path) and not shown:
                html = page.read_text(encoding="utf-8")
                yield path, html_text.source(html) if folder == "src" else html_text.blocks(html)


def _sqlite(docs: Path) -> Iterator[tuple[str, list[str]]]:
    for page in sorted(docs.glob("**/*.html"), key=lambda page: page.as_posix()):
        path = page.relative_to(docs).as_posix()
        if not SQLITE_LEFT_OUT.fullmatch(path):
            yield f"sqlite/{path}", html_text.blocks(page.read_text(encoding="utf-8", errors="replace"))


def _split(path: str) -> str:
    digest = hashlib.sha256(path.encode()).digest()
    return {0: "held-out", 1: "validation"}.get(int.from_bytes(digest[:4], "big") % HELD_OUT, "train")


def _new(blocks: list[str], seen: set[bytes]) -> Iterator[str]:
    """Blocks not seen yet that are text: other marks, numbers or types of numbers do not make a block new."""
    for block in blocks:
        if sum(c.isalpha() for c in block) < 0.4 * sum(not c.isspace() for c in block):
            continue
        if len(block) >= UNIQUE_FROM:
            digest = hashlib.sha256(re.sub(r"\W+", "", NUMBER.sub("0", block)).encode()).digest()
            if digest in seen:
                continue
            seen.add(digest)
        yield block


def _with_content(blocks: list[str]) -> list[str]:
    """Without headings whose content is gone: a heading of the same rank or a higher one follows, or nothing."""
    kept: list[str] = []
    next_rank = 0
    for block in reversed(blocks):
        rank = HEADING.match(block).end() - 1 if HEADING.match(block) else 0
        if rank and next_rank and next_rank <= rank or rank and not kept:
            continue
        next_rank = rank
        kept.append(block)
    kept.reverse()
    return kept


def card(corpus: Path, rust: Path) -> dict[str, object]:
    """Sizes and hashes of a corpus file."""
    all_documents = read(corpus)
    version = (rust / "version_info.html").read_text(encoding="utf-8")
    splits = {}
    for split in ("train", "validation", "held-out"):
        texts = split_of(all_documents, split)
        joined = hashlib.sha256(b"\0".join(texts)).hexdigest()
        splits[split] = {"documents": len(texts), "bytes": sum(map(len, texts)), "sha256_joined_by_nul": joined}
    folders: dict[str, int] = {}
    for document in all_documents:
        folder = document.path.split("/")[0] if "/" in document.path else "."
        folders[folder] = folders.get(folder, 0) + len(document.text.encode())
    return {
        "sources": [
            {
                "what": "Rust documentation, rustup component rust-docs",
                "version": " ".join(re.sub(r"<[^>]*>", " ", version).split()),
                "licence": "MIT OR Apache-2.0",
            },
            {"what": "SQLite documentation, Debian package sqlite3-doc", "version": SQLITE, "licence": "public domain"},
        ],
        "splits": splits,
        "bytes_by_folder": folders,
        "file_bytes": corpus.stat().st_size,
        "file_sha256": hashlib.sha256(corpus.read_bytes()).hexdigest(),
    }


def main() -> None:
    """Writes the corpus and its card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rust", type=Path, help="folder with book/ and std/; default: that of `rustc`")
    parser.add_argument("--sqlite", type=Path, default=Path("/usr/share/doc/sqlite3"), help="folder with lang.html")
    parser.add_argument("--out", type=Path, default=Path("corpus.jsonl.xz"))
    args = parser.parse_args()
    if not args.rust:
        sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout
        args.rust = Path(sysroot.strip()) / "share/doc/rust/html"
    for page in (args.rust / "std/index.html", args.sqlite / "lang.html"):
        if not page.exists():
            parser.error(f"{page} does not exist")
    with lzma.open(args.out, "wt", preset=9 | lzma.PRESET_EXTREME, encoding="utf-8", newline="\n") as out:
        for document in documents(args.rust, args.sqlite):
            out.write(json.dumps(vars(document), ensure_ascii=False) + "\n")
    text = json.dumps(card(args.out, args.rust), indent=2) + "\n"
    args.out.with_name("corpus.json").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
