"""Turns pages of documentation (rustdoc, mdBook, SQLite's) into blocks of plain text, close to Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser

# Elements without an end tag.
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}
# What a reader of the text does not need: navigation, widgets, drawings.
SKIPPED = {"script", "style", "button", "nav", "svg", "rustdoc-toolbar", "noscript", "template", "math"}
SKIPPED_CLASS = {
    "boring", "buttons", "doc-anchor", "fancy_toc", "hideme", "imgcontainer", "nav-wrapper", "nosearch", "rightside",
    "rule", "rustdoc-breadcrumbs", "src", "sub-heading", "test-arrow", "tooltip", "white-sticker",
}  # fmt: skip
# Lists that rustdoc derives for every type: the same lines on every page.
DERIVED = re.compile(r"(blanket|synthetic)-implementations-list|implementors-list|deref-methods.*|foreign-impls.*")
BLOCKS = {"p", "div", "section", "details", "summary", "ul", "ol", "table", "blockquote", "dl", "dt", "dd", "figure"}
HEADING = re.compile(r"h([1-6])")


class _Text(HTMLParser):
    """Collects blocks: a paragraph, a heading, a list entry, a table row or a fenced piece of code each."""

    def __init__(self, root: str) -> None:
        super().__init__(convert_charrefs=True)
        self.root = root
        self.blocks: list[str] = []
        self.buffer: list[str] = []
        self.prefix = ""
        # Open elements inside the page's main part; each with whether its content is skipped.
        self.open: list[tuple[str, bool]] = []
        self.preformatted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self.open and tag != self.root:
            return
        given = dict(attrs)
        skipped = bool(self.open and self.open[-1][1]) or _is_skipped(tag, given)
        if tag not in VOID:
            self.open.append((tag, skipped))
        if skipped:
            return
        if tag == "pre":
            self._end_block()
            self.preformatted += 1
        elif self.preformatted:
            if tag == "br" or tag == "div":
                self.buffer.append("\n")
        elif tag == "code":
            self.buffer.append("`")
        elif tag == "br":
            self.buffer.append(" ")
        elif heading := HEADING.fullmatch(tag):
            # rustdoc puts the signature of an item into a heading.
            is_code = "code-header" in (given.get("class") or "")
            self._end_block()
            self.prefix = "" if is_code else "#" * int(heading[1]) + " "
        elif tag == "li":
            self._end_block()
            self.prefix = "- "
        elif tag in ("td", "th"):
            self.buffer.append(" | ")
        elif tag == "tr" or tag in BLOCKS:
            self._end_block()

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or not any(name == tag for name, _ in self.open):
            return
        while self.open:
            name, skipped = self.open.pop()
            if not skipped:
                self._close(name)
            if name == tag:
                break

    def handle_data(self, data: str) -> None:
        if self.open and not self.open[-1][1]:
            self.buffer.append(data)

    def _close(self, tag: str) -> None:
        if tag == "pre":
            self._end_block(fence="```")
            self.preformatted -= 1
        elif self.preformatted:
            if tag == "div":
                self.buffer.append("\n")
        elif tag == "code":
            self.buffer.append("`")
        elif tag in ("li", "tr", self.root) or tag in BLOCKS or HEADING.fullmatch(tag):
            self._end_block()

    def _end_block(self, fence: str = "") -> None:
        text = "".join(self.buffer).replace("\xa0", " ").replace("\u200b", "")
        if self.preformatted:
            text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip("\n")
            text = f"{fence}\n{text}\n{fence}" if text.strip() else ""
        else:
            text = re.sub(r"\s+", " ", text.replace("``", "")).strip()
        if text:
            self.blocks.append(self.prefix + text)
            self.prefix = ""
        self.buffer.clear()


def _is_skipped(tag: str, attrs: dict[str, str | None]) -> bool:
    classes = set((attrs.get("class") or "").split())
    return (
        tag in SKIPPED
        or bool(classes & SKIPPED_CLASS)
        or "data-nosnippet" in attrs
        or bool(DERIVED.fullmatch(attrs.get("id") or ""))
    )


def blocks(html: str) -> list[str]:
    """The blocks of a page's main part, in order; a page without one is text throughout."""
    parser = _Text("main" if "<main" in html else "body")
    parser.feed(html)
    parser.close()
    return parser.blocks


def source(html: str) -> list[str]:
    """The blocks of a page that shows a source file: its pieces between empty lines.

    Doc comments are left out: other pages show them as text.
    """
    code = "\n".join(block[4:-4] for block in blocks(html) if block.startswith("```\n"))
    lines = [line for line in code.split("\n") if not re.match(r"\s*//[/!]", line)]
    return [piece.strip("\n") for piece in re.split(r"\n\s*\n", "\n".join(lines)) if piece.strip()]
