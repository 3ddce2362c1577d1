"""Look-up by exact key: the names that documents go by, and the codes that stand in their text."""

from __future__ import annotations

import difflib
import itertools
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from kbcore.retrieval.snapshot import Snapshot
from kbcore.tokenization import codes, folded

Kind = Literal["doc_id", "uri", "alias", "title", "code"]
KINDS: tuple[Kind, ...] = ("doc_id", "uri", "alias", "title", "code")
DECLARED = ("aliases", "alias", "codes", "code", "keys", "key")
"""Where the metadata of a document declares other names of it: a text, or a list of them."""
NEAR_LOOKED_AT = 5_000
NEAR = 3


@dataclass(frozen=True, slots=True)
class KeyMatch:
    """What goes by a key: a document under one of its names, or chunks that hold a code. ``rows`` are the global rows of
    the chunks, in the order of the documents."""

    kind: Kind
    doc_id: str
    rows: tuple[int, ...]


class Keys:
    """The keys of a snapshot. A segment's are read when the first key is looked up; erased and deleted ones are left out.

    Keys are compared as words are: letter case, forms of a letter and blanks make no difference. Nothing else does: a key
    matches whole or not at all.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._names: dict[str, list[tuple[Kind, int, int]]] | None = None

    def find(self, key: str) -> list[KeyMatch]:
        """Everything that goes by ``key``, by kind (id, URI, alias, title, code), then by document id."""
        wanted = folded(key)
        if not wanted:
            return []
        found = [self._of_document(kind, number, row) for kind, number, row in self._known().get(wanted, ())]
        if codes(key) == [wanted] or (wanted.isalnum() and any(map(str.isdigit, wanted))):
            found += self._of_code(wanted)
        return sorted(found, key=lambda match: (KINDS.index(match.kind), match.doc_id))

    def near(self, key: str) -> list[str]:
        """Known keys that are spelled nearly like one that is not known, nearest first."""
        wanted = folded(key)
        begins = wanted[:2]
        candidates: Iterator[str] = (name for name in self._known() if name.startswith(begins))
        if self._snapshot.lexical is not None and codes(key):
            candidates = itertools.chain(self._snapshot.lexical.terms_with(begins), candidates)
        looked_at = list(itertools.islice(candidates, NEAR_LOOKED_AT))
        return difflib.get_close_matches(wanted, looked_at, n=NEAR, cutoff=0.75)

    def unknown_codes(self, query: str) -> list[str]:
        """The codes in a question that stand nowhere in the release."""
        if self._snapshot.lexical is None:
            return []
        missing = [code for code in codes(query) if not self._snapshot.lexical.document_frequency(code)]
        return [code for code in missing if code not in self._known()]

    def _known(self) -> dict[str, list[tuple[Kind, int, int]]]:
        """Folded name to (kind, segment number, document row)."""
        with self._lock:
            if self._names is None:
                self._names = defaultdict(list)
                for number, segment in enumerate(self._snapshot.segments):
                    columns = segment.documents(["doc_id", "uri", "title", "metadata"]).to_pylist()
                    for row in np.flatnonzero(self._snapshot.live_documents[number]):
                        for kind, name in _names(columns[row]):
                            entry = (kind, number, int(row))
                            if entry not in self._names[name]:
                                self._names[name].append(entry)
            return self._names

    def _of_document(self, kind: Kind, number: int, row: int) -> KeyMatch:
        segment = self._snapshot.segments[number]
        place = segment.documents(["doc_id", "first_chunk", "chunk_count"]).slice(row, 1).to_pylist()[0]
        first = int(self._snapshot.offsets[number]) + place["first_chunk"]
        return KeyMatch(kind, place["doc_id"], tuple(range(first, first + place["chunk_count"])))

    def _of_code(self, code: str) -> list[KeyMatch]:
        if self._snapshot.lexical is None:
            return []
        by_document: dict[str, list[int]] = defaultdict(list)
        for row in self._snapshot.lexical.rows_of(code).tolist():
            by_document[self._snapshot.chunk(row)["doc_id"]].append(row)
        return [KeyMatch("code", doc_id, tuple(rows)) for doc_id, rows in by_document.items()]


def _names(document: dict[str, Any]) -> Iterator[tuple[Kind, str]]:
    yield "doc_id", folded(document["doc_id"])
    yield "uri", folded(document["uri"])
    if document["title"].strip():
        yield "title", folded(document["title"])
    metadata = json.loads(document["metadata"])
    for key in DECLARED:
        values = metadata.get(key)
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
                yield "alias", folded(str(value))
