"""Rules about whether, and from when to when, the GPUs are used at all."""

import numpy as np

from gssr.arrays import Flags, Floats
from gssr.model.evidence.evidence import over_gpus
from gssr.model.evidence.gather import MOVED
from gssr.model.verdicts import words
from gssr.model.verdicts.job import Job, group, levels_of, positions, stretches, whole
from gssr.model.verdicts.table import CSCS, LEAD, Found, Rule, Threshold, finding, rule, told

_CHANCE = 2.5
"""A correlation of so many standard errors is hardly one by chance."""
_COMPLETED, _GOING_ON = ("completed",), ("running", "lost")
_LET = (
    " the program use all it gets: check the ranks per node, CUDA_VISIBLE_DEVICES and the launcher's GPU binding "
    "(srun --ntasks-per-node=4 --gpus-per-task=1 nvidia-smi -L)."
)
_STILL = "The job still runs: look at the last lines of its output. It may wait for data, write a checkpoint, or hang."
_NO_GPU = (
    "Is the program built for GPUs, and does it find them? Try within the job: nvidia-smi; python -c 'import torch; "
    "print(torch.cuda.is_available())'. Work that needs no GPU runs as well on a node without."
)
_HELD = (
    "The program found these GPUs, as the memory in use shows, and computes nothing on them: it may wait for its first step "
    "(py-spy dump --pid PID shows where), for requests, or compute on the CPU (model or data not moved to the device)."
)


@rule(
    "critical", "{some} {were} {ever} used",
    (
        Threshold("seconds", 20.0, "a GPU is unused (as above) in a job of at least so many seconds"),
        Threshold("memory", 1e9, "where each has more bytes in use than a driver takes, the program found them"),
    ),
    f"Ask for fewer GPUs, or let{_LET}",
    needs=(LEAD,),
    explains=("imbalance", "straggler", "rotating_stragglers", "memory_unused", "low_use", "tear_down", "start_up"),
)  # fmt: skip
def gpus_unused(job: Job, rule: Rule) -> Found | None:
    """k of n GPUs do nothing."""
    unused = positions(job.known & ~job.used)
    if not unused or job.evidence.seconds < rule.at("seconds"):
        return None
    own = job.activity[list(unused)]
    busy = float((own >= job.common("idle")).sum() / max(np.isfinite(own).sum(), 1))
    evidence = [finding("share", busy, "of the time with any activity", job.table.common, "unused", above=False)]
    found, n = {**group(job, unused), "ever": "never"}, job.evidence.n_gpus
    advice = f"Ask for fewer GPUs (#SBATCH --gpus={n - len(unused)}), or let{_LET}"
    if len(unused) == n:
        advice = _NO_GPU
        if n > 1:
            found |= {"some": f"None of the {n} GPUs", "were": "was", "ever": "ever"}
    greatest = job.evidence.greatest.get("memory_used")
    held = np.nan if greatest is None else float(greatest[list(unused)].min())
    if held >= rule.at("memory"):
        text = f"at least {words.amount(held, 'memory_used')} in use on each"
        evidence.append(told("memory_used", held, text, rule.at("memory")))
        advice = _HELD
    return Found(found, tuple(evidence), rule.severity, whole(job), unused, advice=advice, lost=len(unused) / n)


