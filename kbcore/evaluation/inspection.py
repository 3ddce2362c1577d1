"""What is wrong with an evaluation set, or doubtful, seen from one release; each finding with what mends it where known."""

from __future__ import annotations

import difflib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kbcore.evaluation import passage
from kbcore.evaluation.labels import Ancestor, Label, ancestors, labels_of, named
from kbcore.evaluation.questions import Expected, Question, QuestionSet
from kbcore.store.inventory import Inventory
from kbcore.store.repository import Repository
from kbcore.tokenization import tokens
from kbcore.types import Json

DRAFT = "draft"
SIMILAR_QUOTE = 0.5
SIMILAR_TEXT = 0.5
SIMILAR_NAME = 0.85
ALIKE = 0.8
CLOSE = 0.7
COMPARISONS = 500_000
"""How many pairs of names, and of texts, are compared at most, some seconds of each: a set with more unknown names than
that belongs to another knowledge base."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``kind`` is unknown document, document gone, renamed, quote gone, no judgment, same question, alike, in a title or
    tag; ``said`` puts it in words. ``instead`` is what the judgment would have to name or quote, as far as it was found,
    ``similarity`` (0 to 1) how near that is where it is not the same. ``last`` is the newest release that had the document
    under the name that is judged."""

    kind: str
    question: str
    said: str
    document: str | None = None
    instead: str | None = None
    similarity: float | None = None
    last: str | None = None

    def to_json(self) -> Json:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class Inspection:
    """The findings in the order of their kinds, then of the set. ``drafts`` counts the questions still tagged so."""

    release: str
    set: Json
    findings: tuple[Finding, ...]
    drafts: int
    judgments: int
    live: int

    def to_json(self) -> Json:
        return {
            "release": self.release,
            "set": self.set,
            "drafts": self.drafts,
            "judgments": self.judgments,
            "live": self.live,
            "findings": [finding.to_json() for finding in self.findings],
        }


def inspect(repository: Repository, release: str, questions: QuestionSet, *, canary: str = "canary") -> Inspection:
    """Look at a set as it applies to ``release``. ``canary`` is the tag whose questions the gate does not let go."""
    inventory = Inventory(repository, release)
    asked = questions.questions
    labels = labels_of(repository, inventory, asked)
    findings = [
        *_documents(repository, inventory, asked, labels),
        *_quotes(inventory, asked, labels),
        *_unjudged(asked, canary),
        *_repeated(asked),
        *_in_titles(inventory, asked),
        *_tags(asked, canary),
    ]
    listed = [label for question in asked for label in labels[question.id]]
    return Inspection(
        release=release,
        set={"name": questions.name, "digest": questions.digest, "questions": len(asked)},
        findings=tuple(findings),
        drafts=sum(DRAFT in question.tags for question in asked),
        judgments=len(listed),
        live=sum(label.live for label in listed),
    )


def _documents(
    repository: Repository,
    inventory: Inventory,
    asked: Sequence[Question],
    labels: Mapping[str, Sequence[Label]],
) -> Iterator[Finding]:
    """Judgments whose document has another name now, went, or never was."""
    judged = [(question, expected, label) for question in asked for expected, label in _pairs(question, labels)]
    elsewhere = [(q, e, label) for q, e, label in judged if not named(inventory, e)]
    last = _last_held(repository, inventory, {e for _, e, _ in elsewhere})
    fresh = _Fresh(inventory)
    nearest: dict[Expected, tuple[str, str] | None] = {}
    for question, expected, label in elsewhere:
        there = last[expected].inventory.release if expected in last else None
        if label.documents:
            now = sorted(label.documents)
            name = now[0] if expected.doc_id is not None else inventory.held[now[0]].uri
            said = f"{expected.name} is {', '.join(now)} now"
            yield Finding("renamed", question.id, said, expected.name, name, last=there)
            continue
        if expected in last:
            ancestor = last[expected]
            said = f"{expected.name} went after {there}"
            found = fresh.successor(ancestor, named(ancestor.inventory, expected)[0])
            if found is None:
                yield Finding("document gone", question.id, said, expected.name, last=there)
                continue
            successor, similarity = found
            name = successor if expected.doc_id is not None else inventory.held[successor].uri
            how = "with a name like it" if similarity is None else f"{similarity:.0%} alike"
            said += f"; new since, {how}: {name}"
            yield Finding("document gone", question.id, said, expected.name, name, similarity, there)
            continue
        key = Expected(doc_id=expected.doc_id, uri=expected.uri)
        if key not in nearest and len(nearest) * len(inventory.held) < COMPARISONS:
            nearest[key] = _nearest(inventory, expected)
        hint = nearest.get(key)
        said = f"no release holds {expected.name}" + (f"; did you mean {hint[1]}?" if hint else "")
        yield Finding("unknown document", question.id, said, expected.name, hint[0] if hint else None)


