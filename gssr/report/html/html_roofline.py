"""What bounds the work: the run and its phases under the roofline of their GPUs."""

from gssr.model.results import Analysis, Place
from gssr.peaks import Peaks
from gssr.render.roofline import FLOPS, INTENSITY, engineering, power_of_ten_text
from gssr.render.roofline import share as place_on
from gssr.render.scale import percent
from gssr.report.chart_texts import roofline
from gssr.report.content import ContentTable
from gssr.report.html.markup import (
    TALL,
    WIDE,
    Markup,
    coordinate,
    drawn_table,
    fragment,
    level_labels,
    sentence,
    share,
    svg,
    tag,
)
from gssr.report.phases import CAVEAT, WHOLE, bound_text, drawn_roofs, roofline_points

_EVERY = 2
"""Decades from one label of the vertical axis to the next."""


def roofline_part(analysis: Analysis) -> Markup:
    """Draw the part of the report that says what bounds the work, or why that is unknown; empty if it was not looked
    at."""
    if analysis.judgement.place is None:
        return Markup()
    if isinstance(analysis.judgement.place, str):
        return tag("p", _sentence(analysis.judgement.place), class_="dim")
    said = tag("p", _sentence(bound_text(analysis.judgement.place)))
    if analysis.judgement.peaks is None:
        return said
    found = roofline_points(analysis)
    rows = tuple(
        (mark, name, f"{each.intensity:.3g}", engineering(each.flops), engineering(each.bytes), percent(each.of_roof))
        for mark, name, each in found
    )
    head = ("Phase", "", "FLOP/B", "FLOP/s", "B/s", "Of the roof")
    return fragment(
        said, _picture(analysis, analysis.judgement.peaks, found),
        drawn_table(ContentTable(head, rows, n_text=2), "Under the roofline"),
        tag("p", _sentence(CAVEAT), class_="dim"),
    )  # fmt: skip


def _sentence(text: str) -> Markup:
    return sentence(f"{text[0].upper()}{text[1:]}.")


def _picture(analysis: Analysis, peaks: Peaks, found: list[tuple[str, str, Place]]) -> Markup:
    """Draw the roofline on logarithmic axes that are the same in every report."""
    roofs = drawn_roofs(peaks, analysis)
    lines = [_grid()]
    lines += [
        tag("path", class_="line" if i == 0 else "roof", d=_roof(peak, peaks.memory_bandwidth, whole=i == 0))
        for i, (_, peak) in enumerate(roofs)
    ]
    names = [
        tag("text", f"{label}: {engineering(peak)}FLOP/s", x="100%", y=share(_from_top(peak)), dy=-4, text_anchor="end")
        for label, peak in roofs
    ]
    points = [_point(mark, name, each) for mark, name, each in found]
    decades = [power_of_ten_text(power) for power in range(FLOPS[1], FLOPS[0] - 1, -_EVERY)]
    labels = [
        tag("text", f"{10.0**power:,g}", x=share(_across(10.0**power)), y=13,
            text_anchor="start" if power == INTENSITY[0] else "end" if power == INTENSITY[1] else "middle",
            class_="minor" if power % 2 else None)
        for power in range(INTENSITY[0], INTENSITY[1] + 1)
    ]  # fmt: skip
    return tag(
        "figure",
        tag("figcaption", tag("b", f"FLOP/s of one GPU at most, by FLOP/B: {peaks.model}"),
            tag("output", f"memory {engineering(peaks.memory_bandwidth)}B/s")),
        tag("div", level_labels(*decades), svg(roofline(analysis, peaks), *lines),
            tag("svg", *names, *points, class_="numbers", aria_hidden="true"),
            tag("svg", *labels, class_="x", aria_hidden="true"), class_="plot"),
        class_="chart roofline",
    )  # fmt: skip


def _grid() -> Markup:
    """Return the lines of the grid, one for each power of ten."""
    across = "".join(
        f"M0 {coordinate(TALL * _from_top(10.0**power))}H{WIDE:g}" for power in range(FLOPS[0] + 1, FLOPS[1] + 1)
    )
    down = "".join(
        f"M{coordinate(WIDE * _across(10.0**power))} 0V{TALL:g}" for power in range(INTENSITY[0] + 1, INTENSITY[1])
    )
    return tag("path", class_="grid", d=across + down)


def _roof(peak: float, bandwidth: float, whole: bool) -> str:
    """Return the path of a roof, flat at ``peak`` (FLOP/s); with ``whole`` also the slope that the memory's
    ``bandwidth`` (B/s) sets."""
    ridge = peak / bandwidth
    top = coordinate(TALL * _from_top(peak))
    slope = ""
    if whole:
        start = max(10.0 ** INTENSITY[0], 10.0 ** FLOPS[0] / bandwidth)
        slope = f"M{coordinate(WIDE * _across(start))} {coordinate(TALL * _from_top(start * bandwidth))}"
    return f"{slope}{'L' if whole else 'M'}{coordinate(WIDE * _across(ridge))} {top}H{WIDE:g}"


def _point(mark: str, name: str, found: Place) -> Markup:
    """Draw a point with its label and a tooltip."""
    x, y = share(_across(found.intensity)), share(_from_top(found.flops))
    said = tag("title", sentence(f"{name}: {found.intensity:.3g} FLOP/B, {percent(found.of_roof)} of its roof"))
    kind = "whole" if mark == WHOLE else name
    label, beside, anchor = ("all", -10, "end") if mark == WHOLE else (mark, 9, "start")
    circle = tag("circle", cx=x, cy=y, r=6.5 if mark == WHOLE else 5)
    return tag(
        "g", said, circle, tag("text", label, x=x, y=y, dx=beside, dy=4, text_anchor=anchor), class_=f"point {kind}"
    )


def _across(intensity: float) -> float:
    """A share of the width; what is beyond the axis is at its edge."""
    return min(max(place_on(intensity, INTENSITY), 0.0), 1.0)


def _from_top(flops: float) -> float:
    """A share of the height."""
    return 1.0 - min(max(place_on(flops, FLOPS), 0.0), 1.0)
