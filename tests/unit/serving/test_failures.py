"""What callers hear of an error, over HTTP and from a tool."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from kbcore.errors import (
    ConfigError,
    CorruptReleaseError,
    EmbedderUnavailableError,
    KbUnavailableError,
    LockedError,
    RefusedError,
    ReleaseExpiredError,
    ReleaseNotFoundError,
    RerankerUnavailableError,
    UsageError,
)
from kbcore.serving.failures import Refusal, body_of, busy, refusal_of, told


def test_a_callers_own_error_keeps_message_and_remedy() -> None:
    assert told(UsageError("there is no mode 'x'", remedy="it is vector"), "kb") == "there is no mode 'x'. it is vector"


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (KbUnavailableError("r1 could not be searched", transient=True), True),
        (OSError(5, "Input/output error", "/srv/kb/segments/x"), True),
        (TimeoutError(), True),
        (MemoryError(), True),
        (busy(64), True),
        (KbUnavailableError("no release is current yet"), False),
        (CorruptReleaseError("is damaged", file="segments/x"), False),
        (EmbedderUnavailableError("there is no model folder /srv/models/x"), False),
    ],
)
def test_unavailable_is_no_miss_and_says_whether_to_ask_again(error: Any, again: bool) -> None:
    said = told(error, "helpdesk")
    assert said.startswith("UNAVAILABLE: helpdesk")
    assert ("Retrying may help" in said) is again
    assert ("Retrying will not help" in said) is not again
    assert "/srv" not in said


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("x"), 400),
        (ReleaseNotFoundError("x"), 404),
        (ReleaseExpiredError("x"), 410),
        (RefusedError("x"), 409),
        (LockedError("x"), 409),
        (KbUnavailableError("x"), 503),
        (EmbedderUnavailableError("x"), 503),
        (OSError(28, "No space left on device"), 503),
    ],
)
def test_what_the_caller_can_mend_is_4xx_and_everything_else_503_with_a_time(error: Any, status: int) -> None:
    refusal = refusal_of(error)
    assert refusal.status == status
    assert ("retry-after" in refusal.headers) is (status == 503)
    assert set(json.loads(body_of(refusal))) == {"error", "message", "remedy"}


def test_no_path_of_this_machine_reaches_a_caller_and_the_log_has_it(caplog: pytest.LogCaptureFixture) -> None:
    for error in (
        EmbedderUnavailableError("there is no model folder /srv/secret/m", remedy="see /srv/secret/kb.toml"),
        OSError(5, "Input/output error", "/srv/secret/x"),
        ConfigError("a key of /srv/secret/kb.toml: s3cret"),
    ):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            refusal = refusal_of(error)
        assert "secret" not in body_of(refusal).decode() + told(error, "kb")
        assert "/srv/secret" in caplog.text
    assert "s3cret" not in body_of(refusal).decode()


def test_a_reranker_that_is_not_here_is_named_to_both_kinds_of_callers() -> None:
    error = RerankerUnavailableError("there is no reranker folder /srv/r", remedy="see [retrieval] reranker_path")
    assert "no reranker folder" in refusal_of(error).message
    assert "no reranker folder" in told(error, "kb")


def test_a_refusal_stays_what_it_is() -> None:
    refusal = Refusal(418, "Teapot", "short and stout")
    assert refusal_of(refusal) is refusal
