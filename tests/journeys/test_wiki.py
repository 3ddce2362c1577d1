"""A real MediaWiki with SQLite and PHP's own server, refreshed after each thing that happens in it (make test-wiki)."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dlt")

from kbcore.errors import SourceError
from kbcore.ingest import retry
from kbcore.knowledge_base import KnowledgeBase
from tests.support import knowledge_base, refreshed

MEDIAWIKI = Path("/usr/share/mediawiki")
PAGES = int(os.environ.get("KB_WIKI_PAGES", "30"))

pytestmark = [
    pytest.mark.wiki,
    pytest.mark.skipif(
        not (MEDIAWIKI / "maintenance" / "install.php").exists() or shutil.which("php") is None,
        reason="MediaWiki is not installed: make test-wiki",
    ),
]

RULES = """
$wgGroupPermissions['*'] = ['read' => true, 'edit' => true, 'createpage' => true, 'move' => true, 'delete' => true,
    'undelete' => true, 'createtalk' => true, 'writeapi' => true];
$wgRateLimits = [];
$wgJobRunRate = 0;
"""


class Wiki:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.settings = folder / "LocalSettings.php"
        self.environment = {**os.environ, "MW_CONFIG_FILE": str(self.settings), "PHP_CLI_SERVER_WORKERS": "3"}
        self.php(
            *("install", f"--confpath={folder}", f"--dbpath={folder}", "--dbtype=sqlite", "--dbname=wiki"),
            *("--scriptpath=", f"--server={self.url}", "--lang=en", "--pass=a-Long-passw0rd-of-it", "Wiki", "Admin"),
            config=False,
        )
        self.written = self.settings.read_text() + RULES
        self.settings.write_text(self.written)
        self.server = subprocess.Popen(
            ["php", "-d", "opcache.revalidate_freq=0", "-S", f"127.0.0.1:{self.port}", "-t", str(MEDIAWIKI)],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.ask(action="query", meta="siteinfo")
                return
            except OSError:
                assert time.monotonic() < deadline, "the wiki does not answer"
                time.sleep(0.2)

    def php(self, script: str, *arguments: str, config: bool = True, text: str | None = None) -> str:
        environment = dict(self.environment)
        if not config:
            environment.pop("MW_CONFIG_FILE")
        ran = subprocess.run(
            ["php", str(MEDIAWIKI / "maintenance" / f"{script}.php"), *arguments],
            env=environment,
            input=text,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def ask(self, **query: str) -> dict[str, Any]:
        data = urllib.parse.urlencode({"format": "json", "formatversion": "2", **query}).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/api.php", data, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
        assert "error" not in answer, answer
        return answer

    def do(self, action: str, **query: str) -> dict[str, Any]:
        """One change, as anybody may make it here, and the jobs that follow from it."""
        answer = self.ask(action=action, token="+\\", **query)
        self.php("runJobs")
        return answer

    def write(self, title: str, text: str) -> int:
        return int(self.do("edit", title=title, text=text)["edit"]["pageid"])

    def stop(self) -> None:
        if self.server.poll() is None:
            os.killpg(self.server.pid, 15)
        self.server.wait(20)


@pytest.fixture(scope="module")
def wiki(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wiki]:
    wiki = Wiki(tmp_path_factory.mktemp("wiki"))
    yield wiki
    wiki.stop()


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(retry, "ATTEMPTS", 1)


def shown(base: KnowledgeBase) -> dict[str, str]:
    """URI to title of every document of the current release."""
    rows = {}
    for segment in base.repository.segments(base.repository.manifest(str(base.repository.state().release))):
        live = segment.live_documents()
        for row, alive in zip(segment.documents().to_pylist(), live, strict=True):
            if alive:
                rows[row["uri"]] = row["title"]
    return rows


def configured(wiki: Wiki, **values: Any) -> list[dict[str, Any]]:
    return [
        {"name": "wiki", "type": "rest", "recipe": "mediawiki", "base_url": wiki.url, "allow_http": True, **values},
    ]


def test_a_wiki_is_followed_through_its_life(wiki: Wiki, tmp_path: Path) -> None:
    text = "Subject {} is handled on floor {}.\n\n== Details ==\nMore of it."
    ids = {n: wiki.write(f"Topic {n}", text.format(n * 37, n)) for n in range(8)}
    wiki.write("Template:Hours", "The desk is open from nine to five.")
    desk = wiki.write("Service desk", "{{Hours}} Call extension 4711.")
    wiki.do("edit", title="Helpdesk", text="#REDIRECT [[Service desk]]")
    wiki.do("edit", title="Talk:Topic 1", text="Is this right?")
    base = knowledge_base(tmp_path, {}, sources=configured(wiki, parameters={"page_size": "3"}))

    first = refreshed(base)
    titles = shown(base)
    assert titles.pop(f"page/{desk}") == "Service desk"
    assert {uri: title for uri, title in titles.items() if title != "Main Page"} == {
        f"page/{ids[n]}": f"Topic {n}" for n in ids
    }
    # The topics, the desk and the main page; neither redirect, talk nor template.
    assert first.changes["added"] == len(ids) + 2
    assert first.failures == []
    hit = base.retriever().search("extension 4711", mode="keyword").hits[0]
    assert "open from nine to five" in hit.text
    assert "## Details" in base.retriever().search("More of it", mode="keyword").hits[0].text
    assert refreshed(base).outcome == "unchanged"

    wiki.write("Topic 2", "Subject 74 moved to the basement.")
    edited = refreshed(base)
    assert (edited.changes["changed"], edited.changes["added"], edited.changes["removed"]) == (1, 0, 0)
    assert base.retriever().search("basement", mode="keyword").hits[0].uri == f"page/{ids[2]}"

    wiki.do("move", **{"from": "Topic 3", "to": "Renamed subject", "reason": "test"})
    moved = refreshed(base)
    assert (moved.changes["changed"], moved.changes["added"], moved.changes["removed"]) == (1, 0, 0)
    assert shown(base)[f"page/{ids[3]}"] == "Renamed subject"  # and the redirect left behind is no document
    assert len(shown(base)) == len(ids) + 2

    wiki.do("delete", title="Topic 4", reason="test")
    deleted = refreshed(base)
    assert (deleted.changes["removed"], deleted.changes["changed"], deleted.changes["added"]) == (1, 0, 0)
    assert f"page/{ids[4]}" not in shown(base)

    wiki.do("undelete", title="Topic 4", reason="test")
    assert refreshed(base).changes["added"] == 1
    assert shown(base)[f"page/{ids[4]}"] == "Topic 4"

    time.sleep(1.1)  # page_touched counts seconds
    wiki.write("Template:Hours", "The desk is open from seven to eight.")
    template = refreshed(base)
    assert template.changes["changed"] == 1
    assert "from seven to eight" in base.retriever().search("extension 4711", mode="keyword").hits[0].text


def test_a_wiki_that_became_private_or_went_away_removes_nothing(wiki: Wiki, tmp_path: Path) -> None:
    wiki.write("Only page", "Its text is about lamps.")
    base = knowledge_base(tmp_path, {}, sources=configured(wiki))
    before = refreshed(base).release
    wiki.settings.write_text(wiki.written + "$wgGroupPermissions['*']['read'] = false;\n$wgWhitelistRead = [];\n")
    try:
        with pytest.raises(SourceError, match="read permission"):
            refreshed(base)
    finally:
        wiki.settings.write_text(wiki.written)
    base_url = configured(wiki, base_url=f"{wiki.url}/no-such-path")
    gone = knowledge_base(tmp_path / "other", {}, sources=base_url)
    with pytest.raises(SourceError):
        refreshed(gone)
    assert base.repository.releases() == [before]


def test_a_larger_wiki_costs_one_listing_when_nothing_changed(wiki: Wiki, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for n in range(PAGES):
        (texts / f"Manual {n}.txt").write_text(
            f"Machine {n} is switched off at valve {n * 31}.\n\n" + "Some more. " * 80
        )
    wiki.php("importTextFiles", "-s", "import", *map(str, sorted(texts.iterdir())))
    wiki.php("runJobs")
    base = knowledge_base(tmp_path, {}, sources=configured(wiki, include=["Manual *"]))
    started = time.monotonic()
    first = refreshed(base)
    taken = time.monotonic() - started
    started = time.monotonic()
    second = refreshed(base)
    print(f"\n{PAGES} pages: first refresh {taken:.1f} s, unchanged {time.monotonic() - started:.1f} s")
    assert (first.changes["added"], first.failures, second.outcome) == (PAGES, [], "unchanged")
