"""Charts as inline SVG: pure functions from figures to markup. Nothing but numbers, names and dates goes in, escaped.

Every value stands beside its mark as text and marks differ in shape, so that colour is never the only sign. Colours are
classes of the page's style, so that a chart follows the page into the dark and onto paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 360
ROW = 44
PADDING = 10
HEIGHT, TOP, BOTTOM, LEFT, RIGHT, INSET = 190, 22, 62, 44, 8, 20
STEP, FEW = 34, 12
TICKS = 4
SPAN = 0.1


@dataclass(frozen=True, slots=True)
class Whisker:
    """One row: a difference with its interval, None where there is nothing to compare."""

    name: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Point:
    """One release on a line: ``value`` None is a gap. ``served``: readers had it once. ``marks`` are moves of what
    readers get, from ``promoted`` and ``left``, at this release."""

    name: str
    value: float | None
    served: bool = False
    marks: tuple[str, ...] = ()


def whiskers(rows: Sequence[Whisker], *, chart_id: str, title: str) -> str:
    """Differences as dots with intervals as whiskers around a line at zero, one row each, the largest reach to the edge."""
    ends = [abs(end) for row in rows for end in (row.value, row.low, row.high) if end is not None]
    reach = max([*ends, 0.01])
    half = (WIDTH - 2 * PADDING) / 2
    middle = WIDTH / 2

    def x(value: float) -> float:
        return middle + value / reach * half

    height = ROW * len(rows) + 26
    parts = []
    for number, row in enumerate(rows):
        top = number * ROW
        y = top + 30
        parts.append(f'<text class="label" x="0" y="{top + 14}">{escape(row.name)}</text>')
        if row.value is None or row.low is None or row.high is None:
            parts.append(f'<text class="value" x="{WIDTH}" y="{top + 14}" text-anchor="end">not judged</text>')
            continue
        said = f"{row.value:+.3f} ({row.low:+.3f} to {row.high:+.3f})"
        parts.append(f'<text class="value" x="{WIDTH}" y="{top + 14}" text-anchor="end">{said}</text>')
        left, right = x(row.low), x(row.high)
        kind = "up" if row.value > 0 else "down" if row.value < 0 else "level"
        parts.append(
            f'<path class="whisker" d="M{left:.1f} {y - 5}v10M{left:.1f} {y}H{right:.1f}M{right:.1f} {y - 5}v10"/>'
        )
        parts.append(_shape(kind, x(row.value), y))
    bottom = ROW * len(rows)
    parts.insert(0, f'<line class="zero" x1="{middle}" x2="{middle}" y1="18" y2="{bottom}"/>')
    for value, anchor in ((-reach, "start"), (0.0, "middle"), (reach, "end")):
        at = {"start": 0.0, "middle": middle, "end": float(WIDTH)}[anchor]
        said = "0" if value == 0 else f"{value:+.3f}"
        parts.append(f'<text class="tick" x="{at:.0f}" y="{bottom + 16}" text-anchor="{anchor}">{said}</text>')
    described = "; ".join(_said(row) for row in rows)
    return _svg(chart_id, title, described, WIDTH, height, parts, fluid=True)


def _said(row: Whisker) -> str:
    if row.value is None or row.low is None or row.high is None:
        return f"{row.name}: not judged"
    return f"{row.name}: {row.value:+.3f}, 95 % interval {row.low:+.3f} to {row.high:+.3f}"


def _shape(kind: str, x: float, y: float) -> str:
    """A triangle upwards for better, downwards for worse, a circle for equal."""
    if kind == "up":
        return f'<path class="mark up" d="M{x:.1f} {y - 7:.1f}l7 12h-14z"/>'
    if kind == "down":
        return f'<path class="mark down" d="M{x:.1f} {y + 7:.1f}l7 -12h-14z"/>'
    return f'<circle class="mark level" cx="{x:.1f}" cy="{y:.1f}" r="5"/>'


def line(points: Sequence[Point], *, chart_id: str, title: str) -> str:
    """Values by release, left to right, in the order given. A gap breaks the line and is labelled so; a filled dot is a
    release that readers had, a hollow one a candidate; below the axis stand the moves."""
    width = max(WIDTH, LEFT + RIGHT + 2 * INSET + STEP * max(0, len(points) - 1))
    floor, ceiling, ticks = scale([point.value for point in points if point.value is not None])
    inner, depth = width - LEFT - RIGHT - 2 * INSET, HEIGHT - TOP - BOTTOM
    step = inner / max(1, len(points) - 1)

    def x(number: int) -> float:
        return LEFT + INSET + (step * number if len(points) > 1 else inner / 2)

    def y(value: float) -> float:
        return TOP + depth * (ceiling - value) / (ceiling - floor)

    parts = []
    for tick in ticks:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    parts += [f'<path class="series" d="{path}"/>' for path in _stretches(points, x, y)]
    every = max(1, math.ceil(52 / step)) if len(points) > 1 else 1
    base = HEIGHT - BOTTOM
    last = max((n for n, point in enumerate(points) if point.value is not None), default=-1)
    for number, point in enumerate(points):
        at = x(number)
        if point.value is None:
            parts.append(f'<text class="gap" x="{at:.1f}" y="{base - 6}" text-anchor="middle">?</text>')
        else:
            kind = "served" if point.served else "candidate"
            parts.append(f'<circle class="dot {kind}" cx="{at:.1f}" cy="{y(point.value):.1f}" r="4"/>')
            if number == last or (len(points) <= FEW and number % every == 0 and last - number >= every):
                parts.append(
                    f'<text class="value" x="{at:.1f}" y="{y(point.value) - 8:.1f}" text-anchor="middle">'
                    f"{point.value:.3f}</text>"
                )
        if number % every == 0:
            parts.append(
                f'<text class="tick" x="{at:.1f}" y="{base + 16}" text-anchor="middle">{escape(_short(point.name))}</text>'
            )
        parts += _moves(point, at, base)
    described = "; ".join(
        f"{p.name} {'missing' if p.value is None else f'{p.value:.3f}'}" + "".join(f", {m}" for m in p.marks)
        for p in points
    )
    return _svg(chart_id, title, described, width, HEIGHT, parts, fluid=width == WIDTH)


def _moves(point: Point, at: float, base: int) -> list[str]:
    """Promoted: a triangle upwards and the letter P; left by a rollback or an undo: one downwards and R."""
    parts = []
    if "promoted" in point.marks:
        parts.append(f'<path class="move" d="M{at:.1f} {base + 24}l5 8h-10z"/>')
        parts.append(f'<text class="tick" x="{at + 8:.1f}" y="{base + 33}">P</text>')
    if "left" in point.marks:
        parts.append(f'<path class="move" d="M{at:.1f} {base + 50}l5 -8h-10z"/>')
        parts.append(f'<text class="tick" x="{at + 8:.1f}" y="{base + 51}">R</text>')
    return parts


def _stretches(points: Sequence[Point], x: Callable[[int], float], y: Callable[[float], float]) -> list[str]:
    """The parts of the line between gaps."""
    found: list[str] = []
    before = False
    for number, point in enumerate(points):
        if point.value is None:
            before = False
            continue
        place = f"{x(number):.1f} {y(point.value):.1f}"
        if before:
            found[-1] += f"L{place}"
        else:
            found.append(f"M{place}")
        before = True
    return [path for path in found if "L" in path]


def scale(values: Sequence[float]) -> tuple[float, float, list[float]]:
    """(lowest, highest, ticks) of an axis that shows all values: round steps, over a tenth at least, so that
    noise does not look like a change."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    rough = max(high - low, SPAN) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    final = max(math.ceil(high / step - 1e-9), first + 1)
    ticks = [round(step * number, 10) for number in range(first, final + 1)]
    return ticks[0], ticks[-1], ticks


def _short(release: str) -> str:
    """r000042 as r42: it is still a name that every command takes."""
    digits = release.removeprefix("r")
    return f"r{int(digits)}" if release.startswith("r") and digits.isdecimal() else release


def _svg(
    chart_id: str, title: str, described: str, width: float, height: float, parts: Sequence[str], *, fluid: bool
) -> str:
    size = "" if fluid else f' width="{width:.0f}" height="{height:.0f}"'
    name = escape(chart_id)
    return (
        f'<svg class="chart{" fluid" * fluid}" viewBox="0 0 {width:.0f} {height:.0f}"{size} role="img" '
        f'aria-labelledby="{name}-title {name}-desc"><title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-desc">{escape(described)}</desc>{"".join(parts)}</svg>'
    )
