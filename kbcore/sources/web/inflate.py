"""gzip, decoded up to a bound and no further."""

from __future__ import annotations

import zlib

MOST_MEMBERS = 10_000
_SLICE = 1 << 16


class TooLargeError(ValueError):
    pass


class Inflater:
    """Decodes gzip in pieces; all pieces together give at most ``most`` bytes. TooLargeError beyond, ValueError where
    it is not gzip or ends early."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._member: zlib._Decompress | None = None
        self._any = False
        self._members = 0

    def feed(self, data: bytes) -> bytes:
        parts = []
        while data:
            if self._member is None:
                if self._any and not data.strip(b"\0"):
                    break  # padding after the last member
                self._members += 1
                if self._members > MOST_MEMBERS:
                    raise ValueError(f"its gzip has more than {MOST_MEMBERS} members")
                self._member = zlib.decompressobj(16 + zlib.MAX_WBITS)
            self._any = True
            try:
                part = self._member.decompress(data, self._left + 1)
            except zlib.error:
                raise ValueError("it is not valid gzip") from None
            self._left -= len(part)
            if self._left < 0:
                raise TooLargeError("it is larger than allowed once it is decoded")
            parts.append(part)
            data = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
            if self._member.eof:
                self._member = None
        return b"".join(parts)

    def end(self) -> None:
        if self._member is not None:
            raise ValueError("its gzip ends early")


def gunzip(data: bytes, most: int) -> bytes:
    """All of ``data`` decoded, at most ``most`` bytes. Errors as Inflater's."""
    inflater = Inflater(most)
    # In slices: what follows a member is copied for each, so that many small ones would cost the square of all.
    found = b"".join(inflater.feed(data[at : at + _SLICE]) for at in range(0, len(data), _SLICE))
    inflater.end()
    return found