def _pairs(question: Question, labels: Mapping[str, Sequence[Label]]) -> Iterable[tuple[Expected, Label]]:
    return zip(question.expected, labels[question.id], strict=True)


def _last_held(repository: Repository, inventory: Inventory, wanted: set[Expected]) -> dict[Expected, Ancestor]:
    """The newest release before this one that held each of the judged documents."""
    found: dict[Expected, Ancestor] = {}
    for ancestor in ancestors(repository, inventory) if wanted else ():
        found.update({e: ancestor for e in wanted - found.keys() if named(ancestor.inventory, e)})
        if len(found) == len(wanted):
            break
    return found


def _nearest(inventory: Inventory, expected: Expected) -> tuple[str, str] | None:
    """The name that was meant, most likely, and how to say so; None where none is near."""
    name = expected.name
    if expected.doc_id is None:
        if name in inventory.held:
            return name, f"{name} as doc_id, not as uri"
        known = sorted({held.uri for held in inventory.held.values()})
    else:
        if there := inventory.with_uri(name):
            return there[0], there[0]
        known = sorted(inventory.held)
    tail = name.replace(":", "/").rsplit("/", 1)[-1]
    same = [other for other in known if other.replace(":", "/").rsplit("/", 1)[-1] == tail]
    close = difflib.get_close_matches(name, same or known, n=1, cutoff=0 if same else CLOSE)
    return (close[0], close[0]) if close else None