@rule(
    "critical", "Nothing has happened for the last {idle}: the job looks hung{who}",
    (
        Threshold("seconds", 120.0, "no GPU works at the end for at least so long, and the job has not completed"),
        Threshold("ended", 45.0, "of a job that has ended otherwise, for at least so long"),
        Threshold("longest", 2.0, "that is so many times the longest pause before"),
        Threshold("quiet", 100e6, "meanwhile disks and network of all nodes move less than this more than usual"),
    ),
    "Look at the last lines of its output and at one process of it (py-spy dump, gdb): a rank that died or a collective "
    "that not all ranks entered. Stop the job if it does not go on.",
    needs=(LEAD,),
    delays=("tear_down", "pauses", "slow_down", "low_use", "early_end", "cpu_starved", "imbalance", "straggler",
            "communication_bound", "low_power", "small_kernels", "little_arithmetic", "start_up", "taking_turns",
            "rotating_stragglers", "late_start", "low_occupancy"),
)  # fmt: skip
def hang(job: Job, rule: Rule) -> Found | None:
    """No GPU works up to the end of a job that has not completed, nor do disks or network: kernels that spin in a
    collective are no work. A job whose GPUs do nothing but spin hangs from their first kernel on."""
    evidence = job.evidence
    if evidence.state in _COMPLETED or not job.used.any():
        return None
    active = np.flatnonzero(job.alive.any(axis=0))
    started = np.flatnonzero((job.activity[job.used] >= job.common("idle")).any(axis=0))
    if not len(started) or (not len(active) and not job.still[:, started].any()):
        return None
    first = int(active[-1]) + 1 if len(active) else int(started[0])
    first = max(first, _last_moved(job, first, rule.at("quiet")))
    if first >= len(evidence.times):
        return None
    last = float(np.nanmax(evidence.last_time)) if np.isfinite(evidence.last_time).any() else evidence.end
    since = float(evidence.times[first])
    idle = min(last, evidence.end) - since
    longest = 0
    if len(active) and np.isfinite(job.level):
        before = ~(job.mean[: active[-1] + 1] >= job.common("working") * job.level)
        longest = max((end - begin for begin, end in stretches(before) if begin > active[0]), default=0)
    least = rule.at("seconds" if evidence.state in _GOING_ON else "ended")
    if idle < max(least, rule.at("longest") * longest * evidence.width):
        return None
    bins = evidence.times >= since - evidence.width / 2
    findings = [finding("seconds", idle, "without work", rule, "seconds")]
    who, culprits = _out_of_step(job, bins)
    alive = evidence.workload.get("n_processes")
    if alive is not None and np.isfinite(alive).any():
        running = float(alive[np.isfinite(alive)][-1])
        findings.append(told("n_processes", running, f"{running:.0f} processes of a rank still there"))
    words_ = {"idle": words.duration(idle), "who": who}
    lost = (evidence.end - since) / evidence.seconds
    return Found(words_, tuple(findings), rule.severity, (since, evidence.end), culprits, bins, lost=lost)


def _last_moved(job: Job, first: int, quiet: float) -> int:
    """The bin after the last one from ``first`` on in which disks or network of all nodes together move ``quiet`` B/s more
    than while the job works, on average over that bin and its neighbours; 0 without."""
    extra = np.zeros(len(job.mean))
    for name in MOVED:
        rate = job.evidence.host.get(name)
        if rate is not None:
            usual = rate[:first][np.isfinite(rate[:first])]
            extra += np.nan_to_num(rate - (float(np.median(usual)) if len(usual) else 0.0))
    smooth = np.convolve(extra, np.ones(3) / 3, "same")[: len(extra)] * max(len(job.evidence.nodes), 1)
    moved = np.flatnonzero(smooth[first:] >= quiet)
    return first + int(moved[-1]) + 1 if len(moved) else 0


def _out_of_step(job: Job, bins: Flags) -> tuple[str, tuple[int, ...]]:
    """Which few GPUs idle while the others' engines spin, or the other way round, as a clause; empty where all are alike."""
    name = "gr_engine_active" if job.evidence.has("gr_engine_active") else job.lead or ""
    engine = np.where(job.used, job.per_gpu(name, bins), np.nan)
    spins, idles = engine >= 0.5, engine < 0.1
    few, says = (
        (idles, "idle while the others spin") if 2 * idles.sum() <= spins.sum() else (spins, "busy and nobody else")
    )
    which = positions(few)
    if not which or not spins.any() or not idles.any() or 2 * len(which) > job.used.sum():
        return "", ()
    verb = "is" if len(which) == 1 else "are"
    return f"; {words.named(job.evidence.gpus, which)} {verb} {says}", which


