"""What one document may cost before it counts as a failure."""

from __future__ import annotations

from dataclasses import dataclass

MB = 1_000_000


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Bounds on the parsing of one document.

    ``timeout_seconds`` is wall clock, kept by the parent; ``cpu_seconds`` and ``memory_bytes`` (address space of the
    whole child) are kept by the kernel. ``input_bytes`` bounds the file, ``output_bytes`` the UTF-8 of its text,
    ``pages`` the pages of a PDF.
    """

    timeout_seconds: float = 60.0
    cpu_seconds: int = 60
    memory_bytes: int = 2_000 * MB
    input_bytes: int = 50 * MB
    output_bytes: int = 20 * MB
    pages: int = 5_000

    @property
    def frame_bytes(self) -> int:
        """The longest answer the parent reads: the text, room for JSON escapes and headings, and 1 MB for the rest."""
        return self.output_bytes + self.output_bytes // 2 + MB
