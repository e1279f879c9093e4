"""How ranks agree at a hostengine: what the one that samples for all hands on, to itself with more GPUs and to others."""

from collections.abc import Sequence

import pytest

from gssr.backends.base import AtEngine, BackendChange, BackendError, Device, News, OpenedBackend, Row
from gssr.profile.sampling import engine_share
from gssr.profile.sampling.claims import Claims
from gssr.profile.sampling.engine_share import EngineShare, UsedGpu
from tests.waiting import until

A, B = Device(0, "GPU-a"), Device(0, "GPU-b")


class Scripted:
    """A backend that gives the rows and news it was given. ``last`` comes when it is closed."""

    name = "dcgm"
    measures: Sequence[str] = ("sm_active",)

    def __init__(self, gpus: Sequence[Device]) -> None:
        self.gpus = gpus
        self.rows: list[Row] = []
        self.news: list[News] = []
        self.last: list[Row] = []
        self.closed = False

    def sample(self, now: float) -> Sequence[Row]:
        del now
        rows, self.rows = self.rows, []
        return rows

    def changes(self) -> Sequence[News]:
        news, self.news = self.news, []
        return news

    def close(self) -> Sequence[Row]:
        self.closed = True
        return [*self.rows, *self.last]


@pytest.fixture
def opened(monkeypatch) -> list[Scripted]:
    """The backends that were opened, in their order."""
    backends: list[Scripted] = []

    def open_one(_spec: str, chosen: dict[str, Device], _seconds: float) -> OpenedBackend:
        backends.append(Scripted(tuple(chosen.values())))
        return OpenedBackend(backends[-1])

    monkeypatch.setattr(engine_share, "open_at_engine", open_one)
    return backends


@pytest.fixture
def rank(tmp_path):
    """Makes a rank's share: of a GPU whose name in the engine is its UUID."""
    tmp_path.chmod(0o700)

    def make(number: int, device: Device, n_workloads: int = 1) -> tuple[Claims, EngineShare]:
        claims = Claims("n", "r", {"XDG_RUNTIME_DIR": str(tmp_path)})
        at_engine = AtEngine("dcgm", {device.uuid: device.uuid})
        return claims, EngineShare(claims, number, [device], at_engine, 0.1, lambda: n_workloads)

    return make


def looked(share: EngineShare, condition, now: float = 0.0) -> None:
    until(lambda: (share.look(now), condition())[1])


def test_a_backend_on_more_gpus_takes_over_without_a_gap_and_without_a_sample_twice(opened, rank, monkeypatch):
    monkeypatch.setattr(engine_share, "OVERLAP_SECONDS", 0.1)
    _, share = rank(0, A)
    looked(share, lambda: share.offer)
    opened[0].rows = [(0, 1.0), (0, 1.1)]
    assert share.sample(0.0)[0] == [(0, 1.0), (0, 1.1)]
    claims, late = rank(1, B)
    late.look(0.0)
    assert late.offer is not None and late.offer.measures == ["sm_active"] and not late.samples_for_node
    looked(share, lambda: len(opened) == 2)
    assert [gpu.uuid for gpu in opened[1].gpus] == ["GPU-a", "GPU-b"] and not opened[0].closed
    opened[0].rows, opened[0].last = [(0, 1.2)], [(0, 1.3)]
    opened[1].rows = [(0, 1.21), (1, 1.22), (0, 1.31), (0, 1.41), (1, 1.32)]
    looked(share, lambda: opened[0].closed)
    assert share.take_new_gpus() == [UsedGpu(1, B)] and share.n_sampled == 2
    rows, _ = share.sample(0.0)
    assert rows == [(0, 1.2), (0, 1.3), (1, 1.22), (0, 1.41), (1, 1.32)]
    claims.close()
    share.look(1.45)
    opened[1].rows = [(1, 1.42), (1, 1.52), (0, 1.51)]
    opened[1].news = [BackendChange("gpu_lost", 1, "of nobody"), BackendChange("gpu_lost", 0, "of rank 0")]
    assert share.sample(0.0) == ([(1, 1.42), (0, 1.51)], [BackendChange("gpu_lost", 0, "of rank 0")])


def test_the_first_opening_waits_for_the_ranks_whose_workloads_run(opened, rank):
    _, share = rank(0, A, n_workloads=2)
    for _ in range(5):
        share.look(0.0)
    assert not opened
    _, other = rank(1, B)
    other.look(0.0)
    looked(share, lambda: share.offer)
    assert [gpu.uuid for gpu in opened[0].gpus] == ["GPU-a", "GPU-b"] and len(opened) == 1


def test_another_rank_takes_over_from_one_that_ends(opened, rank):
    claims, first = rank(0, A)
    looked(first, lambda: first.offer)
    _, second = rank(1, B)
    second.look(0.0)
    first.close()
    claims.close()
    looked(second, lambda: second.n_sampled)
    assert [gpu.uuid for gpu in opened[-1].gpus] == ["GPU-b"] and opened[0].closed
    assert ["sampled by this rank from now on" in news.message for news in second.sample(0.0)[1]] == [True]


def test_what_an_engine_refuses_is_told_to_all_ranks(rank, monkeypatch):
    def refuse(*_):
        raise BackendError("no room")

    monkeypatch.setattr(engine_share, "open_at_engine", refuse)
    _, first = rank(0, A)
    looked(first, lambda: first.offer)
    _, second = rank(1, B)
    second.look(0.0)
    assert first.offer.error == second.offer.error == "no room"
