"""A schedule that no scheduler would run is refused where it is written."""

from __future__ import annotations

import pytest

from kbcore.config import Config
from kbcore.config.cron import check_cron


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("99 99 * * *", "the minute '99' is not from 0 to 59"),
        ("0 24 * * *", "the hour '24' is not from 0 to 23"),
        ("0 0 0 * *", "the day '0' is not from 1 to 31"),
        ("0 0 * 13 *", "the month '13' is not from 1 to 12"),
        ("0 0 * * 8", "the weekday '8' is not from 0 to 7"),
        ("0 0 * * often", "the weekday 'often' is not from 0 to 7"),
        ("*/0 * * * *", "steps by 0"),
        ("*/90 * * * *", "steps by 90"),
        ("1- * * * *", "is no value, range"),
        ("0 0 * * 1,", "is no value, range"),
        ("0 0 31 2,4 *", "there is no such day"),
        ("0 6 * *", "five fields"),
        ("٣ * * * *", "is not from 0 to 59"),
    ],
)
def test_a_schedule_that_never_comes_is_refused_and_its_field_is_named(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="(?i)" + said.replace("(", r"\(")):
        check_cron(text)
    with pytest.raises(ValueError, match="schedule"):
        Config.model_validate({"kb": {"name": "a"}, "schedule": {"cron": text}})


@pytest.mark.parametrize(
    "text",
    ["0 6 * * *", "*/15 8-18 * * mon-fri", "0 22-6 * * *", "0 0 L * *", "0 0 29 2 *", "0 0 31 2 1", "5/20 * ? jan,JUL *",
     "0 9 * * fri#3", "0 9 * * fri-mon"],
)  # fmt: skip
def test_what_is_taken_is_what_the_scheduler_takes(text: str) -> None:
    from prefect.client.schemas.schedules import CronSchedule

    assert check_cron(text) == text
    assert CronSchedule(cron=text).cron == text
