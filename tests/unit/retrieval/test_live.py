"""A retriever that follows promotions: whole answers, running questions end where they began, rollback at once."""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbcore import promotion
from kbcore.errors import KbUnavailableError
from kbcore.knowledge_base import KnowledgeBase
from kbcore.retrieval import live as live_module
from kbcore.retrieval.live import LOOK_SECONDS, LiveRetriever
from kbcore.retrieval.retriever import Retriever
from tests.support import knowledge_base, refreshed, write

SOON = 5.0
"""Far more than it takes: opening happens beside, on machines that are busy."""


@pytest.fixture
def base(tmp_path: Path) -> KnowledgeBase:
    """Two releases that say their own number in every document; the second is current."""
    base = knowledge_base(tmp_path, {f"{n}.md": f"# Page {n}\n\nmarker edition1 page {n}.\n" for n in range(6)})
    refreshed(base)
    write(tmp_path / "docs", {f"{n}.md": f"# Page {n}\n\nmarker edition2 page {n}.\n" for n in range(6)})
    refreshed(base)
    return base


def move(base: KnowledgeBase, release: str) -> None:
    promotion.promote(base.repository, release, base.catalog, reason="a test", run=base.repository.begin())


def until(reached: Callable[[], bool]) -> float:
    started = time.monotonic()
    while not reached():
        assert time.monotonic() - started < SOON
        time.sleep(0.01)
    return time.monotonic() - started


def editions(found: Any) -> set[str]:
    return {word for hit in found.hits for word in hit.text.split() if word.startswith("edition")}


def test_a_promotion_is_followed(base: KnowledgeBase) -> None:
    move(base, "r000001")
    live = base.live_retriever()
    assert editions(live.search("marker", 6)) == {"edition1"}
    move(base, "r000002")
    until(lambda: live.release == "r000002")
    assert editions(live.search("marker", 6)) == {"edition2"}
    assert live.problem is None


def test_a_warm_release_is_taken_with_the_first_question_after_the_look(base: KnowledgeBase) -> None:
    live = base.live_retriever()
    move(base, "r000001")
    until(lambda: live.release == "r000001")
    threads = threading.active_count()
    for release in ("r000002", "r000001", "r000002"):
        move(base, release)
        time.sleep(LOOK_SECONDS)
        # Nothing is opened: the very next question is answered from it.
        assert live.search("marker", 1).release == release
        assert threading.active_count() == threads


def test_whatever_a_retriever_is_asked_one_that_follows_can_be_asked_too(base: KnowledgeBase) -> None:
    live = base.live_retriever()
    result, packed = live.context("marker edition2", 200, 2, fold=False)
    assert (result.release, editions(result)) == ("r000002", {"edition2"})
    assert (result, packed) == base.retriever("r000002").context("marker edition2", 200, 2, fold=False)
    for verb in ("search", "search_many", "asearch", "context", "lookup"):
        assert inspect.signature(getattr(LiveRetriever, verb)) == inspect.signature(getattr(Retriever, verb))


def test_a_running_question_ends_on_the_release_it_began_with(base: KnowledgeBase) -> None:
    move(base, "r000001")
    live = base.live_retriever()
    inside, go_on = threading.Event(), threading.Event()
    retriever = live.current()
    plain = retriever.matches

    def slow(*arguments: Any) -> Any:
        inside.set()
        assert go_on.wait(SOON)
        return plain(*arguments)

    retriever.matches = slow  # type: ignore[method-assign]
    found: list[Any] = []
    running = threading.Thread(target=lambda: found.append(live.search("marker", 6)))
    running.start()
    assert inside.wait(SOON)
    move(base, "r000002")
    until(lambda: live.release == "r000002")
    assert editions(live.search("marker", 6)) == {"edition2"}
    go_on.set()
    running.join(SOON)
    assert found[0].release == "r000001"
    assert editions(found[0]) == {"edition1"}