@rule(
    "warning", "The GPUs take turns: while {some} work, the others wait, {lost} of the GPUs' time in all",
    (
        Threshold("seconds", 5.0, "looked at in columns of at least so many seconds"),
        Threshold("apart", -0.3, "two groups of GPUs work at opposite times: their correlation is below this", least=-1.0),
        Threshold("together", 0.3, "and within each group it is above this"),
        Threshold("all", 0.8, "and so many of the GPUs belong to one of them"),
        Threshold("at_once", 0.2, "in less of the time both work at once: any that work for half of it do in 0.25"),
        Threshold("turns", 4.0, "they change so many times at least"),
        Threshold("lost", 0.1, "and each waits for at least this share of its time"),
        Threshold("critical", 0.4, "from this share on it is critical"),
    ),
    "Let the stages overlap (asynchronous generation and training, more micro-batches in flight, another split of layers), "
    "or run them one after the other on all GPUs.",
    needs=(LEAD,), explains=("recurring_dips",),
    delays=("rotating_stragglers", "imbalance", "straggler", "pauses", "gaps", "low_use", "slow_down",
            "late_start", "early_end", "cpu_starved", "communication_bound", "low_power", "small_kernels", "low_occupancy"),
)  # fmt: skip
def taking_turns(job: Job, rule: Rule) -> Found | None:
    """Groups of GPUs work at opposite times (generation and training, alternating stages)."""
    n_used, job = int(job.used.sum()), job.closer
    values = job.columns(rule.at("seconds"))
    n, columns = values.shape
    if n < 2 or columns < 2 * rule.at("turns"):
        return None
    centred = np.nan_to_num(values - over_gpus(values.T)[:, None])
    spread = np.sqrt((centred**2).mean(axis=1))
    centred /= np.where(spread > 0, spread, np.inf)[:, None]
    reference = centred[int(np.argmax(spread))]
    alike = centred @ reference / columns
    chance = _CHANCE / np.sqrt(columns)
    mine, theirs = alike >= max(rule.at("together"), chance), alike <= min(rule.at("apart"), -chance)
    if not theirs.any() or (mine | theirs).mean() < rule.at("all"):
        return None
    one, other = centred[mine].mean(axis=0), centred[theirs].mean(axis=0)
    turns = int(np.count_nonzero(np.diff(np.sign(one - other))))
    # Less the mean of all, any two halves go opposite ways: nodes, too, whose samples show other parts of the same steps.
    both = np.stack([over_gpus(values[group]) for group in (mine, theirs)])
    reached = both >= job.common("working") * levels_of(both, job.common("working"), job.common("idle"))[:, None]
    if reached.all(axis=0).mean() >= rule.at("at_once"):
        return None
    levels = levels_of(values, job.common("working"), job.common("idle"))
    idle = over_gpus(np.clip(1 - values / levels[:, None], 0.0, 1.0).T)
    lost = float(np.nanmean(idle))
    if turns < rule.at("turns") or min(lost, np.nanmean(idle[mine]), np.nanmean(idle[theirs])) < rule.at("lost"):
        return None
    few = mine if 2 * mine.sum() <= n else theirs
    which = positions(job.used)
    some = words.named(job.evidence.gpus, [which[at] for at in np.flatnonzero(few)])
    length = columns * max(rule.at("seconds"), job.evidence.width) / (turns + 1)
    evidence = (
        told("correlation", float((one @ other) / columns), "their activities go opposite ways", rule.at("apart")),
        told("seconds", length, f"a turn lasts {words.duration(length)}"),
        finding("share", lost, "of their time", rule, "lost"),
    )
    told_by = f"some of {n_used:,}" if n < n_used else some
    return Found({"some": told_by, "lost": words.percent(lost)}, evidence, rule.graded(lost), job.span, lost=lost)


@rule(
    "info", "The first {idle} ({share} of the time) went by before the GPUs worked",
    (
        Threshold("share", 0.05, "at least this share of the time passes before the GPUs work"),
        Threshold("seconds", 5.0, "and at least so many seconds"),
        Threshold("warning", 0.2, "from this share on it is a warning"),
        Threshold("critical", 0.5, "from this share on it is critical", CSCS),
    ),
    "Stage data and environments to node-local storage, cache compiled kernels, and do preparation that needs no GPU in "
    "a job of its own.",
    needs=(LEAD,), explains=("low_use",),
)  # fmt: skip
def start_up(job: Job, rule: Rule) -> Found | None:
    """The whole job begins late."""
    return _idle_end(job, rule, job.evidence.start, job.span[0])


@rule(
    "info", "The GPUs did nothing in the last {idle} ({share} of the time)",
    (
        Threshold("share", 0.05, "the GPUs do nothing in at least this share of the time, at its end"),
        Threshold("seconds", 5.0, "and for at least so many seconds"),
        Threshold("warning", 0.2, "from this share on it is a warning"),
        Threshold("critical", 0.5, "from this share on it is critical"),
    ),
    "Let the job end when its work is done; move what needs no GPU (output, evaluation on the CPU) to a job of its own.",
    needs=(LEAD,), explains=("low_use",),
)  # fmt: skip
def tear_down(job: Job, rule: Rule) -> Found | None:
    """The whole job stops working before it ends."""
    found = _idle_end(job, rule, job.span[1], job.evidence.end)
    return found._replace(advice=_STILL) if found and job.evidence.state in _GOING_ON else found


