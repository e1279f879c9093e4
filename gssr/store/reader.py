"""Reading recordings."""

from typing import NamedTuple


class Run(NamedTuple):
    """One row of ``runs``; every column as schema.TABLES says, None where NULL. ``command`` is the list of arguments."""

    run_id: str
    label: str | None
    command: tuple[str, ...]
    job_id: str | None
    step_id: str | None
    launcher: str | None
    cluster: str | None
    user: str | None
    started_at: float | None
    ended_at: float | None
    sampling_ms: float | None
    exit_code: int | None
    state: str
    world_size: int | None
    n_nodes: int | None
    gssr_version: str | None


class Event(NamedTuple):
    """One row of ``events``."""

    time: float
    node: str | None
    gpu: int | None
    rank: int | None
    kind: str
    message: str
