"""All traces of a run as one timeline by the recording's clock, with the samples of its GPUs as counters."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gssr.gpu_vendors import words_of
from gssr.metrics import BY_NAME, DETECTION_METRICS
from gssr.model.joined.explain import Scores, traced
from gssr.model.joined.match import NS, Match
from gssr.model.statistics.balance import has_balance
from gssr.model.traced import Traced
from gssr.model.window import extent
from gssr.store.read.recording import RunReader
from gssr.store.read.time_window import Window
from gssr.traces.join import from_zero, join
from gssr.traces.timeline import Counter, Timeline

_FIRST = ("dram_active", "tensor_active", "power_usage")
"""What is shown first after what tells work from waiting."""


class Laid(NamedTuple):
    """The traces of a run laid over it: all as one ``timeline`` in unix ns (None without any), what each shows of all of the
    run, and a sentence for each that could not be laid over it."""

    timeline: Timeline | None
    traced: tuple[Traced, ...]
    refused: tuple[str, ...]


def together(reader: RunReader, matches: Iterable[Match | str]) -> Laid:
    """Join all traces that could be laid over the run, with samples. In ``matches`` a str says why one could not."""
    timelines, found, refused = [], [], []
    place = {at: at for at in range(len(reader.gpus))}
    scores = Scores(reader, extent(reader))
    for match in matches:
        if isinstance(match, str):
            refused.append(match)
        elif (own := traced(match, place, scores)) is None:
            refused.append(f"{match.path}: shows nothing of the run")
        else:
            found.append(own)
            timelines.append(with_samples(reader, match))
    if not timelines:
        return Laid(None, (), tuple(refused))
    timeline = join(timelines)
    return Laid(from_zero(timeline, -(timeline.clock.unix_ns or 0)), tuple(found), tuple(refused))


def with_samples(reader: RunReader, match: Match) -> Timeline:
    """Add the samples of its GPUs to a trace, as counters, the most telling first."""
    first = next((name for name in DETECTION_METRICS if name in reader.metrics), "")
    names = [name for name in reader.metrics if name in BY_NAME and has_balance(BY_NAME[name])]
    order = [name for name in dict.fromkeys((first, *_FIRST, *names)) if name in names]
    return replace(match.timeline, counters=(*_counters(reader, match, order), *match.timeline.counters))


def _counters(reader: RunReader, match: Match, names: list[str]) -> Iterator[Counter]:
    """Make the counters of samples: of each metric and GPU one for each stretch without a gap."""
    where = [(position, match.timeline.tracks.index(gpu)) for gpu, position in match.gpus.items()]
    where = where or [(position, 0) for position in match.beside]  # to be seen beside the rank's threads
    positions = np.array(sorted({position for position, _ in where}), np.int64)
    if not len(positions):
        return
    slack = reader.sampling_seconds or 1.0
    rows = reader.samples(names, positions, Window(match.start - slack, match.end + 2 * slack))
    time = np.rint(rows.time * NS).astype(np.int64)
    gap = reader.gap_seconds * NS
    for name in names:
        metric = BY_NAME[name]
        for position, track in where:
            own = np.flatnonzero((rows.gpu == position) & np.isfinite(rows.values[name]))
            own = own[np.argsort(time[own], kind="stable")]
            for part in np.split(own, np.flatnonzero(np.diff(time[own]) > gap) + 1):
                if len(part) > 1:
                    values = rows.values[name][part]
                    label = words_of((reader.gpus[position],))(metric.label)
                    yield Counter(label, metric.unit, "rate", time[part], values, track)
