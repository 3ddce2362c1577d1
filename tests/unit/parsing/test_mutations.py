"""Bytes with errors in them: a parser gives a document or a DocumentError, nothing else."""

from __future__ import annotations

import importlib
import io
import random
import zipfile

import openpyxl
import pptx
import pytest

from kbcore.errors import DocumentError
from kbcore.parsing import ParseLimits
from kbcore.types import Parsed
from tests.unit.parsing.containers import docx_of, epub_of, item, p, table, zipped

ROUNDS = 60


def samples() -> dict[str, bytes]:
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[0]).shapes.title.text = "Hello"
    slides = io.BytesIO()
    deck.save(slides)
    workbook = openpyxl.Workbook()
    for n in range(5):
        workbook.active.append([f"row {n}", n, n / 3, "=A1"])
    sheets = io.BytesIO()
    workbook.save(sheets)
    return {
        "docx": docx_of(
            p("Head", "berschrift1") + item("one") + table(("a", "b"), ("c", "d")), core="<dc:title>x</dc:title>"
        ),
        "pptx": slides.getvalue(),
        "xlsx": sheets.getvalue(),
        "epub": epub_of({"a.xhtml": "<h1>One</h1><p>words</p>"}),
        "delimited": b'Name;City\n"Ann";Bonn\nBo;"K\xc3\xb6ln"\n' * 20,
    }


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some changed, cut out or doubled; in half of the cases within a member, so that the ZIP is sound."""
    if data.startswith(b"PK") and chance.random() < 0.6:
        with zipfile.ZipFile(io.BytesIO(data)) as source:
            members = {name: source.read(name) for name in source.namelist()}
        for name in chance.sample(sorted(members), min(len(members), chance.randint(1, 3))):
            members[name] = mutated(b"\0" + members[name], chance)[1:]
            if chance.random() < 0.1:
                del members[name]
        return zipped(members)
    out = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(4)
        if kind == 0 and at < len(out):
            out[at] = chance.randrange(256)
        elif kind == 1:
            del out[at : at + chance.randint(1, 40)]
        elif kind == 2:
            out[at:at] = out[max(0, at - chance.randint(1, 200)) : at]
        elif at < len(out):
            out[at] ^= 1 << chance.randrange(8)
    return bytes(out)


@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx", "epub", "delimited"])
def test_mutated_bytes_give_a_document_or_a_document_error(kind: str) -> None:
    module = importlib.import_module(f"kbcore.parsing.{kind}")
    data = samples()[kind]
    chance = random.Random(kind)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(ROUNDS):
        try:
            parsed = module.parse(f"a.{kind}", mutated(data, chance), ParseLimits())
        except DocumentError as error:
            outcomes["refused"] += 1 if error.message and "\n" not in error.message else ROUNDS
        else:
            assert isinstance(parsed, Parsed)
            assert parsed.text.strip()
            assert all(0 <= h.offset < len(parsed.text) for h in parsed.headings)
            outcomes["read"] += 1
    assert sum(outcomes.values()) == ROUNDS
    assert min(outcomes.values()) > 0 or kind == "delimited"
