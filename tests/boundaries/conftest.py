"""``claim(said, measured, holds)`` prints a line (seen with ``pytest -s``, see ``make proofs``) and fails where it does not
hold."""

from __future__ import annotations

import pytest

from tests.boundaries.claims import Claim, line


def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """With ``-s`` the lines stand alone: no dot behind them."""
    here = report.nodeid.startswith("tests/boundaries/")
    if here and report.passed and config.getoption("capture") == "no":
        return ("passed" if report.when == "call" else "", "", "")
    return None


@pytest.fixture
def claim(request: pytest.FixtureRequest) -> Claim:
    boundary = request.module.__doc__.split(":")[0]

    def check(said: str, measured: object, holds: bool) -> None:
        print(line(boundary, said, measured, holds))
        assert holds, f"{said}: {measured}"

    return check
