"""Charts: what they show is there as text, and nothing that goes in comes out as markup."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbcore.evaluation.charts import Point, Whisker, line, scale, whiskers

FIGURES = st.floats(-1, 1).map(lambda value: round(value, 4))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter("text")]


@given(st.lists(st.tuples(FIGURES, FIGURES, FIGURES), max_size=8))
def test_every_difference_stands_as_text_and_lies_within_the_picture(figures):
    rows = [Whisker(f"m{n}", *sorted(values)) for n, values in enumerate(figures)]
    rows = [Whisker(row.name, row.low, row.value, row.high) for row in rows]
    svg = whiskers(rows, chart_id="c", title="t")
    shown = " ".join(texts(svg))
    for row in rows:
        assert f"{row.name} {row.value:+.3f} ({row.low:+.3f} to {row.high:+.3f})" in shown
    root = ET.fromstring(svg)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for circle in root.iter("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height


def test_better_worse_and_equal_differ_in_shape_and_not_in_colour_alone():
    up, down, level = (
        whiskers([Whisker("m", value, value - 0.1, value + 0.1)], chart_id="c", title="t") for value in (0.2, -0.2, 0.0)
    )
    assert 'class="mark up"' in up
    assert "-14z" in up
    assert 'class="mark down"' in down
    assert "l7 -12h" in down
    assert "<circle" in level
    assert "<circle" not in up + down


def test_what_was_not_judged_is_said_and_not_drawn_as_zero():
    svg = whiskers([Whisker("m", None, None, None)], chart_id="c", title="t")
    assert "not judged" in texts(svg)
    assert 'class="whisker"' not in svg


def test_names_are_escaped():
    svg = whiskers([Whisker("<script>", 0.1, 0.0, 0.2)], chart_id="c", title="<b>") + line(
        [Point("<i>", 0.5)], chart_id="d", title="&"
    )
    assert "<script>" not in svg
    assert "<b>" not in svg
    assert "<i>" not in svg
    assert "&lt;script&gt;" in svg


def test_a_gap_breaks_the_line_and_is_marked():
    points = [Point("r1", 0.5, True), Point("r2", 0.6), Point("r3", None), Point("r4", 0.4), Point("r5", 0.5)]
    svg = line(points, chart_id="c", title="t")
    assert svg.count('class="series"') == 2
    assert svg.count('class="gap"') == 1
    assert svg.count("dot served") == 1
    assert svg.count("dot candidate") == 3
    assert "r3 missing" in svg


def test_moves_are_marked_by_shape_and_letter():
    svg = line([Point("r1", 0.5, True, ("promoted", "left"))], chart_id="c", title="t")
    assert svg.count('class="move"') == 2
    assert {"P", "R"} <= set(texts(svg))
    assert "r1 0.500, promoted, left" in svg


@pytest.mark.parametrize("count", [0, 1, 2, 12, 400])
def test_any_number_of_releases_makes_a_picture_without_crowded_names(count):
    points = [Point(f"r{n:06d}", n / 400 if n % 7 else None) for n in range(1, count + 1)]
    root = ET.fromstring(line(points, chart_id="c", title="t"))
    names = [element for element in root.iter("text") if (element.text or "").startswith("r")]
    places = [float(element.attrib["x"]) for element in names]
    assert all(after - before >= 30 for before, after in itertools.pairwise(places))
    assert len(names) >= min(count, 1)


@given(st.lists(st.floats(0, 1), max_size=20))
def test_the_axis_holds_all_values_in_round_steps(values):
    low, high, ticks = scale(values)
    assert low < high
    assert all(low - 1e-9 <= value <= high + 1e-9 for value in values)
    assert ticks[0] == low
    assert ticks[-1] == high
    assert 2 <= len(ticks) <= 8
    steps = {round(b - a, 8) for a, b in itertools.pairwise(ticks)}
    assert len(steps) == 1
    step = steps.pop()
    assert round(step / 10 ** math.floor(math.log10(step) + 1e-9), 6) in (1, 2, 5)
