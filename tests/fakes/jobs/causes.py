"""What goes wrong in jobs, by the physics of each: a cause is put into a draft, and the job without it is simulated too."""

import numpy as np

from tests.fakes.jobs.job import ABSENT, IDLE, SPINNING, Cause, Column, Draft, Lap
from tests.fakes.jobs.phases import Floats, Ints, Kind

_GB = 1e9
LITTLE = frozenset({"low_use"})
UNEVEN = frozenset({"imbalance", "straggler"})


def _insert(draft: Draft, at: Ints, seconds: Floats, phases: list[tuple[Kind, float]]) -> None:
    for before, length in zip(at.tolist(), seconds.tolist(), strict=True):
        draft.between.append(Lap(before, length, tuple((draft.everybody(kind), share) for kind, share in phases)))


def _step(draft: Draft) -> float:
    return float(sum(column.seconds.max(axis=1).mean() for column in draft.own + draft.together))


def _spread(draft: Draft, every: float) -> Ints:
    """Steps about every so many seconds, not at the very beginning."""
    apart = max(round(every / _step(draft)), 1)
    return np.arange(apart, len(draft.laps), apart)


# Between the steps: starts, ends, checkpoints, pauses


def start_up(seconds: float, read: float) -> Cause:
    def apply(draft: Draft) -> None:
        loading = IDLE._replace(cores=1.0, read=read, clock=0.9)
        _insert(draft, np.array([0]), np.array([seconds]), [(loading, 0.8), (loading._replace(host_rx=0.05), 0.2)])

    return Cause("start_up", "start_up", apply, LITTLE | {"io_wait"})


def tear_down(seconds: float, write: float) -> Cause:
    def apply(draft: Draft) -> None:
        kind = IDLE._replace(write=write, cores=1.0)
        _insert(draft, np.array([len(draft.laps)]), np.array([seconds]), [(kind, 1.0)])

    says = "tear_down|io_wait" if write else "tear_down"
    return Cause("last_checkpoint" if write else "tear_down", says, apply, LITTLE | {"io_wait", "early_end"})


def checkpoints(every: float, seconds: float, write: float, alone: bool) -> Cause:
    """All write, or rank 0 writes and the others spin at the barrier."""

    def apply(draft: Draft) -> None:
        writing = IDLE._replace(write=write, cores=1.5, host_tx=0.05)
        others = SPINNING if alone and draft.plan.recipe.sync else writing
        kinds = draft.everybody(others)
        kinds[0] = writing
        for before in _spread(draft, every).tolist():
            length = seconds * float(draft.rng.uniform(0.93, 1.07))
            draft.between.append(Lap(before, length, ((kinds, 1.0),)))

    return Cause("checkpoints", "recurring_dips|io_wait", apply, LITTLE | {"gaps"} | (UNEVEN if alone else frozenset()))


def pauses(every: float, seconds: float) -> Cause:
    """All wait for something that can't be seen, at random."""

    def apply(draft: Draft) -> None:
        step, at = _step(draft), 0.0
        while (at := at + float(draft.rng.exponential(every)) + 0.3 * every) / step < len(draft.laps):
            length = np.array([seconds * float(draft.rng.uniform(0.5, 1.6))])
            _insert(draft, np.array([int(at / step)]), length, [(IDLE._replace(cores=0.2), 1.0)])

    return Cause(
        "pauses", "pauses", apply, LITTLE | {"gaps"},
        weaker=tuple((name, "pauses|gaps|low_use") for name in ("10s", "30s", "nvml-10s")),
    )  # fmt: skip


def validation(every: float, seconds: float) -> Cause:
    """Now and then only the forward pass, of everything: work as well, of another kind."""

    def apply(draft: Draft) -> None:
        kind = draft.plan.recipe.own[0][0]
        forward = kind._replace(sm=0.9 * kind.sm, tensor=0.8 * kind.tensor, dram=min(1.1 * kind.dram, 0.85))
        _insert(draft, at := _spread(draft, every), np.full(len(at), seconds), [(forward, 1.0)])

    return Cause("validation", "", apply, gpu_seconds=lambda _: 0.0)


