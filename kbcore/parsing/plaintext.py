"""Bytes to text. A document is decoded without a loss or it is a failure with a reason; a guess is recorded as one."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Any

from kbcore.errors import DocumentError, SkippedDocumentError
from kbcore.parsing.limits import ParseLimits
from kbcore.parsing.media import TEXT, parser_id_for, stem_of
from kbcore.types import Parsed

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Width of a unit, and which of its bytes are NUL where the text is mostly Latin.
_NUL_PATTERNS = (
    ("utf-32-le", 4, (1, 2, 3)),
    ("utf-32-be", 4, (0, 1, 2)),
    ("utf-16-le", 2, (1,)),
    ("utf-16-be", 2, (0,)),
)
_SAMPLE = 4096
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_BINARY_SHARE = 0.1
_CLOSE = 0.02
_BLANK = "\ufeff\u200b\u200c\u200d\u2060"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text with ``\\n`` for every line end and without NULs, and how it was read."""

    text: str
    encoding: str
    guessed: bool
    nuls_removed: int

    def stats(self) -> dict[str, Any]:
        """JSON values for ``Parsed.stats``; counts that are 0 are left out."""
        stats: dict[str, Any] = {
            "characters": len(self.text),
            "encoding": self.encoding,
            "encoding_guessed": self.guessed,
        }
        if self.nuls_removed:
            stats["nuls_removed"] = self.nuls_removed
        if replaced := self.text.count("\ufffd"):
            stats["replacement_characters"] = replaced  # they stood in the source: decoding here never makes one
        return stats


def decode(data: bytes, declared: str | None = None) -> Decoded:
    """Decode by byte order mark, ``declared`` encoding, strict UTF-8, UTF-16/32 by their NULs, then a guess.

    Raises DocumentError where nothing reads the bytes without loss.
    """
    text, encoding, guessed = _decode(data, declared)
    nuls = text.count("\0")
    if nuls or guessed:
        sample = text[:65_536]
        if len(_CONTROL.findall(sample)) > _BINARY_SHARE * len(sample):
            raise DocumentError("not text: too many control characters")
    return Decoded(normalise(text), encoding, guessed, nuls)


def normalise(text: str) -> str:
    """Line ends as ``\\n``, no NULs."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "")


def clean(text: str) -> str:
    """Text as a library made it, fit to be stored: ``normalise``, and U+FFFD for each lone surrogate."""
    text = normalise(text)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


def is_blank(text: str) -> bool:
    """Whether nothing is left once white space and zero-width characters are taken off."""
    return not text.strip().strip(_BLANK).strip()


def _decode(data: bytes, declared: str | None) -> tuple[str, str, bool]:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return data[len(mark) :].decode(encoding), encoding, False
            except UnicodeDecodeError as exc:
                raise DocumentError(f"begins with the byte order mark of {encoding} and is not {encoding}") from exc
    if declared:
        try:
            return data.decode(declared), declared, False
        except (UnicodeDecodeError, LookupError):
            pass  # a wrong declaration is common; what follows judges the bytes themselves
    if b"\0" in data and (encoding_by_nuls := _by_nuls(data)):
        try:
            return data.decode(encoding_by_nuls), encoding_by_nuls, True
        except UnicodeDecodeError:
            pass
    try:
        return data.decode("utf-8"), "utf-8", False
    except UnicodeDecodeError as exc:
        _refuse_damaged_utf8(data, exc.start)
    return _guess(data)


def _by_nuls(data: bytes) -> str | None:
    sample = data[:_SAMPLE]
    for encoding, width, nul_places in _NUL_PATTERNS:
        shares = [sample[place::width].count(0) / max(1, len(sample[place::width])) for place in range(width)]
        expected = all(shares[place] > 0.6 for place in nul_places)
        if expected and all(share < 0.1 for place, share in enumerate(shares) if place not in nul_places):
            return encoding
    return None


def _refuse_damaged_utf8(data: bytes, first: int) -> None:
    """A few bad bytes among many good sequences are damage, not another encoding: a guess would garble the rest."""
    lenient = data.decode("utf-8", "replace")
    bad = lenient.count("\ufffd")
    good = sum(char > "\x7f" for char in lenient) - bad
    if good >= 2 * bad:
        raise DocumentError(f"UTF-8 but for {bad} invalid sequences, the first at byte {first}")


def _guess(data: bytes) -> tuple[str, str, bool]:
    import charset_normalizer

    matches = list(charset_normalizer.from_bytes(data))
    if not matches:
        raise DocumentError("the encoding could not be recognised")
    best = matches[0]
    candidates = [best.encoding]
    for match in matches:
        close = match.chaos <= best.chaos + _CLOSE and match.coherence >= best.coherence - _CLOSE
        if close and "cp1252" in match.could_be_from_charset:
            # The detector lists cp1250 first where both read equally well; cp1252 is by far the commoner of the two.
            candidates.insert(0, "cp1252")
            break
    for encoding in candidates:
        try:
            return data.decode(encoding), encoding.replace("_", "-"), True
        except (UnicodeDecodeError, LookupError):
            continue
    raise DocumentError("the encoding could not be recognised")


def parse(uri: str, data: bytes, limits: ParseLimits) -> Parsed:
    """A plain text file as it is. SkippedDocumentError where it is blank, DocumentError where it cannot be read."""
    decoded = decode(data)
    if is_blank(decoded.text):
        raise SkippedDocumentError("blank")
    return Parsed(
        text=decoded.text,
        title=stem_of(uri),
        media_type=TEXT,
        parser_id=parser_id_for(TEXT),
        stats=decoded.stats(),
    )
