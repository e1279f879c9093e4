"""How the hosts stand that one screen or table shows, and the job that they work on, in words and marks."""

from __future__ import annotations

from gssr.render.cells import clean, flow
from gssr.render.clock import duration
from gssr.render.glyphs import Glyphs
from gssr.render.roles import Role, Row, Span
from gssr.render.scale import count, fixed
from gssr.store.host_states import HostState, HostStates, JobState

NEAR_LIMIT = 0.9
"""Memory is told where a cgroup uses at least this share of what it may."""
_LOOKS: dict[str, tuple[str, Role]] = {
    "waiting": ("○", "dim"),
    "live": ("●", "good"),
    "slow": ("◌", "outlier"),
    "gone": ("✗", "bad"),
}
_ASCII = str.maketrans("○●◌✗", ".*ox")
_GIB = 2.0**30


def host_rows(states: HostStates, now: float, width: int, glyphs: Glyphs, most: int | None = None) -> list[Row]:
    """Draw a line about job and hosts, wrapped if need be, and one for each host that is not as it should be.

    ``now``: unix s; ``most``: rows at most, of which the last counts the hosts that are left out; None for all of them.
    At least one of these is shown.
    """
    rows = flow([(piece,) for piece in _pieces(states, now, glyphs)], width, glyphs.ellipsis, indent="  ")
    troubles = [_trouble(host, glyphs) for host in states.hosts if _is_trouble(host)]
    shown = troubles if most is None else troubles[: max(most - len(rows), 1)]
    more = f"  {len(troubles) - len(shown):,} more" if len(shown) < len(troubles) else ""
    for trouble in shown:
        after = more if trouble is shown[-1] else ""
        (row,) = flow([trouble], width - len(after), glyphs.ellipsis)
        rows.append((*row, Span(after)) if after else row)
    return rows


def _pieces(states: HostStates, now: float, glyphs: Glyphs) -> list[Span]:
    """List what there is to say of job and hosts: idle GPUs, and memory near its limit, only where they were measured."""
    all_gone = bool(states.hosts) and all(host.word == "gone" for host in states.hosts)
    pieces = [] if states.job is None else _job(states.job, None if all_gone else now)
    if all_gone and states.job is not None:
        was_seen = any(host.seconds is not None for host in states.hosts)
        why = "no host is left: it is over, or its nodes failed" if was_seen else "none of its hosts can be seen"
        pieces.append(Span(why, "bad"))
    n_gpus = sum(host.n_gpus for host in states.hosts if host.word != "gone")
    if states.n_idle:
        idle = f"{states.n_idle:,} of {count(n_gpus, 'GPU')} idle for {_minutes(states.idle_seconds)}"
        pieces.append(Span(idle, "outlier"))
    pieces.append(Span(f"{count(len(states.hosts), 'host')}:"))
    for word, (mark, role) in _LOOKS.items():
        n = sum(1 for host in states.hosts if host.word == word)
        if n:
            pieces.append(Span(f"{_mark(mark, glyphs)} {n:,} {word}", role))
    if states.job is not None:
        near = [(host, *host.memory) for host in states.hosts if host.memory is not None and host.word != "gone"]
        for host, used, limit in near:
            if used >= NEAR_LIMIT * limit:
                text = f"{host.host}: {fixed(used / _GIB, 1)} of the {fixed(limit / _GIB, 1)} GiB of memory that it may use"
                pieces.append(Span(text, "bad"))
    return pieces


def _job(job: JobState, now: float | None) -> list[Span]:
    """Name a job, its user, and the time left at ``now`` (unix s); None: it has no more use for its time."""
    left = [] if job.ends_at is None or now is None else [Span(f"{_minutes(max(job.ends_at - now, 0.0))} left")]
    return [Span(f"job {clean(job.job_id)}", "title"), Span(f"{clean(job.name)} of {clean(job.user)}"), *left]


def _minutes(seconds: float) -> str:
    """Write a length of time to the minute, rounded down."""
    whole = int(seconds // 60)
    if whole < 60:
        return f"{whole} min"
    return duration(60.0 * whole)


def _is_trouble(host: HostState) -> bool:
    return host.word in ("slow", "gone") or bool(host.reason) or host.n_broken > 0


def _trouble(host: HostState, glyphs: Glyphs) -> Row:
    mark, role = _LOOKS[host.word]
    broken = f"{count(host.n_broken, 'line')} of it could not be read" if host.n_broken else ""
    why = "; ".join(filter(None, (clean(host.reason), broken)))
    return (Span(f"{_mark(mark, glyphs)} {clean(host.host)} {host.word}", role), Span(f": {why}" if why else ""))


def _mark(mark: str, glyphs: Glyphs) -> str:
    return mark.translate(_ASCII) if glyphs.levels.isascii() else mark
