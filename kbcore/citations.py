"""Citations in an answer, checked against the releases they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

from kbcore.errors import KbError, ReleaseExpiredError, ReleaseNotFoundError
from kbcore.store.inventory import Inventory
from kbcore.store.repository import Repository
from kbcore.types import Json

State = Literal["ok", "other release", "no release", "expired", "no document", "no chunk", "unreadable"]
MAX_CITATIONS = 1_000
# The name of a document may hold brackets, but where another citation begins, the one before has ended.
_CITATION = re.compile(r"\[(r\d{6,9}) ((?:(?!\[r\d{6,9} )[^\n])+?)#c(\d{1,9})(?:-(\d{1,9}))?\]")


@dataclass(frozen=True, slots=True)
class Citation:
    """One citation of a text: where it stands, what it names, and whether that is there. ``text`` is what the chunks hold
    that it cites, where they are there."""

    cited: str
    offset: int
    release: str
    doc_id: str
    first: int
    last: int
    state: State
    said: str
    text: str | None = None

    def to_json(self) -> Json:
        return asdict(self)


def check_citations(repository: Repository, answer: str, release: str | None = None) -> list[Citation]:
    """Every ``[r000012 handbook:vpn.md#c3]`` in ``answer``, in order. With ``release`` a citation of another one is
    ``other release``. An answer may cite at most 1,000 times; what follows is not looked at."""
    inventories: dict[str, Inventory | str] = {}
    found: list[Citation] = []
    for match in _CITATION.finditer(answer):
        if len(found) == MAX_CITATIONS:
            break
        name, doc_id, first, last = match[1], match[2], int(match[3]), int(match[4] or match[3])
        state, said, text = _state(repository, inventories, name, doc_id, first, last)
        if state == "ok" and release is not None and name != release:
            state, said = "other release", f"it cites {name}, the answer was asked of {release}"
        found.append(Citation(match[0], match.start(), name, doc_id, first, last, state, said, text))
    return found


def _state(
    repository: Repository, inventories: dict[str, Inventory | str], name: str, doc_id: str, first: int, last: int
) -> tuple[State, str, str | None]:
    if name not in inventories:
        try:
            inventories[name] = Inventory(repository, repository.resolve(name))
        except ReleaseNotFoundError:
            inventories[name] = "no release"
        except ReleaseExpiredError:
            inventories[name] = "expired"
        except KbError:
            inventories[name] = "unreadable"
    inventory = inventories[name]
    if isinstance(inventory, str):
        words: dict[str, tuple[State, str]] = {
            "no release": ("no release", f"there is no release {name}"),
            "expired": ("expired", f"{name} has expired and is not served any more"),
            "unreadable": ("unreadable", f"{name} is damaged and cannot be read"),
        }
        return (*words[inventory], None)
    if doc_id not in inventory.held:
        return "no document", f"{name} holds no document {doc_id}", None
    spans = list(inventory.chunk_spans(doc_id))
    if not first <= last < len(spans):
        count = len(spans)
        return (
            "no chunk",
            f"{doc_id} has {count} chunks in {name}: c0 to c{count - 1}" if count else "it has none",
            None,
        )
    text = inventory.text(doc_id) or ""
    return "ok", "", text[spans[first][0] : spans[last][1]]


def cited(answer: str) -> Iterator[str]:
    """The citations of a text, as they stand there."""
    return (match[0] for match in _CITATION.finditer(answer))
