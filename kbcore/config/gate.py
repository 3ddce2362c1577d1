"""What a release must be like to become current by schedule."""

from __future__ import annotations

from pydantic import Field, field_validator

from kbcore.config.section import Section

DEFAULT_MEASURES = ("nDCG@10", "R@5", "RR@10", "Success@1", "Judged@10")


class GateSection(Section):
    """``evalset`` is the file of the questions; without one only the data are checked.

    ``drop`` is how far the mean of a measure may fall below that of the current release. ``noise`` is a floor in
    questions: a fall that so many whole questions could make does not count, whatever ``drop`` says, so that a small set
    does not stop a release for one question. So that falls that are each allowed do not add up, a candidate may also lie
    at most ``slide`` times as far below the best of the ``earlier`` releases that were current before. Questions tagged
    ``canary`` must go on being found in the hits that are served. ``judged_percent`` of the questions that have an answer
    must be judged in the candidate. At most ``no_answer_percent`` of those without one may be answered, and not
    ``no_answer_rise`` points more than before.
    The rest are bounds on the data, against the current release: each counts where more than ``documents`` documents are
    concerned. ``emptied_percent`` are documents that are still there and lost nine tenths of their text, ``untitled_percent``
    those that lost their title, ``copied_percent`` new ones that repeat half or more of another.
    """

    evalset: str | None = None
    measures: tuple[str, ...] = Field(DEFAULT_MEASURES, min_length=1)
    drop: dict[str, float] = Field(default_factory=lambda: {"nDCG@10": 0.03, "R@5": 0.05})
    noise: float = Field(1.5, ge=0)
    earlier: int = Field(5, ge=0, le=19)
    slide: float = Field(2.0, ge=1)
    canary: str = "canary"
    judged_percent: float = Field(80.0, ge=0, le=100)
    no_answer_percent: float = Field(100.0, ge=0, le=100)
    no_answer_rise: float = Field(25.0, ge=0, le=100)
    documents: int = Field(3, ge=0)
    removed_percent: float = Field(25.0, ge=0)
    emptied_percent: float = Field(5.0, ge=0)
    untitled_percent: float = Field(10.0, ge=0)
    failed_percent: float = Field(10.0, ge=0)
    flagged_percent: float = Field(10.0, ge=0)
    copied_percent: float = Field(20.0, ge=0)
    shrunk_percent: float = Field(30.0, ge=0, le=100)
    grown_percent: float = Field(100.0, ge=0)

    @field_validator("drop")
    @classmethod
    def _allowed(cls, value: dict[str, float]) -> dict[str, float]:
        for name, allowed in value.items():
            if not 0 <= allowed <= 1:
                raise ValueError(f"the drop that is allowed of {name} is a share from 0 to 1, not {allowed}")
        return value
