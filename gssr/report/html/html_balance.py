"""Which GPUs differ: their means in order, how many have which, and the GPUs at both ends."""

from typing import Any

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.metrics import Metric
from gssr.model.results import Analysis
from gssr.model.statistics.balance import histogram
from gssr.render.cells import clean
from gssr.render.scale import fixed, metric_of, number, scale_text, unit_of
from gssr.report import chart_texts
from gssr.report.content import alike_table, compared_by, node_table, uneven_texts
from gssr.report.html.html_over_time import map_of_gpus
from gssr.report.html.markup import (
    TALL,
    WIDE,
    Markup,
    area,
    coordinate,
    drawn_table,
    fragment,
    grid,
    level_labels,
    scrolling,
    sentence,
    share,
    svg,
    tag,
)
from gssr.report.load_balancing import listed, outliers_of, outliers_text
from gssr.report.page import full_scale, imbalance_text

_LEAST_FOR_HISTOGRAM = 5
_HEADROOM = 1.2
"""The tallest bar leaves room for its number."""
_GAPPED = 100
"""Up to this many GPUs there is a gap between their bars."""


def balance_part(analysis: Analysis) -> Markup:
    """Draw the part of the report that says which GPUs differ; one sentence if nothing was measured."""
    name = compared_by(analysis)
    if name is None:
        return tag("p", "Nothing to compare: no samples.", class_="dim")
    metric = metric_of(name)
    pictures = []
    if len(analysis.gpus) > 1:
        pictures.append(_sorted(analysis, metric))
    if len(analysis.gpus) >= _LEAST_FOR_HISTOGRAM:
        pictures.append(_histogram(analysis, metric))
    return fragment(
        tag("p", sentence(f"Imbalance {imbalance_text(analysis, name)}.")),
        tag("ul", *(tag("li", sentence(text)) for text in uneven_texts(analysis)))
        if analysis.judgement.unevenness
        else Markup(),
        tag("div", *pictures, class_="charts"),
        map_of_gpus(analysis),
        *(_table(analysis, metric, title, list(group)) for title, group in listed(analysis, metric)),
        tag("p", outliers_text(analysis, metric), class_="warn") if outliers_of(analysis, metric) else Markup(),
        *(
            drawn_table(table, about)
            for about, table in (("GPUs that behave alike", alike_table(analysis)), ("Nodes", node_table(analysis)))
            if table is not None
        ),
    )


def ranked(analysis: Analysis, metric: Metric) -> tuple[list[int], Floats]:
    """Return the positions of the GPUs that have a mean of the metric, the lowest first, and these means (in its
    stored unit)."""
    found = sorted((mean, i) for i, gpu in enumerate(analysis.gpus) if (mean := gpu.mean.get(metric.name)) is not None)
    return [i for _, i in found], np.array([mean for mean, _ in found])


def rank_data(analysis: Analysis) -> dict[str, Any] | None:
    """Return what the page's script says of a GPU in the order of means, or None if nothing was measured."""
    name = compared_by(analysis)
    if name is None:
        return None
    metric = metric_of(name)
    order, means = ranked(analysis, metric)
    unit = unit_of(metric)
    return {
        "names": [clean(analysis.gpus[i].place) for i in order], "unit": unit.name,
        "values": [float(fixed(unit.factor * mean, unit.decimals)) for mean in means.tolist()], "decimals": unit.decimals,
    }  # fmt: skip


def _sorted(analysis: Analysis, metric: Metric) -> Markup:
    """Draw the GPUs' means as bars, the lowest first, with a line at the median. Needs a GPU with a mean."""
    order, means = ranked(analysis, metric)
    full, n = full_scale(analysis, metric), len(order)
    edges = np.arange(n + 1) / n
    heights = means / full
    outliers = outliers_of(analysis, metric)
    apart = np.array([i in outliers for i in order], bool)
    if n <= _GAPPED:  # bars with a fifth of their width between them
        gaps = np.full(2 * n, np.nan)
        gaps[::2] = heights
        edges = np.append((np.arange(n)[:, None] + [0.1, 0.9]).ravel() / n, 1.0)
        heights, apart = gaps, np.repeat(apart, 2)
    middle = float(np.median(means))
    y = coordinate(TALL * (1 - min(middle / full, 1.0)))
    return tag(
        "figure",
        tag("figcaption", tag("b", f"{metric.label} of each GPU, in order"),
            tag("output", f"median GPU {number(middle, metric)} {unit_of(metric).name}", aria_live="off")),
        tag(
            "div",
            level_labels(scale_text(metric, full), scale_text(metric, full / 2), "0"),
            svg(
                chart_texts.in_order(analysis, metric, order, means), grid([]),
                *_bars(edges, heights, apart),
                tag("path", class_="median", d=f"M0 {y}H{WIDE:g}"),
            ),
            tag("svg",
                tag("text", f"lowest: {analysis.gpus[order[0]].place}", x="0", y=13),
                tag("text", f"highest: {analysis.gpus[order[-1]].place}", x="100%", y=13, text_anchor="end"),
                class_="x", aria_hidden="true"),
            class_="plot",
        ),
        class_="chart ranks",
    )  # fmt: skip