def evaluation_alone(at: float, seconds: float, rank: int) -> Cause:
    """One rank evaluates for minutes while the others spin at the next collective: not a hang."""

    def apply(draft: Draft) -> None:
        kinds = draft.everybody(SPINNING)
        kinds[rank] = draft.plan.recipe.own[0][0]._replace(dram=0.35)
        draft.between.append(Lap(int(at * len(draft.laps)), seconds, ((kinds, 1.0),)))

    says = "imbalance|straggler|rotating_stragglers|pauses|recurring_dips|communication_bound"
    return Cause("evaluation_alone", says, apply, LITTLE, (rank,))


def hang(seconds: float, culprit: int | None, spinning: bool, first: bool) -> Cause:
    """Nothing happens any more: the others spin in a collective that one (or none of them) never joins, or all wait on the
    host. ``first``: in the first barrier, before any step."""

    def apply(draft: Draft) -> None:
        kinds = draft.everybody(SPINNING if spinning else IDLE._replace(cores=0.05))
        if culprit is not None:
            kinds[culprit] = IDLE._replace(cores=0.02)
        start = IDLE._replace(cores=1.0, read=0.3 * _GB)
        if first:
            _insert(draft, np.array([0]), np.array([min(0.03 * seconds, 40.0)]), [(start, 1.0)])
            draft.laps, draft.stretch = draft.laps[:0], draft.stretch[:0]
        draft.between.append(Lap(len(draft.laps), seconds, ((kinds, 1.0),)))
        draft.state, draft.exit_code = ("timeout", 143) if draft.rng.random() < 0.5 else ("killed", 137)

    name = "hang_first" if first else "hang"
    may = LITTLE | {"communication_bound", "tear_down", "straggler", "imbalance", "gpus_unused"}
    return Cause(name, "hang", apply, frozenset(may), () if culprit is None else (culprit,), always=True)


# Ranks that differ


def unused(ranks: tuple[int, ...]) -> Cause:
    def apply(draft: Draft) -> None:
        _absent(draft, ranks, slice(None))
        draft.away.update(ranks)
        draft.memory[np.array(ranks)] = 0.005

    return Cause(
        "gpus_unused", "gpus_unused", apply, UNEVEN | LITTLE, ranks, always=True,
        gpu_seconds=lambda duration: duration * len(ranks),
    )  # fmt: skip


def _absent(draft: Draft, ranks: tuple[int, ...], variants: Ints | slice) -> None:
    """These do nothing in these variants, and nobody waits for them: it was the others' work."""
    rows = np.arange(draft.variants)[variants]
    for column in draft.own + draft.together:
        column.kind[np.ix_(rows, np.array(ranks))] = draft.index(ABSENT)


def partial(ranks: tuple[int, ...], share: float, late: bool) -> Cause:
    """Some start later, or stop earlier, than the others, who work on by themselves."""

    def apply(draft: Draft) -> None:
        position = np.arange(len(draft.laps)) / max(len(draft.laps), 1)
        when = position < share if late else position >= 1 - share
        _absent(draft, ranks, draft.split(when.astype(np.int64), 2)[1])

    code = "late_start" if late else "early_end"
    return Cause(
        code, code, apply, UNEVEN | LITTLE | {"start_up" if late else "tear_down"}, ranks,
        gpu_seconds=lambda duration: duration * share * len(ranks),
    )  # fmt: skip


def slow_clock(ranks: tuple[int, ...], clock: float, reason: int, since: float, code: str) -> Cause:
    """Clocks are down on some, from ``since`` (share of the job) on: their own work takes longer, which is felt less where
    memory is the limit."""

    def apply(draft: Draft) -> None:
        when = np.arange(len(draft.laps)) >= since * len(draft.laps)
        variants = draft.split(when.astype(np.int64), 2)[1] if since > 0 else slice(None)
        share = 0.5 if draft.plan.recipe.own[0][0].dram > 0.65 else 0.9

        def lowered(kind: Kind) -> Kind:
            slower = share / clock + (1 - share)
            piece = {name: getattr(kind, name) / slower for name in ("dram", "nvlink", "host_rx", "host_tx")}
            return kind._replace(clock=clock, reasons=reason, **piece)

        draft.alter(lowered, list(ranks), variants)
        draft.slow(share / clock + (1 - share), list(ranks), variants)
        if reason & 0x60:
            draft.hot.update(ranks)

    may = UNEVEN | {"slow_clock", "slow_node", "slow_down", "power_capped", "throttled_hardware"}
    return Cause(code, "slow_node|slow_clock" if code == "slow_node" else code, apply, frozenset(may), ranks)


