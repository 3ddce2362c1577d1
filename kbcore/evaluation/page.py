"""Pages to attach to a ticket: one file that reads without a script, asks nothing of any host, and escapes all it shows."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from kbcore.errors import EvaluationError
from kbcore.evaluation import wording


def render(template: str, **values: Any) -> str:
    """The page of a template of this package. Whatever is put into it is escaped, unless it is markup that charts made."""
    environment = _environment()
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page: str = environment.get_template(template).render(style=_markup(style), style_digest=digest, **values)
    return page


def markup(svg: str) -> Any:
    """Says of a chart that it is markup already."""
    return _markup(svg)


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


@cache
def _style() -> str:
    return "\n" + (files("kbcore.evaluation") / "page.css").read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise EvaluationError(
            "reports are laid out by Jinja2, which is not installed",
            remedy="install it with: pip install 'kbcore[evaluation]'",
        ) from None
    environment = Environment(
        loader=PackageLoader("kbcore", "evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        figure=wording.figure, signed=wording.signed, interval=wording.interval, count=wording.count
    )
    return environment


def _shown(value: Any) -> Any:
    """What is printed for a value: nothing for None, and no character that hides or turns others."""
    if value is None:
        return ""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return wording.visible(value)
    return value