def _bars(edges: Floats, heights: Floats, apart: Flags) -> list[Markup]:
    """Draw the bars, those that are ``apart`` in another colour. ``edges`` [n + 1] and ``heights`` [n] are shares of
    width and height; NaN is no bar."""
    zero = np.zeros(len(heights))
    found = [tag("path", class_="bars", d=area(edges, zero, np.where(apart, np.nan, heights)))]
    if apart.any():
        found.append(tag("path", class_="bars apart", d=area(edges, zero, np.where(apart, heights, np.nan))))
    return found


def _histogram(analysis: Analysis, metric: Metric) -> Markup:
    """Draw how many GPUs have which mean, those unlike the rest in another colour."""
    found, unit = histogram(metric, analysis.gpus), unit_of(metric)
    most, n = max(int(found.counts.max()), 1), len(found.counts)
    edges = np.append((np.arange(n)[:, None] + [0.03, 0.97]).ravel() / n, 1.0)
    outliers = outliers_of(analysis, metric)
    heights, apart = np.full((2, 2 * n), np.nan)
    heights[::2] = np.where(found.counts > 0, found.counts / most / _HEADROOM, np.nan)
    n_outliers = np.array([len(outliers.intersection(members)) for members in found.members])
    apart[::2] = np.where(n_outliers > 0, n_outliers / most / _HEADROOM, np.nan)
    shown = [fixed(edge * unit.factor, 0 if unit.name == "%" else unit.decimals) for edge in found.edges.tolist()]
    numbers = [
        tag("text", f"{k:,}", x=share((i + 0.5) / n), y=share(1 - k / most / _HEADROOM), dy=-4, text_anchor="middle")
        for i, k in enumerate(found.counts.tolist()) if k
    ]  # fmt: skip
    return tag(
        "figure",
        tag("figcaption", tag("b", "How many GPUs have which mean"), tag("output", f"{metric.label}, {unit.name}")),
        tag(
            "div",
            level_labels("GPUs", "", "0"),
            svg(
                chart_texts.histogram_of_means(analysis, metric), grid([]),
                tag("path", class_="bars", d=area(edges, np.zeros(2 * n), heights)),
                tag("path", class_="bars apart", d=area(edges, np.zeros(2 * n), apart)) if outliers else "",
            ),
            tag("svg", *numbers, class_="numbers", aria_hidden="true"),
            tag("svg", *(
                tag("text", text, x=share(i / n), y=13, text_anchor="start" if i == 0 else "end" if i == n else "middle",
                    class_="minor" if i % 2 else None)
                for i, text in enumerate(shown)
            ), class_="x", aria_hidden="true"),
            class_="plot",
        ),
        class_="chart histogram",
    )  # fmt: skip


def _table(analysis: Analysis, metric: Metric, title: str, group: list[int]) -> Markup:
    """Draw a table of these GPUs (positions) with mean, score (if any GPU has one), rank and samples."""
    full, apart = full_scale(analysis, metric), outliers_of(analysis, metric)
    scored = any(gpu.score is not None for gpu in analysis.gpus)
    rows = []
    for i in group:
        gpu = analysis.gpus[i]
        mean = gpu.mean.get(metric.name)
        rows.append(tag(
            "tr",
            tag("th", gpu.place, scope="row"),
            tag("td", number(mean, metric), class_="n"),
            tag("td", meter(None if mean is None else mean / full), class_="wide"),
            tag("td", fixed(gpu.score, 3), class_="n") if scored else Markup(),
            tag("td", "-" if gpu.rank is None else str(gpu.rank), class_="n"),
            tag("td", f"{gpu.n_samples:,}", class_="n"),
            class_="apart" if i in apart else None,
        ))  # fmt: skip
    head = (title, f"{metric.label}, {unit_of(metric).name}", "", *(["Score"] if scored else []), "Rank", "Samples")
    cells = [
        tag("th", text, scope="col", class_="n" if i else None) if text else tag("td") for i, text in enumerate(head)
    ]
    return scrolling(
        tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *rows)), f"{metric.label} of GPUs, {title}"
    )


def meter(filled: float | None) -> Markup:
    """Draw a bar as long as the share ``filled`` (0-1), beside its number; empty for None."""
    if filled is None:
        return Markup()
    return tag(
        "svg", tag("rect", class_="rail", width="100%", height="100%"),
        tag("rect", width=share(min(max(filled, 0.0), 1.0)), height="100%"), class_="meter", aria_hidden="true",
    )  # fmt: skip
