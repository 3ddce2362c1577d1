"""Questions proposed from titles and headings, for a person to edit: a start, never a finished evaluation set."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kbcore.evaluation.inspection import DRAFT
from kbcore.evaluation.questions import Expected, Question
from kbcore.evaluation.sections import Section, sections
from kbcore.fingerprint import canonical, sha256
from kbcore.store.inventory import Inventory

_INDEX_NAMES = frozenset({"index", "_index", "readme", "contents", "toc", "sitemap", "changelog"})
_SAYS_NOTHING = (
    "introduction overview summary contents example examples note notes references links background description general "
    "prerequisites requirements usage details conclusion related further reading see also next steps abstract"
)
_GENERIC = frozenset(_SAYS_NOTHING.split())
_VERBS = (
    "activate add apply assign choose configure connect convert create delete disable download edit enable extend get give "
    "increase install join make manage migrate open pay publish recover register remove rename renew reset restart restore "
    "retrieve save select send submit unlock upload verify write"
)
_COMMANDS = frozenset(_VERBS.split())
# Nouns as often as verbs: "Back up your files" is a command, "Backup codes" and "Change requests" are none.
_EITHER_WAY = (
    "access ask back book cancel change check clear close copy enter export find fix format import launch link list load log "
    "map merge mount move order print report request return run search set share sign start stop switch test transfer update "
    "upgrade use view work"
)
_AMBIGUOUS = frozenset(_EITHER_WAY.split())
_AFTER_VERBS = frozenset({"a", "an", "the", "your", "my", "in", "into", "on", "to", "up", "out", "off", "from", "with"})
_ASKING = re.compile(r"(?:what|why|when|where|who|which|how|can|do|does|is|are|should|may|must)\b", re.IGNORECASE)
_YOUR = {"your": "my", "yours": "mine", "you": "I", "yourself": "myself"}
_YOU = re.compile(r"\b(your|yours|you|yourself)\b", re.IGNORECASE)
_MARKS = re.compile(r"[`*]+|\[([^\]]*)\]\([^)]*\)|\{#[^}]*\}")
_NUMBERED = re.compile(r"\A\s*(?:\d+(?:\.\d+)*[.):]?|[a-z]\)|step\s+\d+[.:]?)\s+", re.IGNORECASE)
_CODE = re.compile(r"\S*\d\S*")


@dataclass(frozen=True, slots=True)
class _Candidate:
    doc_id: str
    source: str
    topic: str
    question: str
    quote: str


@dataclass(frozen=True)
class Drafts:
    """The proposed questions; ``sections`` counts those that could have been asked about."""

    questions: tuple[Question, ...]
    sections: int
    documents: int


def propose(inventory: Inventory, count: int, *, seed: int = 0) -> Drafts:
    """``count`` questions (fewer where the release has not so many sections that say something), each with the first
    sentences under its heading as quote. The same release and seed give the same questions.

    Sources take turns, and in each the documents, so that none is asked about twice before all were asked about once.
    Headings and sentences that several documents have, or one has twice, name no document and are passed over.
    """
    candidates = _unambiguous(_candidates(inventory))
    by_source: dict[str, dict[str, list[_Candidate]]] = defaultdict(dict)
    for candidate in candidates:
        by_source[candidate.source].setdefault(candidate.doc_id, []).append(candidate)
    chance = random.Random(seed)
    turns = [_in_turn(documents, chance) for _, documents in sorted(by_source.items())]
    chosen = list(_round_robin(turns))[:count]
    return Drafts(
        questions=tuple(map(_question, chosen)),
        sections=len(candidates),
        documents=len({candidate.doc_id for candidate in candidates}),
    )


def _question(candidate: _Candidate) -> Question:
    # Named by what it is about: drafts of two releases can be joined, and what was edited keeps its id.
    name = sha256(canonical([candidate.doc_id, candidate.topic]))[:10]
    return Question(
        id=f"draft-{name}",
        question=candidate.question,
        expected=(Expected(doc_id=candidate.doc_id, quote=candidate.quote, grade=1),),
        tags=(DRAFT,),
    )


def _candidates(inventory: Inventory) -> Iterator[_Candidate]:
    names = {
        doc_id: held.uri.rsplit("/", 1)[-1].rsplit(".", 1)[0].casefold() for doc_id, held in inventory.held.items()
    }
    asked = [doc_id for doc_id, name in names.items() if name not in _INDEX_NAMES]
    rows = dict(inventory.rows(["text", "headings", "stats"], asked))
    for doc_id in sorted(rows):
        row = rows[doc_id]
        stats = json.loads(row["stats"])
        if stats.get("flags"):
            continue  # its text is doubtful
        title = _plain(inventory.titles[doc_id])
        english = stats.get("language_guess") in (None, "en")
        headings = [(int(offset), str(words)) for offset, _, words in json.loads(row["headings"])]
        for section in sections(row["text"], headings):
            topic = _topic(section, title)
            if topic:
                asks = ask(topic, title, english=english)
                yield _Candidate(doc_id, inventory.held[doc_id].source, topic, asks, section.quote)


def _topic(section: Section, title: str) -> str:
    """What a section is about: its heading, the title where it has none, nothing where the heading says nothing."""
    heading = _NUMBERED.sub("", _plain(section.heading)) if section.heading is not None else title
    words = re.findall(r"\w+", heading.casefold())
    return "" if not words or set(words) <= _GENERIC or all(word.isdigit() for word in words) else heading


def _plain(words: str) -> str:
    return " ".join(_MARKS.sub(lambda match: match[1] or "", words).split()).strip(" :.,;-–—#")


def _unambiguous(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    listed = list(candidates)
    topics = Counter(_folded(candidate.topic) for candidate in listed)
    quotes = Counter(_folded(candidate.quote) for candidate in listed)
    return [c for c in listed if topics[_folded(c.topic)] == 1 and quotes[_folded(c.quote)] == 1]


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _in_turn(documents: dict[str, list[_Candidate]], chance: random.Random) -> list[_Candidate]:
    """All candidates of a source: one of each document in an order by chance, then a second of each, and so on."""
    order = sorted(documents)
    chance.shuffle(order)
    for doc_id in order:
        chance.shuffle(documents[doc_id])
    return list(_round_robin([documents[doc_id] for doc_id in order]))


def _round_robin(lists: Sequence[Sequence[_Candidate]]) -> Iterator[_Candidate]:
    for turn in range(max(map(len, lists), default=0)):
        for listed in lists:
            yield from listed[turn : turn + 1]


def ask(topic: str, title: str, *, english: bool = True) -> str:
    """A question about a topic in the document of this title. Not in English: title and topic with a question mark, since
    no other language's grammar is known here."""
    context = "" if _folded(topic) in _folded(title) or _folded(title) in _folded(topic) else title
    if not english:
        return f"{context}: {topic}?" if context else f"{topic}?"
    plain = topic.rstrip("?!")
    first, _, rest = plain.partition(" ")
    word = first.casefold()
    if word == "how" and rest.casefold().startswith("to ") and len(rest) > 3:
        return _about(f"How do I {_lowered(_mine(rest[3:]))}?", context)
    if _ASKING.match(plain) and rest:
        return _about(f"{plain}?", context)
    second = rest.partition(" ")[0].casefold()
    if (word in _COMMANDS and rest) or (word in _AMBIGUOUS and second in _AFTER_VERBS):
        return _about(f"How do I {_lowered(_mine(plain))}?", context)
    if not rest and _CODE.fullmatch(plain):
        return _about(f"What does {plain} mean?", context)
    return _about(f"What should I know about {_lowered(_mine(plain))}?", context)


def _about(question: str, context: str) -> str:
    return f"{context.rstrip('?!')}: {question}" if context else question


def _mine(words: str) -> str:
    return _YOU.sub(lambda match: _YOUR[match[0].casefold()], words)


def _lowered(words: str) -> str:
    """Without the capital of a heading's first word, unless that has others or a later word has one too: a name."""
    first, *rest = words.split(" ")
    name = not first[1:].islower() or any(word[:1].isupper() and word[1:].islower() for word in rest)
    return words if name else words[:1].lower() + words[1:]