def test_a_release_that_cannot_be_opened_leaves_the_former_answering(
    base: KnowledgeBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_module, "RETRY_SECONDS", 0.2)
    move(base, "r000001")
    live = base.live_retriever()
    segment = next(base.folder.glob(f"segments/{base.repository.manifest('r000002').segments[-1].name}/dense*"))
    whole = segment.read_bytes()
    move(base, "r000002")
    segment.write_bytes(whole[:-7])
    until(lambda: live.current() is not None and live.problem is not None)
    assert live.release == "r000001"
    assert "r000002 was promoted and cannot be opened" in str(live.problem)
    assert editions(live.search("marker", 6)) == {"edition1"}
    segment.write_bytes(whole)
    until(lambda: live.release == "r000002")
    assert live.problem is None


def test_a_rollback_from_what_cannot_be_opened_clears_the_problem(base: KnowledgeBase) -> None:
    move(base, "r000001")
    live = base.live_retriever()
    segment = next(base.folder.glob(f"segments/{base.repository.manifest('r000002').segments[-1].name}/dense*"))
    whole = segment.read_bytes()
    move(base, "r000002")
    segment.write_bytes(whole[:-7])
    until(lambda: live.current() is not None and live.problem is not None)
    segment.write_bytes(whole)
    move(base, "r000001")
    until(lambda: live.current() is not None and live.problem is None)
    assert live.release == "r000001"


def test_a_log_that_cannot_be_read_leaves_what_is_open_answering(base: KnowledgeBase) -> None:
    live = base.live_retriever()
    hidden = base.folder / "promotions"
    files = {file: file.read_bytes() for file in hidden.iterdir()}
    newest = max(files)
    newest.write_bytes(b"{")
    time.sleep(LOOK_SECONDS)
    assert live.search("marker", 1).hits
    assert live.problem
    newest.write_bytes(files[newest])
    time.sleep(LOOK_SECONDS)
    assert live.search("marker", 1).hits
    assert live.problem is None


def test_three_releases_stay_open_and_no_more(base: KnowledgeBase, tmp_path: Path) -> None:
    for edition in (3, 4, 5):
        write(tmp_path / "docs", {"0.md": f"# Page 0\n\nmarker edition{edition}.\n"})
        refreshed(base)
    move(base, "r000001")
    live = base.live_retriever()
    for number in (2, 3, 4, 5):
        move(base, f"r00000{number}")
        until(lambda number=number: live.release == f"r00000{number}")  # type: ignore[misc]
    assert len(live._warm) == live_module.WARM


def test_without_a_current_release_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(KbUnavailableError, match="no release is current yet"):
        knowledge_base(tmp_path).live_retriever()


def test_answers_are_never_mixed_while_readers_are_moved_every_50_ms(base: KnowledgeBase) -> None:
    live: LiveRetriever = base.live_retriever()
    before = threading.active_count()
    wrong: list[str] = []
    seen: dict[str, int] = {}
    stop = threading.Event()

    def ask(number: int) -> None:
        chosen = random.Random(number)
        while not stop.is_set():
            try:
                many = chosen.random() < 0.2
                mode: Any = chosen.choice(["vector", "keyword", "hybrid"])
                found = (
                    live.search_many(["marker", "page 3"], 6, mode=mode)
                    if many
                    else [live.search("marker", 6, mode=mode, merge=chosen.random() < 0.5)]
                )
                said = {word for result in found for word in editions(result)}
                releases = {result.release for result in found} | {
                    hit.release for result in found for hit in result.hits
                }
                if len(said) != 1 or len(releases) != 1 or f"edition{int(max(releases)[1:])}" not in said:
                    wrong.append(f"{releases} said {said}")
                seen[max(releases)] = seen.get(max(releases), 0) + 1
            except Exception as error:
                wrong.append(repr(error))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + 4
    releases = ["r000001", "r000002"]
    for turn in range(10_000):
        if time.monotonic() > ends:
            break
        move(base, releases[turn % 2])
        time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join(SOON)
    assert not wrong, wrong[:3]
    assert set(seen) == set(releases), seen
    until(lambda: threading.active_count() <= before)
