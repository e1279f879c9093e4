"""Answers of Prometheus to range queries, and to others, as JSON: ``/api/v1/query_range``. Values are texts; all series of
an answer have times of one grid, those of several answers of grids that begin elsewhere."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gssr.arrays import Floats, Ints
from gssr.foreign.json_file import JsonElements, floats, text_or_none
from gssr.foreign.prometheus_series import NOTHING, SeriesTable
from gssr.foreign.series import ForeignError, ForeignSeries, ImportHints, Note, plain
from gssr.store.format.limits import LATEST

KIND = "prometheus-range"
REPEATED = "Prometheus repeats a value for up to 5 min where none came: what looks like samples may be a gap"
_SAME = 1e-3
"""s: times that are so near are of one grid."""
_APART = 5
"""Steps between answers that are one run, at most."""
SeriesSamples = tuple[Ints, Floats, Floats]
"""Numbers of series, times in unix s, and values."""
_Sampled = tuple[dict[str, str], Floats, Floats]
"""Labels of a series, times in unix s, and values."""


def read(paths: Sequence[str], told: ImportHints) -> list[ForeignSeries]:
    """Read JSON answers of Prometheus as runs; answers that overlap in time are joined to one run, as each may hold one
    metric. What cannot be read is named in the first run's notes; raises ForeignError if no run is found."""
    answers, problems = [], []
    for path in paths:
        try:
            said: list[str] = []
            answers.append((_sampled(path, said), said))
        except ForeignError as error:
            problems.append(str(error))
    found = []
    for own, said in _groups(answers):
        series = ForeignSeries(KIND, iter(()), sampling_seconds=told.interval)
        series.notes += [Note(each) for each in dict.fromkeys([*said, *problems])]
        problems = []
        table = SeriesTable(series, told)
        taken = numbered(own, table, told, series)
        series.pieces = table.pieces(*taken)
        table.finish()
        if len(taken[0]):
            found.append(series)
    if not found:
        raise ForeignError(problems[0] if problems else f"{paths[0]}: {_nothing(answers, told)}")
    return found


def _nothing(answers: Sequence[tuple[list[_Sampled], list[str]]], told: ImportHints) -> str:
    """Say, for an error, why none of the answers holds a metric of a GPU."""
    every = [labels for own, _ in answers for labels, _, _ in own]
    if every and told.metric is None and not any("__name__" in labels for labels in every):
        return "does not say which metric its values are of: --metric NAME tells it"
    return "holds no metric of a GPU that GSSR knows"


def _groups(answers: Sequence[tuple[list[_Sampled], list[str]]]) -> list[tuple[list[_Sampled], list[str]]]:
    """Join answers that overlap in time, or are at most ``_APART`` steps apart. An answer is a pair of its series and
    the sentences about it, and so is each group that is returned, in order of time. Answers without series are left
    out."""
    spans = [
        (min(times.min() for _, times, _ in own), max(times.max() for _, times, _ in own), own, said)
        for own, said in answers
        if own
    ]
    found: list[tuple[list[_Sampled], list[str]]] = []
    until = -np.inf
    for begin, end, own, said in sorted(spans, key=lambda span: span[:2]):
        if begin <= until:
            found[-1][0].extend(own)
            found[-1][1].extend(said)
        else:
            found.append((list(own), list(said)))
        until = max(until, end + _APART * (step_of(own) or 0.0))
    return found


def answer_of(found: Any, name: str, said: list[str]) -> list[Any]:
    """Return the list of series in a decoded answer of Prometheus. Its warnings are appended to ``said``. Raises
    ForeignError if it is an error, or no answer with series; ``name`` is what the error calls it."""
    if not isinstance(found, dict) or "status" not in found:
        raise ForeignError(f"{name}: is no answer of Prometheus")
    if found["status"] != "success":
        raise ForeignError(f"{name}: is an error of Prometheus: {plain(found.get('error'), 200)}")
    warnings = found.get("warnings")
    said += [
        f"Prometheus warned: {plain(warning, 200)}" for warning in (warnings if isinstance(warnings, list) else [])[:5]
    ]
    data = found.get("data")
    data = data if isinstance(data, dict) else {}
    result = data.get("result")
    if not isinstance(result, list) or data.get("resultType") not in ("matrix", "vector"):
        raise ForeignError(f"{name}: is an answer of Prometheus without series")
    return result


