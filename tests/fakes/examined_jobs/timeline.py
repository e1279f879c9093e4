"""The timeline of a simulated job: every GPU's activities one after the other, and the books that are kept of them."""

from collections.abc import Sequence

import numpy as np

from gssr.arrays import Flags, Floats, Ints
from tests.fakes.examined_jobs.activities import FINISHED, LEAVES, Activity


class Script:
    """Columns of activities of all GPUs, step by step. GPUs are in step at the beginning of each step only where a barrier
    ended the one before."""

    def __init__(self, n_gpus: int, n_steps: int) -> None:
        """Begin an empty script of ``n_steps`` steps."""
        self.shape = (n_gpus, n_steps)
        self.columns: list[tuple[Activity, Floats, bool]] = []
        self.before: list[tuple[Activity, Floats]] = []
        self.after: list[tuple[Activity, Floats]] = []
        self.working = np.ones(self.shape)
        """1 where a GPU takes part in a step, 0 where not: it waits for nobody, and nobody for it."""
        self._since_barrier = np.zeros(self.shape)

    def do(self, activity: Activity, seconds: Floats | float, lost: bool = False) -> None:
        """Add an activity of so many seconds to every step: a number, or float64[GPU or 1, step or 1]. ``lost``: the first
        planted cause has this time on its account."""
        duration = np.broadcast_to(np.maximum(np.asarray(seconds, float), 0), self.shape)
        self.columns.append((activity, duration, lost))
        self._since_barrier = self._since_barrier + duration

    def wait(self, activity: Activity, lost: bool = False, groups: int = 1) -> None:
        """Let every GPU wait for the last one of its group; there are ``groups`` groups of neighbours."""
        n_gpus, n_steps = self.shape
        since = self._since_barrier.reshape(groups, n_gpus // groups, n_steps)
        waits = (since.max(axis=1, keepdims=True) - since).reshape(self.shape) * self.working
        self.columns.append((activity, waits, lost))
        self._since_barrier = self._since_barrier + waits

    def median_step_seconds(self) -> float:
        """How long a step takes in the median, with what happens in most of the steps."""
        whole = sum((duration for _, duration, _ in self.columns), np.zeros(self.shape))
        return float(np.median(whole, axis=1).max())


class Timeline:
    """Who did what when: int64[segment] ``kind`` (an index of ``activities``), float64[GPU, segment + 1] ``bounds`` in
    seconds since the job began, float64[GPU, segment] ``clock`` as a share of the model's highest."""

    def __init__(self, script: Script, clock: Floats, normal_clock: float, reasons: Ints) -> None:
        """Lay a script out. ``clock`` float64[GPU, step] under load, as a share of the highest; ``normal_clock`` what a
        healthy GPU has in this job; ``reasons`` int64[GPU, step] why clocks are low."""
        n_gpus, n_steps = script.shape
        self.activities: list[Activity] = []
        for activity, _ in script.before:
            self._index(activity)
        kinds = np.array([self._index(activity) for activity, _, _ in script.columns], np.int64)
        n_columns = len(kinds)
        durations = np.stack([column for _, column, _ in script.columns], axis=2).reshape(n_gpus, -1)
        before = np.stack([seconds for _, seconds in script.before], axis=1)
        after = [*script.after]
        lengths = before.sum(axis=1) + durations.sum(axis=1) + sum((seconds for _, seconds in after), np.zeros(n_gpus))
        after.append((FINISHED, lengths.max() - lengths))
        ends = np.stack([seconds for _, seconds in after], axis=1)
        self.lost_seconds = float(sum(column.sum() for _, column, which in script.columns if which))
        step = np.concatenate(
            [
                np.zeros(before.shape[1], np.int64),
                np.repeat(np.arange(n_steps), n_columns),
                np.full(ends.shape[1], n_steps - 1),
            ]
        )
        self.kind = np.concatenate(
            [
                [self._index(activity) for activity, _ in script.before],
                np.tile(kinds, n_steps),
                [self._index(activity) for activity, _ in after],
            ]
        ).astype(np.int64)
        duration = np.concatenate([before, durations, ends], axis=1)
        used = duration.any(axis=0)
        self.kind, step, duration = self.kind[used], step[used], duration[:, used]
        self.bounds = np.zeros((n_gpus, len(self.kind) + 1))
        np.cumsum(duration, axis=1, out=self.bounds[:, 1:])
        self.seconds = float(self.bounds[:, -1].max())
        heavy = np.array([activity.heavy for activity in self.activities])[self.kind]
        free = np.minimum(1.0, clock / normal_clock)
        self.clock = np.where(heavy, clock[:, step], free[:, step])
        self.reasons = np.where(heavy, reasons[:, step], reasons[:, step] & ~4)
        self.n_gpus = n_gpus

    def _index(self, activity: Activity) -> int:
        if activity not in self.activities:
            self.activities.append(activity)
        return self.activities.index(activity)

    def values(self, name: str) -> Floats:
        """A property of the activities, float64[activity]."""
        return np.array([getattr(activity, name) for activity in self.activities], float)

    def time_in_activities(self, gpu: int, until: Sequence[Floats]) -> list[Floats]:
        """How long a GPU has been in each activity up to these times: float64[time, activity] for each float64[time]."""
        bounds, n = self.bounds[gpu], len(self.activities)
        inside = np.zeros((len(self.kind) + 1, n))
        inside[np.arange(len(self.kind)), self.kind] = np.diff(bounds)
        total = np.zeros((len(self.kind) + 1, n))
        np.cumsum(inside[:-1], axis=0, out=total[1:])
        found = []
        for times in until:
            at = self.segment_at(gpu, times)
            spent = total[at]
            spent[np.arange(len(times)), self.kind[at]] += np.clip(times - bounds[at], 0, None)
            found.append(spent)
        return found

    def finished_seconds(self) -> float:
        """How long GPUs have finished while others of the job go on, all added up."""
        if FINISHED not in self.activities:
            return 0.0
        which = self.kind == self.activities.index(FINISHED)
        return float(np.diff(self.bounds, axis=1)[:, which].sum())

    def segment_at(self, gpu: int, times: Floats) -> Ints:
        """The segment in which a GPU is at these times."""
        at = np.searchsorted(self.bounds[gpu], times, "right") - 1
        return np.asarray(np.clip(at, 0, len(self.kind) - 1), np.int64)

    def books(self, gaps: Sequence[tuple[int, float, float]]) -> dict[str, float]:
        """Share of the GPU time by leaf. ``gaps``: (GPU, begin, end) without samples, none of which overlap."""
        leaves = [activity.leaf for activity in self.activities]
        duty = self.values("duty")
        works: Flags = np.greater(duty[self.kind], 0)
        duration = np.diff(self.bounds, axis=1)
        ran: Flags = np.logical_and(works, duration > 0)
        active: Flags = np.any(ran, axis=1)
        account = dict.fromkeys(LEAVES, 0.0)
        if not active.any():
            account["unused"] = 1.0
            return account
        first = min(float(self.bounds[gpu, np.argmax(ran[gpu])]) for gpu in np.flatnonzero(active))
        last = max(
            float(self.bounds[gpu, len(self.kind) - np.argmax(ran[gpu][::-1])]) for gpu in np.flatnonzero(active)
        )
        for gpu in range(self.n_gpus):
            own_gaps = [(begin, end) for which, begin, end in gaps if which == gpu]
            missing = sum(end - begin for begin, end in own_gaps)
            account["unmeasured"] += missing
            if not active[gpu]:
                account["unused"] += self.seconds - missing
                continue
            edges = [0.0, *(edge for gap in sorted(own_gaps) for edge in gap), self.seconds]
            cuts = np.sort(np.array([*edges, first, last]))
            (spent,) = self.time_in_activities(gpu, [cuts])
            whole = spent[-1]
            slowed = np.bincount(
                self.kind, duration[gpu] * (1 - np.minimum(self.clock[gpu], 1)), minlength=len(leaves)
            ) / np.maximum(whole, 1e-9)
            middles = (cuts[1:] + cuts[:-1]) / 2
            for middle, row in zip(middles, np.diff(spent, axis=0), strict=True):
                if any(begin < middle < end for begin, end in own_gaps):
                    continue
                edge = "startup" if middle < first else "end" if middle > last else ""
                for at, leaf in enumerate(leaves):
                    busy = row[at] * duty[at]
                    lost = busy * slowed[at] if leaf.startswith("working") else 0.0
                    account["working.slowed"] += lost
                    account[edge if edge and not duty[at] else leaf] += (busy - lost) if duty[at] else row[at]
                    account["idle.between_kernels"] += row[at] - busy if duty[at] else 0.0
        total = self.n_gpus * self.seconds
        return {leaf: seconds / total for leaf, seconds in account.items()}