class _Fresh:
    """Which new document took the place of one that went: by the words of both, else by their names."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._words: dict[str, frozenset[str]] = {}
        self._known: dict[str, tuple[str, float | None] | None] = {}
        self._compared = 0

    def successor(self, ancestor: Ancestor, doc_id: str) -> tuple[str, float | None] | None:
        """The document that is new since ``ancestor`` and most like ``doc_id`` was there, with the cosine of their sets of
        words, None where it is only named alike; None where none is."""
        if doc_id not in self._known and self._compared < COMPARISONS:
            self._known[doc_id] = self._search(ancestor, doc_id)
        return self._known.get(doc_id)

    def _search(self, ancestor: Ancestor, doc_id: str) -> tuple[str, float | None] | None:
        fresh = sorted(self._inventory.held.keys() - set(ancestor.onward.values()))
        self._compared += len(fresh)
        for other, row in self._inventory.rows(["text"], set(fresh) - self._words.keys()):
            self._words[other] = frozenset(tokens(row["text"]))
        before = frozenset(tokens(ancestor.inventory.text(doc_id) or ""))
        best = max(((_cosine(before, self._words[other]), other) for other in fresh), default=(0.0, ""))
        if best[0] >= SIMILAR_TEXT:
            return best[1], round(best[0], 3)
        close = difflib.get_close_matches(doc_id, fresh, n=1, cutoff=SIMILAR_NAME)
        return (close[0], None) if close else None


def _cosine(a: frozenset[str], b: frozenset[str]) -> float:
    """Of two sets: what they share by the geometric mean of their sizes."""
    return len(a & b) / math.sqrt(len(a) * len(b)) if a and b else 0.0


def _quotes(
    inventory: Inventory, asked: Sequence[Question], labels: Mapping[str, Sequence[Label]]
) -> Iterator[Finding]:
    """Quotes that their documents do not have any more."""
    lost = [
        (question.id, expected, sorted(label.documents))
        for question in asked
        for expected, label in _pairs(question, labels)
        if label.state == "quote gone"
    ]
    texts = dict(inventory.rows(["text"], [doc_id for _, _, there in lost for doc_id in there]))
    for question, expected, there in lost:
        quote = expected.quote or ""
        near = [found for doc_id in there if (found := passage.nearest(texts[doc_id]["text"], quote)) is not None]
        best = max(near, key=lambda found: found.similarity, default=None)
        said = f"{', '.join(there)} does not say {quote!r}"
        if best is None or best.similarity < SIMILAR_QUOTE:
            yield Finding("quote gone", question, said, expected.name)
        else:
            said += f"; nearest ({best.similarity:.0%}): {best.text!r}"
            yield Finding("quote gone", question, said, expected.name, best.text, round(best.similarity, 3))


def _unjudged(asked: Sequence[Question], canary: str) -> Iterator[Finding]:
    for question in asked:
        if question.no_answer or any(expected.grade for expected in question.expected):
            continue
        said = "no document is judged to answer it, and it is not marked no_answer: it counts in no measure"
        if canary in question.tags:
            said += f", and as {canary} it can never be lost"
        yield Finding("no judgment", question.id, said)


def _repeated(asked: Sequence[Question]) -> Iterator[Finding]:
    """Questions with the text of an earlier one, and those with most of its words."""
    first: dict[str, str] = {}
    words: dict[str, frozenset[str]] = {}
    holders: dict[str, list[str]] = defaultdict(list)
    counts = Counter(word for question in asked for word in set(tokens(question.question)))
    for question in asked:
        text = " ".join(question.question.casefold().split())
        if text in first:
            yield Finding("same question", question.id, f"asks what {first[text]} asks", instead=first[text])
            continue
        first[text] = question.id
        mine = frozenset(tokens(question.question))
        # Two sets that share so much share one of the rarest words of either: all but these need not be looked at.
        rarest = sorted(mine, key=lambda word: (counts[word], word))[
            : len(mine) - math.ceil(ALIKE * len(mine) - 1e-9) + 1
        ]
        others = {other for word in rarest for other in holders[word]}
        near = max(((len(mine & words[o]) / len(mine | words[o]), o) for o in sorted(others)), default=(0.0, ""))
        if near[0] >= ALIKE:
            said = f"has {near[0]:.0%} of its words in common with {near[1]}"
            yield Finding("alike", question.id, said, instead=near[1], similarity=round(near[0], 3))
        for word in rarest:
            holders[word].append(question.id)
        words[question.id] = mine


def _in_titles(inventory: Inventory, asked: Sequence[Question]) -> Iterator[Finding]:
    """Questions said to have no answer whose words, but for the commonest of the set, are all in one title."""
    without = [question for question in asked if question.no_answer]
    if not without:
        return
    titles = {doc_id: frozenset(tokens(title)) for doc_id, title in sorted(inventory.titles.items())}
    counts = Counter(word for question in asked for word in set(tokens(question.question)))
    usual = {word for word, count in counts.items() if count >= max(3, len(asked) / 20)}
    for question in without:
        words = frozenset(tokens(question.question)) - usual
        if not words:
            continue
        found = next((doc_id for doc_id, title in titles.items() if words <= title), None)
        if found is not None:
            said = f"is marked no_answer, but {found} is titled {inventory.titles[found]!r}"
            yield Finding("in a title", question.id, said, found)


def _tags(asked: Sequence[Question], canary: str) -> Iterator[Finding]:
    """Tags that are nearly the gate's own: the gate passes over them."""
    for question in asked:
        for tag in question.tags:
            folded = tag.strip().casefold()
            near = (
                folded == canary.casefold() or difflib.SequenceMatcher(None, folded, canary.casefold()).ratio() >= 0.8
            )
            if tag != canary and near:
                said = f"the tag {tag!r} is nearly {canary!r}, which the gate looks for"
                yield Finding("tag", question.id, said, instead=canary)
