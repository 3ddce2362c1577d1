"""The pool outlives its children: whatever becomes of one, the document is listed and the next one parses."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kbcore.errors import DocumentError, SkippedDocumentError, UsageError
from kbcore.parsing import ParseLimits, ParserPool
from kbcore.parsing.frames import BadFrameError, as_json, frame, read_answer, request
from kbcore.types import Heading, Parsed
from tests.unit.parsing.containers import docx_of, p

GOOD = b"# Title\n\nSome words.\n"

# A child that behaves except on a document that holds a word, when it runs the statements put in here.
FAKE = """
import json, os, signal, sys, time
out = sys.stdout.buffer
def frame(value):
    body = json.dumps(value).encode()
    return len(body).to_bytes(4, "big") + body
def answer(text):
    return {"ok": {"text": text, "title": "t", "media_type": "text/markdown", "parser_id": "markdown-1",
                   "headings": [], "pages": [], "metadata": {}, "stats": {}}}
while start := sys.stdin.buffer.read(4):
    header = json.loads(sys.stdin.buffer.read(int.from_bytes(start, "big")))
    data = sys.stdin.buffer.read(header["bytes"])
    if b"hostile" in data:
        STATEMENTS
    out.write(frame(answer(data.decode())))
    out.flush()
"""


def fake(tmp_path: Path, statements: str) -> list[str]:
    script = tmp_path / "child.py"
    script.write_text(FAKE.replace("STATEMENTS", statements))
    return [sys.executable, str(script)]


def reason_for(pool: ParserPool, uri: str, data: bytes) -> str:
    with pytest.raises(DocumentError) as failure:
        pool.parse(uri, data)
    assert not isinstance(failure.value, SkippedDocumentError)
    return failure.value.message


@pytest.fixture(scope="module")
def pool() -> Iterator[ParserPool]:
    with ParserPool() as pool:
        yield pool


class TestHostileChild:
    @pytest.mark.parametrize(
        ("statements", "reason"),
        [
            ("time.sleep(60)", "no answer within 1.5 seconds"),
            ("os.kill(os.getpid(), signal.SIGSEGV)", "parser killed by SIGSEGV"),
            ("os.kill(os.getpid(), signal.SIGBUS)", "parser killed by SIGBUS"),
            ("os.kill(os.getpid(), signal.SIGKILL)", "parser killed by SIGKILL"),
            ("os._exit(0)", "parser ended with code 0 without an answer"),
            ("sys.exit('library says\\n no')", r"ended with code 1 .*\(it said: library says no\)"),
            ("out.close(); os.close(1); time.sleep(60)", "closed its output"),
            ("out.write(b'\\0\\0\\0\\5Hello'); out.flush(); time.sleep(9)", "not JSON"),
            ("print('a library prints this', flush=True); time.sleep(9)", "longer than the limit"),
            ("out.write(b'\\0\\0\\1\\0' + b'[' * 256); out.flush(); time.sleep(9)", "not JSON"),
            ("out.write(frame([1, 2])); out.flush(); time.sleep(9)", "unknown kind"),
            ("out.write(frame({'ok': {'text': 'x'}})); out.flush(); time.sleep(9)", "wrong shape"),
            ("out.write(frame(answer('x')) * 2); out.flush(); time.sleep(9)", "more than one answer"),
            ("out.write(frame({'failed': 'the reason'})); out.flush(); time.sleep(9)", "^the reason$"),
            (
                "while True: out.write((30_000_000).to_bytes(4, 'big')); out.write(b' ' * 30_000_000)",
                "not JSON|more than one answer|longer than the limit",
            ),
            (
                "out.write(bytes([0, 0, 99, 0])); out.flush()\n"
                "        while True: out.write(b' '); out.flush(); time.sleep(0.01)",
                "no answer within",
            ),
        ],
    )
    def test_it_costs_its_document_and_no_other(self, tmp_path: Path, statements: str, reason: str) -> None:
        with ParserPool(ParseLimits(timeout_seconds=1.5), command=fake(tmp_path, statements)) as pool:
            assert pool.parse("a.md", b"good").text == "good"
            with pytest.raises(DocumentError, match=reason):
                pool.parse("b.md", b"hostile")
            assert pool.parse("c.md", b"good again").text == "good again"

    def test_one_that_never_reads_is_late_even_with_much_to_write(self) -> None:
        command = [sys.executable, "-c", "import time; time.sleep(60)"]
        with ParserPool(ParseLimits(timeout_seconds=0.5), command=command) as pool:
            started = time.monotonic()
            assert "no answer within" in reason_for(pool, "a.md", b"x" * 5_000_000)
            assert time.monotonic() - started < 5

    def test_one_that_dies_at_once_says_why(self) -> None:
        with ParserPool(command=[sys.executable, "-c", "raise SystemExit('cannot start')"]) as pool:
            for _ in range(2):
                assert "cannot start" in reason_for(pool, "a.md", GOOD)

    def test_a_flood_on_stderr_neither_blocks_nor_grows(self, tmp_path: Path) -> None:
        statements = "sys.stderr.write('noise ' * 1_000_000 + 'the end'); sys.stderr.flush(); os._exit(3)"
        with ParserPool(command=fake(tmp_path, statements)) as pool:
            reason = reason_for(pool, "a.md", b"hostile")
        assert "the end" in reason
        assert len(reason) < 300

    def test_a_second_answer_sent_later_is_not_the_next_documents(self, tmp_path: Path) -> None:
        statements = "out.write(frame(answer('forged'))); out.flush(); time.sleep(0.2)"
        with ParserPool(command=fake(tmp_path, statements)) as pool:
            pool.parse("a.md", b"hostile")
            time.sleep(0.5)
            assert pool.parse("b.md", b"good").text == "good"

    def test_a_document_that_fails_in_a_used_child_is_tried_alone_in_a_fresh_one(self, tmp_path: Path) -> None:
        marker = tmp_path / "tried"
        statements = f"if not os.path.exists({str(marker)!r}): open({str(marker)!r}, 'w').close(); os._exit(9)"
        with ParserPool(command=fake(tmp_path, statements)) as pool:
            pool.parse("a.md", b"good")
            assert pool.parse("b.md", b"hostile by circumstance").text == "hostile by circumstance"

    def test_a_failure_in_a_fresh_child_is_final(self, tmp_path: Path) -> None:
        log = tmp_path / "log"
        with ParserPool(command=fake(tmp_path, f"open({str(log)!r}, 'a').write('x'); os._exit(9)")) as pool:
            reason_for(pool, "a.md", b"hostile")
        assert log.read_text() == "x"


class TestRealChild:
    def test_it_reads_each_format(self, pool: ParserPool) -> None:
        parsed = pool.parse("docs/a.md", GOOD)
        assert (parsed.title, parsed.headings) == ("Title", (Heading(0, 1, "Title"),))
        assert pool.parse("a.html", b"<h1>A</h1><p>Words here</p>").media_type == "text/html"
        assert pool.parse("a.txt", "Grüße".encode("utf-16")).text == "Grüße"
        assert "not a readable PDF" in reason_for(pool, "a.html", b"%PDF-1.4\n")

    def test_blank_and_unread_kinds_are_skipped(self, pool: ParserPool) -> None:
        for uri, data, reason in (
            ("a.md", b"\n", "blank"),
            ("a.odt", b"PK", "no parser for .odt"),
            ("LICENSE", b"x", "no parser"),
        ):
            with pytest.raises(SkippedDocumentError, match=reason):
                pool.parse(uri, data)

    def test_office_files_have_a_child_of_their_own_for_twenty(self) -> None:
        with ParserPool() as pool:
            data = docx_of(p("Some words"))
            assert pool.parse("a.docx", data).text == "Some words"
            first = pool._children["office"]
            for _ in range(19):
                pool.parse("a", data)
            assert pool._children["office"] is first
            assert pool.parse("a.csv", b"a,b\n1,2\n").text == "a: 1; b: 2"
            pool.parse("a.docx", data)
            assert pool._children["office"] is not first

    def test_odd_names_pass(self, pool: ParserPool) -> None:
        assert pool.parse("d/\udcff name\n.txt", b"words").title == "? name"

    def test_input_and_output_are_bounded(self) -> None:
        with ParserPool(ParseLimits(input_bytes=2_000_000, output_bytes=1_000_000)) as pool:
            assert "more than the limit of 2 MB" in reason_for(pool, "a.md", b"x" * 2_000_001)
            assert "more than 1 MB of text" in reason_for(pool, "a.md", b"x" * 1_500_000)
            assert "larger than the limit" in reason_for(pool, "a.md", b"# a\n" * 240_000)
            assert pool.parse("a.md", GOOD).text

    def test_memory_is_bounded_and_the_parent_does_not_grow(self) -> None:
        before = psutil.Process().memory_info().rss
        with ParserPool(ParseLimits(memory_bytes=400_000_000)) as pool:
            assert reason_for(pool, "bomb.html", b"<p>a<b>" * 2_000_000)
            assert pool.parse("a.md", GOOD).text
        assert psutil.Process().memory_info().rss - before < 50_000_000

    def test_processor_time_is_bounded_per_document(self) -> None:
        with ParserPool(ParseLimits(cpu_seconds=1, timeout_seconds=30)) as pool:
            assert "SIGXCPU" in reason_for(pool, "slow.html", b"<p>some words</p>" * 300_000)
            assert pool.parse("a.md", GOOD).text

    def test_a_child_serves_500_light_documents_and_20_pdfs(self) -> None:
        with ParserPool() as pool:
            pool.parse("a.md", GOOD)
            first = pool._children["text"]
            for _ in range(499):
                pool.parse("a.md", GOOD)
            assert pool._children["text"] is first
            pool.parse("a.md", GOOD)
            assert pool._children["text"] is not first

    def test_it_gets_no_secrets_and_limits_itself(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SECRET_TOKEN", "hush")
        with ParserPool() as pool:
            pool.parse("a.md", GOOD)
            child = psutil.Process(pool._children["text"]._process.pid)
            assert "SECRET_TOKEN" not in child.environ()
            if sys.platform == "linux":
                assert child.rlimit(psutil.RLIMIT_AS)[1] == ParseLimits().memory_bytes
                assert child.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
                assert child.rlimit(psutil.RLIMIT_CORE) == (0, 0)
                assert child.rlimit(psutil.RLIMIT_NOFILE)[1] <= 64

    def test_it_ends_with_its_parent_even_while_parsing(self) -> None:
        program = (
            "import os, threading, time\nfrom kbcore.parsing import ParserPool\npool = ParserPool()\n"
            "pool.parse('a.md', b'# x')\nprint(pool._children['text']._process.pid, flush=True)\n"
            "threading.Timer(0.3, os._exit, (0,)).start()\npool.parse('b.html', b'<p>some words</p>' * 300_000)\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
        deadline = time.monotonic() + 5
        while psutil.pid_exists(pid := int(done.stdout)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not psutil.pid_exists(pid)

    def test_it_does_not_import_from_the_working_directory(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "json.py").write_text("raise SystemExit('planted')")
        monkeypatch.chdir(tmp_path)
        with ParserPool() as pool:
            assert pool.parse("a.md", GOOD).text

    def test_a_child_killed_while_idle_costs_nothing(self) -> None:
        with ParserPool() as pool:
            pool.parse("a.md", GOOD)
            os.kill(pool._children["text"]._process.pid, signal.SIGKILL)
            assert pool.parse("b.md", GOOD).title == "Title"

    def test_threads_take_turns(self) -> None:
        texts: list[str] = []
        with ParserPool() as pool:
            threads = [
                threading.Thread(target=lambda n=n: texts.append(pool.parse("a.txt", b"%d" % n).text))
                for n in range(20)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert sorted(map(int, texts)) == list(range(20))

    def test_a_closed_pool_says_so(self) -> None:
        pool = ParserPool()
        pool.close()
        with pytest.raises(UsageError):
            pool.parse("a.md", GOOD)

    def test_of_5000_documents_with_5_hostile_ones_those_5_are_listed(self) -> None:
        hostile = {
            700: ("700.pdf", b"%PDF-1.7\n" + b"\0" * 500),
            1500: ("1500.html", b"<div>" * 100_000),
            2500: ("2500.txt", bytes(range(256)) * 40),
            3500: ("3500.pdf", b"<html>Please sign in</html>"),
            4999: ("4999.html", b"<script>x</script>"),
        }
        listed, texts = {}, 0
        with ParserPool() as pool:
            for number in range(5000):
                uri, data = hostile.get(number, (f"{number}.md", b"# Page %d\n\nWords of the page.\n" % number))
                try:
                    texts += pool.parse(uri, data).title == f"Page {number}"
                except DocumentError as exc:
                    listed[number] = exc.message
        assert (sorted(listed), texts) == (sorted(hostile), 4995)
        assert all(listed.values())


class TestFrames:
    PARSED = Parsed(
        "# A\n\ntext", "A", "text/markdown", "markdown-1", (Heading(0, 1, "A"),), (), {"k": [1]}, {"n": 1.5}
    )

    def test_an_answer_comes_back_as_it_was(self) -> None:
        body = frame({"ok": as_json(self.PARSED)})[4:]
        assert read_answer(body, "text/markdown", ParseLimits()) == ("ok", self.PARSED)

    @pytest.mark.parametrize(
        "change",
        [
            {"text": 1},
            {"text": "a\0b"},
            {"title": None},
            {"media_type": "text/html"},
            {"parser_id": "markdown-999"},
            {"headings": [[0, 7, "x"]]},
            {"headings": [[True, 1, "x"]]},
            {"headings": [[99, 1, "x"]]},
            {"headings": [[3, 1, "x"], [1, 1, "x"]]},
            {"headings": {}},
            {"pages": [0, 99]},
            {"pages": [2]},
            {"pages": [0, 2, 1]},
            {"pages": ["0"]},
            {"metadata": []},
            {"stats": None},
            {"extra": 1},
        ],
    )
    def test_every_field_is_checked(self, change: dict[str, object]) -> None:
        body = frame({"ok": {**as_json(self.PARSED), **change}})[4:]
        with pytest.raises(BadFrameError):
            read_answer(body, "text/markdown", ParseLimits())

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"\xff",
            b"null",
            b"{}",
            b'{"ok": 1, "failed": "x"}',
            b'{"failed": 1}',
            b'{"unknown": "x"}',
            b'{"failed": NaN}',
            b'{"failed": "\\ud800"}',
            b'{"failed": "\\uDFFF"}',
            b"[" * 100_000,
        ],
    )
    def test_anything_else_is_refused(self, body: bytes) -> None:
        with pytest.raises(BadFrameError):
            read_answer(body, "text/markdown", ParseLimits())

    def test_a_request_is_header_and_bytes(self) -> None:
        sent = request("a.md", "text/markdown", b"\xff\0", ParseLimits())
        assert sent.endswith(b"}\xff\0")
        assert int.from_bytes(sent[:4], "big") == len(sent) - 6