def _idle_end(job: Job, rule: Rule, start: float, end: float) -> Found | None:
    share = (end - start) / job.evidence.seconds if job.evidence.seconds > 0 else 0.0
    if not np.isfinite(job.level) or share < rule.at("share") or end - start < rule.at("seconds"):
        return None
    evidence = (finding("share", share, "of the time", rule, "share"),)
    times = job.evidence.times
    bins = (times >= start - job.evidence.width / 2) & (times < end)
    found = {"idle": words.duration(end - start), "share": words.percent(share)}
    return Found(found, evidence, rule.graded(share), (start, end), (), bins, lost=share)


@rule(
    "warning", "{some} began to work {late} after the others",
    (
        Threshold(
            "share", 0.05, "a GPU begins later than the first quarter of them by at least this share of the time"
        ),
        Threshold("seconds", 5.0, "and by at least so many seconds"),
    ),
    "See what these nodes did meanwhile: a slow file system, an image being pulled, a rank waiting for its data.",
    needs=(LEAD,),
)  # fmt: skip
def late_start(job: Job, rule: Rule) -> Found | None:
    """Some GPUs begin after the others."""
    begin = job.own_span[0]
    return _not_together(job, rule, begin, _at_share(begin, 0.25), "late")


@rule(
    "warning", "{some} stopped working {early} before the others",
    (
        Threshold(
            "share", 0.05, "a GPU stops earlier than the last quarter of them by at least this share of the time"
        ),
        Threshold("seconds", 5.0, "and by at least so many seconds"),
    ),
    "Look for a rank that died, or share the work out in smaller pieces so that all end together.",
    needs=(LEAD,),
)  # fmt: skip
def early_end(job: Job, rule: Rule) -> Found | None:
    """Some GPUs stop before the others."""
    end = job.own_span[1]
    return _not_together(job, rule, end, _at_share(end, 0.75), "early")


def _at_share(values: Floats, share: float) -> float:
    """A quartile of what is not NaN: one of the values."""
    known = np.sort(values[np.isfinite(values)])
    return float(known[round(share * (len(known) - 1))]) if len(known) else np.nan


def _not_together(job: Job, rule: Rule, edge: Floats, usual: float, word: str) -> Found | None:
    """GPUs whose begin or end of work, ``edge`` [n_gpus], is far from that of the quarter that begins first or ends last."""
    apart = edge - usual if word == "late" else usual - edge
    least = max(rule.at("share") * job.evidence.seconds, rule.at("seconds"), 3.5 * job.evidence.width)
    which = positions(np.nan_to_num(apart) >= np.maximum(least, 2 * _longest_rest(job)))
    if not which or not _idler_meanwhile(job, edge, usual, which):
        return None
    seconds = float(np.median(apart[list(which)]))
    share = seconds / job.evidence.seconds
    evidence = (
        finding("seconds", seconds, "apart from the others", rule, "seconds"),
        finding("share", share, "of the time", rule, "share"),
    )
    own = float(np.median(edge[list(which)]))
    span = (min(usual, own), max(usual, own))
    found = {**group(job, which), word: words.duration(seconds)}
    lost = float(apart[list(which)].sum()) / job.evidence.n_gpus / job.evidence.seconds
    return Found(found, evidence, rule.severity, span, which, lost=lost)


def _longest_rest(job: Job) -> Floats:
    """[n_gpus]: the longest time, s, in which each GPU does little between its begin and its end: what rests for so long now
    and then begins and ends by chance."""
    rests = job.comparable & (job.activity < job.common("working") * job.gpu_levels[:, None])
    longest = [max((end - first for first, end in stretches(row)), default=0) for row in rests]
    return np.array(longest, np.float64) * job.evidence.width


def _idler_meanwhile(job: Job, edge: Floats, usual: float, which: tuple[int, ...]) -> bool:
    """Whether these GPUs did less than a quarter of what the others did between the ``usual`` begin (end) and their own:
    where all work in fits and starts, begins differ by chance."""
    times, width = job.evidence.times, job.evidence.width
    own = edge[list(which)]
    first, last = np.minimum(own, usual)[:, None], np.maximum(own, usual)[:, None]
    between = (times >= first - width / 2) & (times + width <= last + width / 2)
    rest = np.setdiff1d(np.flatnonzero(job.used), which)
    others = np.broadcast_to(over_gpus(job.activity[rest]), between.shape)
    mine = job.activity[list(which)]
    both = between & np.isfinite(mine) & np.isfinite(others)
    return bool(mine[both].sum() < job.common("paused") * others[both].sum())