def _sampled(path: str, said: list[str]) -> list[_Sampled]:
    """Return the series of an answer in a file. Sentences about warnings and about what is left out are appended to
    ``said``. Raises ForeignError."""
    elements, left_out = JsonElements(path, "result"), list[str]()
    kept = sampled(elements, left_out)
    answer_of(elements.rest, path, said)
    said += left_out
    return kept


def sampled(result: Iterable[Any], said: list[str]) -> list[_Sampled]:
    """Convert the series of an answer to (labels, times in unix s, values). Series without values are left out;
    sentences about histograms and unsound values that are left out are appended to ``said``."""
    kept = []
    n_histograms = n_bad = 0
    for each in result:
        metric = each.get("metric") if isinstance(each, dict) else None
        if not isinstance(metric, dict):
            n_bad += 1
            continue
        pairs = each.get("values", [each["value"]] if "value" in each else [])
        sound = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2] if isinstance(pairs, list) else []
        n_histograms += not pairs and bool(each.get("histograms") or each.get("histogram"))
        n_bad += len(pairs) - len(sound) if isinstance(pairs, list) else 1
        if sound:
            times, values = floats([pair[0] for pair in sound]), _values([pair[1] for pair in sound])
            timed = (times >= 0) & (times <= LATEST)
            n_bad += int((~timed).sum())
            if timed.any():
                labels = {
                    str(text_or_none(key)): value
                    for key, own in metric.items()
                    if (value := text_or_none(own)) is not None
                }
                kept.append((labels, times[timed], values[timed]))
    if n_histograms:
        said.append(f"{n_histograms:,} series are histograms, and are left out")
    if n_bad:
        said.append(f"{n_bad:,} values or series that can't be read are left out")
    return kept


def _values(texts: Sequence[object]) -> Floats:
    """Read values, float64[n]; NaN for what is no number, or not finite."""
    if set(map(type, texts)) == {str} and not any("_" in str(each) for each in texts):
        try:
            return np.array(list(map(float, texts)))  # type: ignore[arg-type]
        except ValueError:
            pass
    return floats([None if isinstance(each, str) and "_" in each else each for each in texts])


def step_of(every: Sequence[_Sampled]) -> float | None:
    """Return the seconds between two samples: the least of the series' median spacings. None if no series has two
    times."""
    medians = [float(np.median(np.diff(times))) for _, times, _ in every if len(times) > 1]
    return min((own for own in medians if own > 0), default=None)


def numbered(every: Sequence[_Sampled], table: SeriesTable, told: ImportHints, series: ForeignSeries) -> SeriesSamples:
    """Join the samples of all series whose metric is known, and snap their times to one grid if the spacing is known.

    Series are added to ``table``, and notes to ``series``. Returns for each sample the number of its series in
    ``table``, its time in unix s, and its value; three empty arrays if no metric is known. A series without a name gets
    ``told.metric``.
    """
    parts: list[SeriesSamples] = []
    nameless = 0
    for labels, times, values in every:
        name = labels.get("__name__") or told.metric
        nameless += name is None
        about = {key: value for key, value in labels.items() if key != "__name__"}
        own = table.add(name, about, is_told="__name__" not in labels) if name is not None else NOTHING
        if own >= 0:
            parts.append((np.full(len(times), own), times, values))
    if nameless and parts:
        series.notes.append(
            Note(f"{nameless:,} series that do not say their metric are left out: --metric NAME tells it")
        )
    if not parts:
        return np.empty(0, np.int64), np.empty(0), np.empty(0)
    if any(len(times) > 1 for _, times, _ in parts):
        _say(series, REPEATED)
    own_, times, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    step = told.interval or step_of(every)
    if step is not None:
        first = float(times[0])
        grid = first + np.round((times - first) / step) * step
        off = float(np.abs(times - grid).max())
        if off > _SAME:
            series.notes.append(
                Note(f"times of different queries are up to {off:.3g} s apart: rows are joined by the step")
            )
            times = grid
    return own_, times, values


def _say(series: ForeignSeries, text: str) -> None:
    if Note(text) not in series.notes:
        series.notes.append(Note(text))