def uneven(factors: Floats, code: str, sync: bool) -> Cause:
    """Ranks have unequal shares of each step's work; in a job whose ranks don't wait, some have less to do."""
    factors = factors / factors.mean()
    odd = tuple(np.flatnonzero(np.abs(factors / np.median(factors) - 1) > 0.05).tolist())

    def apply(draft: Draft) -> None:
        if sync:
            draft.slow(factors[None, :], slice(None))
            return
        idle = draft.index(IDLE)
        column, share = draft.own[0], factors / factors.max()
        rest = column.seconds * (1 - share)
        column.seconds = column.seconds * share
        draft.own.append(Column(np.full_like(column.kind, idle), rest, work=False))

    idle = float((1 - factors / factors.max()).sum())
    other = "straggler" if code == "imbalance" else "imbalance"
    return Cause(
        code, f"{code}|{other}", apply,
        LITTLE | {"gaps", "communication_bound"} if sync else LITTLE | {"gaps"}, odd if code == "straggler" else (),
        gpu_seconds=None if sync else lambda duration: duration * idle,
    )  # fmt: skip


def rotating(factor: float, dwell: int) -> Cause:
    """In turn each rank takes this much longer, for ``dwell`` steps; the others wait."""

    def apply(draft: Draft) -> None:
        n = draft.n
        order = np.concatenate([draft.rng.permutation(n) for _ in range(len(draft.laps) // (dwell * n) + 1)])
        slow = np.repeat(order, dwell)[: len(draft.laps)]
        first = draft.variants
        for column in draft.own + draft.together:
            column.kind = np.resize(column.kind, (first + n, n))
            column.seconds = np.resize(column.seconds, (first + n, n))
        draft.laps = first + slow
        for rank in range(n):
            draft.slow(factor, [rank], np.array([first + rank]))

    # Where no step is resolved, every rank is the same: busy, and half of it spinning
    weak = "rotating_stragglers|communication_bound|imbalance|low_use"
    coarse = ("30s",) if dwell > 1 else ("10s", "30s", "nvml-1s")
    return Cause(
        "rotating_slow" if dwell > 1 else "rotating_fast", "rotating_stragglers", apply,
        UNEVEN | LITTLE | {"communication_bound"}, weaker=tuple((name, weak) for name in coarse),
    )  # fmt: skip


def turns(groups: Ints, seconds: float, spinning: bool) -> Cause:
    """Groups of GPUs work in turn, the others wait."""

    def apply(draft: Draft) -> None:
        dwell = max(round(seconds / _step(draft)), 1)
        n_groups = int(groups.max()) + 1
        waiting = draft.index(SPINNING if spinning else IDLE._replace(cores=1.0))
        for group, rows in enumerate(draft.split(np.arange(len(draft.laps)) // dwell % n_groups, n_groups)):
            for column in draft.own + draft.together:
                column.kind[np.ix_(rows, np.flatnonzero(groups != group))] = waiting

    n, idle = len(groups), 1 - 1 / (int(groups.max()) + 1)
    return Cause(
        "taking_turns", "taking_turns", apply, LITTLE | UNEVEN | {"rotating_stragglers"}, always=True,
        gpu_seconds=lambda duration: duration * n * idle,
        weaker=(("30s", "taking_turns|imbalance|rotating_stragglers|gaps|low_use"),),
    )  # fmt: skip


# Every step: what the GPUs wait for


def slow_down(growth: float) -> Cause:
    """Steps grow longer over the job: the host is held up more and more, as by a fragmented allocator."""

    def apply(draft: Draft) -> None:
        step = _step(draft)
        where = draft.grade()
        draft.own.append(draft.column(IDLE._replace(cores=1.0), where * growth * step))

    return Cause("slow_down", "slow_down", apply, LITTLE | {"gaps", "cpu_starved"})


def slow_input(share: float, every: int, network: bool, alone: bool) -> Cause:
    """The next batch isn't there: all wait each ``every`` steps while files are read; or one rank, and the others spin."""

    def apply(draft: Draft) -> None:
        rate = float(draft.rng.uniform(0.3, 1.5)) * _GB / draft.plan.per_node
        reading = IDLE._replace(cores=3.0, read=0.0 if network else rate, net_rx=rate if network else 0.0)
        stall = share / (1 - share) * _step(draft) * every
        if alone and draft.plan.recipe.sync:
            _sometimes(draft, every, reading, stall, [0])
        else:
            _sometimes(draft, every, reading, stall, list(range(draft.n)))
        for number, kind in enumerate(list(draft.kinds)):  # workers read ahead all the time
            if kind.engine:
                ahead = kind._replace(read=0.6 * reading.read, net_rx=0.6 * reading.net_rx)
                for column in draft.own:
                    column.kind[column.kind == number] = draft.index(ahead)

    may = LITTLE | {"gaps", "recurring_dips", "cpu_starved"} | (UNEVEN if alone else frozenset())
    return Cause("slow_input", "io_wait", apply, frozenset(may))


def _sometimes(draft: Draft, every: int, kind: Kind, seconds: float, ranks: list[int]) -> None:
    """Each ``every`` steps, these ranks begin with this."""
    number = np.arange(len(draft.laps))
    rows = draft.split((number % every == every - 1).astype(np.int64), 2)[1] if every > 1 else np.arange(draft.variants)
    column = draft.column(kind, 0.0)
    lengths = seconds * draft.rng.lognormal(-0.03, 0.25, (len(rows), 1))
    column.seconds[np.ix_(rows, np.array(ranks))] = lengths
    draft.own.insert(0, column)


def copies(share: float, pageable: bool) -> Cause:
    """The GPU waits for data to come over its link to the host and results to go back."""

    def apply(draft: Draft) -> None:
        link = 0.09 if pageable else 0.8
        c2c = draft.plan.gpus[0].c2c > 0
        there = IDLE._replace(host_rx=0.5 * link if c2c else link, reasons=0, dram=0.02, cores=1.0)
        back = there._replace(host_rx=0.0, host_tx=there.host_rx)
        seconds = share / (1 - share) * _step(draft)
        draft.own.insert(0, draft.column(there, 0.75 * seconds))
        draft.own.append(draft.column(back, 0.25 * seconds))

    return Cause(
        "copies", "transfer_bound", apply, LITTLE | {"gaps"}, weaker=(("nvml", "gaps|low_use|transfer_bound"),)
    )


def communication(share: float, kind: Kind, window: float, step: float) -> Cause:
    """Collectives that nothing hides. ``step`` seconds of work are seen in windows of ``window`` s: under a third of
    steps that aren't resolved is no more than what kinds of work differ by."""

    def apply(draft: Draft) -> None:
        draft.together.append(draft.column(kind, share / (1 - share) * _step(draft)))

    name = "communication" if kind.sm < 0.5 else "communication_all_sms"
    if name == "communication" and share >= 0.45:
        name = "communication_heavy"
    if share < 1 / 3 and share / (1 - share) * step < 2 * window:
        name = "communication_little"
    weak = "communication_bound|small_kernels|low_use|little_arithmetic"
    return Cause(name, "communication_bound", apply, LITTLE, weaker=(("nvml", weak),))


def starved(busy: float, all_cores: bool, host_cores: int) -> Cause:
    """The CPU doesn't prepare work fast enough: one core is busy with it, or all there are."""

    def apply(draft: Draft) -> None:
        cores = host_cores / draft.plan.per_node * 0.98 if all_cores else 1.0
        draft.own.insert(0, draft.column(IDLE._replace(cores=cores), (1 / busy - 1) * _step(draft)))
        for number, kind in enumerate(list(draft.kinds)):
            for column in draft.own if kind.engine else ():
                column.kind[column.kind == number] = draft.index(kind._replace(cores=cores))

    may = LITTLE | {"gaps", "cpu_starved"}
    name = "cpu_starved" if all_cores else "one_core"
    return Cause(name, "cpu_starved" if all_cores else "cpu_starved|gaps", apply, may)


def launches(busy: float) -> Cause:
    """Short kernels with idle time between: launching one takes longer than running it."""

    def apply(draft: Draft) -> None:
        def thinned(kind: Kind) -> Kind:
            scaled = {name: getattr(kind, name) * busy for name in Kind._fields[:14]}
            return kind._replace(**scaled)

        draft.alter(thinned, slice(None), slice(None))
        draft.slow(1 / busy, slice(None))

    return Cause("launches", "gaps|cpu_starved", apply, LITTLE | {"small_kernels"})  # it is one core that launches


# What runs on the GPU


_NVML_SMALL = "small_kernels|low_use|little_arithmetic|communication_bound"
KERNELS: dict[str, tuple[Kind, str, str]] = {
    "one_sm": (Kind(1.0, 0.0077, 0.0005, fp32=0.0012, integer=0.001, dram=0.002), "small_kernels", _NVML_SMALL),
    "few_blocks": (Kind(0.96, 0.14, 0.03, fp32=0.03, fp16=0.005, integer=0.03, dram=0.06), "small_kernels", _NVML_SMALL),
    "few_warps": (Kind(0.96, 0.4, 0.08, fp32=0.09, integer=0.08, dram=0.16), "low_occupancy|small_kernels", ""),
    "thrashing": (
        Kind(1.0, 0.93, 0.5, fp32=0.018, integer=0.03, dram=0.06, host_rx=0.21, host_tx=0.18), "unified_memory", "",
    ),
    "whole_numbers": (Kind(0.99, 0.92, 0.3, fp32=0.008, integer=0.12, dram=0.06), "little_arithmetic", ""),
}  # fmt: skip
"""Kernels that leave most of the GPU unused: what has to be said of them, and where NVML is all there is."""


def kernels(name: str) -> Cause:
    """The job's own kernels are of such a kind: what better ones would save, nobody knows."""
    kind, says, weak = KERNELS[name]

    def apply(draft: Draft) -> None:
        draft.alter(lambda _: kind, slice(None), slice(None))

    may = LITTLE | {"little_arithmetic"} | ({"transfer_bound"} if kind.host_rx else set())
    return Cause(name, says, apply, may, always=True, unpriced=True, weaker=(("nvml", weak),))


NOW_AND_THEN = Kind(engine=0.2, sm=0.13, occupancy=0.04, tensor=0.03, fp32=0.01, dram=0.09, integer=0.02)


def few_requests() -> Cause:
    """A server that has little to do, at random."""

    def apply(draft: Draft) -> None:
        draft.alter(lambda _: NOW_AND_THEN, slice(None), slice(None))
        idle = draft.rng.exponential(1.0, draft.variants)  # of all alike, but at different times
        own = np.stack([draft.rng.permutation(idle) for _ in range(draft.n)], axis=1)
        draft.own.append(draft.column(IDLE._replace(cores=0.2), own))

    return Cause(
        "few_requests",
        "low_use|gaps|small_kernels",
        apply,
        LITTLE | UNEVEN | {"gaps", "pauses"},
        always=True,
        unpriced=True,
    )


def memory(share: float) -> Cause:
    code = "memory_full" if share > 0.5 else "memory_unused"

    def apply(draft: Draft) -> None:
        draft.memory = np.full(draft.n, share) * draft.rng.uniform(0.9995, 1.0, draft.n)

    return Cause(code, code, apply, always=True, unpriced=True)


def power_capped(clock: float) -> Cause:
    """The power limit holds all clocks down a little, as is usual under full load."""

    def apply(draft: Draft) -> None:
        draft.alter(lambda kind: kind._replace(clock=clock, reasons=4), slice(None), slice(None))

    return Cause("power_capped", "power_capped", apply, always=True, unpriced=True)
