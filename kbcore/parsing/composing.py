"""A text as a parser puts it together: blocks with a blank line between them, headings and pages at their offsets."""

from __future__ import annotations

from collections.abc import Iterable

from kbcore.errors import DocumentError
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.plaintext import clean
from kbcore.types import Heading

_BETWEEN = "\n\n"
_HEADING_CHARACTERS = 300


class Composition:
    """Blocks in their order. DocumentError once the text is longer than the limit."""

    def __init__(self, limits: ParseLimits) -> None:
        self.headings: list[Heading] = []
        self.pages: list[int] = []
        self._limits = limits
        self._blocks: list[str] = []
        self._length = 0

    @property
    def text(self) -> str:
        return _BETWEEN.join(self._blocks)

    def block(self, text: str) -> None:
        """Add a block; blank ones are left out."""
        self._add(clean(text).strip())

    def heading(self, level: int, words: str) -> None:
        """Add a heading as a line of its own. One too long to be a heading becomes a block."""
        line = " ".join(clean(words).split())
        if len(line) > _HEADING_CHARACTERS:
            self._add(line)
        elif line:
            level = min(6, max(1, level))
            self.headings.append(Heading(self._next, level, line))
            self._add(f"{'#' * level} {line}")

    def section(self, text: str, headings: Iterable[Heading]) -> None:
        """Add text that has headings of its own at offsets within it."""
        text = text.rstrip()
        if text.strip():
            self.headings += [Heading(self._next + h.offset, h.level, h.text) for h in headings]
            self._add(text)

    def page(self) -> None:
        """A page begins with the next block."""
        self.pages.append(self._next)

    @property
    def _next(self) -> int:
        return self._length + len(_BETWEEN) if self._blocks else 0

    def _add(self, text: str) -> None:
        if not text:
            return
        self._length = self._next + len(text)
        self._blocks.append(text)
        if self._length > self._limits.output_bytes:
            raise DocumentError(f"more than {self._limits.output_bytes // 1_000_000} MB of text")
