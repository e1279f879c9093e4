"""How a run stands against earlier ones of the same label and size: as usual, lower or higher than these, and since when.

Runs scatter, and a run is one sample. So the last runs, this one among them, are held against those before, for each number
of runs since which something may have changed. The shift is that of Hodges and Lehmann, the median of all differences; the
scatter is read off the differences of neighbours, which neither a drift nor one change enlarges. Single strange runs do not
count: more than half of the last runs must show it. `benchmarks fleet_history` tells how often that is right.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from gssr.arrays import Floats
from gssr.model.fleet.figures import RunFigures, program_of
from gssr.model.results import Analysis
from gssr.model.run_history import History, Standing

FEWEST = 5
"""Earlier runs: of fewer nothing is said."""
REFERENCE = 50
"""A change is looked for among so many last runs at most, and held against as many before it."""
_KNOWN = 100
"""So many last runs tell how runs scatter."""
LEAST = 0.03
"""As a logarithm: what differs by less is as usual."""
_LEAST_SCATTER = 0.003
_QUARTILE = 1.1503 * 2**0.5
"""Of the absolute difference of two normal numbers the upper quartile, in standard deviations."""
_ERRORS, _OF_FEW = 3.7, 8.0
"""So many standard errors are no chance where many runs are known; of n runs _OF_FEW / n more. All thresholds are our own:
those with which one look in a hundred at runs that have not changed says that they have."""

Judge = Callable[[Sequence[str]], Iterable[RunFigures]]
"""From recordings to their runs, with the lengths of their steps."""


def find_comparable_runs(runs: Iterable[RunFigures], analysis: Analysis) -> list[RunFigures]:
    """Find the earlier runs that an analysed run can be compared with: completed, begun before it, with the same number
    of GPUs of the same models and the same label (runs without one: the same program). Returns the last _KNOWN, the
    oldest first."""
    run, size = analysis.run, Counter(gpu.name for gpu in analysis.gpus)
    program, own = program_of(run.command), run.started_at or analysis.window.start
    found = [
        each
        for each in runs
        if each.label == run.label
        and each.n_gpus == len(analysis.gpus)
        and each.state == "completed"
        and each.began < own
        and each.run_id != run.run_id
        and (run.label is not None or each.program == program)
        and Counter(gpu.name for gpu in each.gpus) == size
    ]
    return sorted(found, key=lambda each: (each.began, each.run_id))[-_KNOWN:]


def history(runs: Iterable[RunFigures], analysis: Analysis, judge: Judge) -> History:
    """Tell how a whole run stands among ``runs``. Its step is compared if it is known, for which the earlier runs'
    recordings are judged by ``judge``."""
    earlier, step = find_comparable_runs(runs, analysis), None
    if analysis.judgement.step is not None and earlier:
        last = {(run.run_id, run.began) for run in earlier[-2 * REFERENCE :]}
        judged = judge(list(dict.fromkeys(run.file for run in earlier[-2 * REFERENCE :])))
        lengths = [run for run in judged if (run.run_id, run.began) in last and run.step_s]
        lengths.sort(key=lambda run: (run.began, run.run_id))
        step = _standing([(run.began, run.step_s) for run in lengths], analysis.judgement.step.seconds, analysis)
    score = _standing([(run.began, run.score) for run in earlier], analysis.score, analysis)
    return History(len(earlier), score, step)


def _standing(earlier: Sequence[tuple[float, float | None]], own: float | None, analysis: Analysis) -> Standing | None:
    """Tell how the value ``own`` stands against ``earlier`` ones (unix s and value, in the order of time); None if it
    is unknown or not above 0."""
    if own is None or own <= 0:
        return None
    known = [(began, value) for began, value in earlier if value is not None and value > 0]
    if len(known) < FEWEST:
        return Standing("too few", len(known), None, None, None, 0)
    found = change(np.log([*(value for _, value in known), own]))
    begun = [*(began for began, _ in known), analysis.run.started_at or analysis.window.start]
    if found is None:
        usual = float(np.median([value for _, value in known[-REFERENCE:]]))
        return Standing("as usual", min(len(known), REFERENCE), usual, own / usual - 1, None, 0)
    n_since, shift = found
    before = [value for _, value in known][max(len(begun) - n_since - REFERENCE, 0) : len(begun) - n_since]
    numbers = len(before), float(np.median(before)), float(np.expm1(shift)), begun[-n_since], n_since
    return Standing("lower" if shift < 0 else "higher", *numbers)


def change(values: Floats) -> tuple[int, float] | None:
    """Find the last change in a series of logarithms [n], more than FEWEST: how many of the last values come after it,
    and by how much they differ from those before. None if there is none that matters to the last value."""
    differences = np.abs(np.diff(values[-_KNOWN:]))
    scatter = max(float(np.quantile(differences, 0.75)) / _QUARTILE, _LEAST_SCATTER)
    most = scatter * (_ERRORS + _OF_FEW / len(differences))
    found = [
        (n_since, own)
        for n_since in range(1, min(REFERENCE, len(values) - FEWEST) + 1)
        if (own := _shift(values, n_since)) and abs(own) >= most * np.sqrt(1 / n_since + 1 / _n_before(values, n_since))
    ]
    return min(found, key=lambda each: _rest(values, each[0]), default=None)


def _n_before(values: Floats, n_since: int) -> int:
    return min(len(values) - n_since, REFERENCE)


def _shift(values: Floats, n_since: int) -> float:
    """Return by how much the last ``n_since`` values differ from those before; 0.0 if most of them differ by less than
    LEAST."""
    after = values[-n_since:]
    before = values[: len(values) - n_since][-REFERENCE:]
    shift = float(np.median(np.subtract.outer(after, before)))
    by_run = np.sort((after - np.median(before)) * np.sign(shift))
    return shift if min(abs(shift), by_run[(n_since - 1) // 2]) >= LEAST else 0.0


def _rest(values: Floats, n_since: int) -> float:
    """Return what a change ``n_since`` values before the end leaves unexplained of the last values: the sum of
    absolute deviations."""
    last = values[-2 * REFERENCE :]
    parts = last[: len(last) - n_since], last[-n_since:]
    return sum(float(np.abs(part - np.median(part)).sum()) for part in parts)
