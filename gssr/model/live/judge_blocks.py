"""What can be said of a run of very many files while it grows: by what its live blocks tell, without reading the files.

Blocks tell what each GPU's activity was over time, in columns of some seconds, and how often its clocks were held down: that
is enough for the rules about whether the GPUs are used at all. Single samples, the nodes, and activity from one second to
the next are in the files alone; a rule that needs them, or whose findings one that needs them might explain, is left for
when the run is over.
"""

import math
from dataclasses import replace

import numpy as np

from gssr.arrays import Ints
from gssr.model.evidence.evidence import Evidence
from gssr.model.live.live_result import Result
from gssr.model.results import Judgement
from gssr.model.verdicts import judge
from gssr.model.verdicts.table import RuleTable

TOLD = (
    "gpus_unused", "hang", "start_up", "tear_down", "late_start", "early_end", "throttled_thermal",
    "throttled_power_brake", "throttled_hardware",
)  # fmt: skip
"""Rules that are judged ..."""
SEEN_IN_PART = ("hang", "throttled_thermal")
"""... and those of them that may hold, though blocks don't show it: SMs that only spin, temperatures."""
LATER = "known after the run: the live blocks by which this many ranks are followed do not show it"


def judge_blocks(frame: Result, table: RuleTable) -> Judgement:
    """Judge the frame's window by the rules that live blocks suffice for; the other rules abstain. The frame's metric
    must be one that tells work from waiting (gssr.metrics.DETECTION_METRICS)."""
    gpus = np.array(frame.query.gpus or range(frame.n_gpus), np.int64)
    rules = tuple(rule for rule in table.rules if rule.code in TOLD)
    found = judge(_evidence(frame, gpus), table._replace(rules=rules))
    known = {verdict.code for verdict in found.verdicts} | set(TOLD).difference(SEEN_IN_PART)
    told = {code: reason for code, reason in found.abstentions.items() if code in known}
    later = dict.fromkeys((rule.code for rule in table.rules if rule.code not in known), LATER)
    return replace(found, abstentions=told | later)


def _evidence(frame: Result, gpus: Ints) -> Evidence:
    """Make evidence of what a frame shows of these GPUs (positions)."""
    grid, window = frame.grid, frame.window
    assert frame.run is not None
    n = min(grid.n, math.ceil((window.end - grid.start) / grid.width))
    values = grid.values[gpus, :n].astype(np.float32)
    nodes, node_of = np.unique(frame.node_of[gpus], return_inverse=True)
    return Evidence(
        run=frame.run,
        state="running",
        start=max(window.start, frame.first),
        end=window.end,
        interval=frame.sampling_seconds,
        gpus=tuple(frame.gpus[gpu] for gpu in gpus.tolist()),
        positions=gpus,
        nodes=tuple(frame.nodes[node] for node in nodes.tolist()),
        node_of=node_of,
        times=np.asarray(grid.start + grid.width * np.arange(n), np.float64),
        width=grid.width,
        series={grid.metric: values},
        means=replace(window, n=window.n[:, gpus], total=window.total[:, gpus]),
        greatest={},
        n_rows=np.isfinite(values).sum(axis=1),
        host={},
        workload={},
        peaks=None,
        events=frame.events,
    )
