"""The benchmarks can be started, and where tests may be slow each measures something in its smallest setting: no verdict on
figures here."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks import __main__ as entry
from benchmarks import (
    amd,
    analyze,
    busy,
    digests,
    driver,
    engines,
    fleet,
    follow,
    footprint,
    hosts,
    imports,
    large,
    live,
    merge,
    processes,
    rank,
    sampler,
    start,
    table,
    write,
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of benchmarks/.cache."""
    for name, module in list(sys.modules.items()):
        if name.startswith("benchmarks.") and hasattr(module, "CACHE"):
            monkeypatch.setattr(module, "CACHE", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", entry.BENCHMARKS)
def test_every_benchmark_is_there(name: str) -> None:
    assert callable(entry.BENCHMARKS[name].load())


def _large() -> Iterator[table.Figure]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSSR_BENCHMARK_BIG", str(analyze.recording(2, 0.01, 500)))
        patch.setattr(large, "WINDOWS", {"of a part": ("--from", "3", "--to", "0:31", "--gpus", "1")})
        yield from large.measure(repeats=1)


def _live(cache: Path) -> Iterator[table.Figure]:
    with pytest.MonkeyPatch.context() as patch, live.growing(cache, 2) as path:
        patch.setattr(live, "LEAST_UPDATES", 1)
        yield from live.frames(path, 2, (80, 24), 1.0, 0.5)


def _beside_others() -> Iterator[table.Figure]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live, "install", lambda: "no network")
        patch.setattr(live, "SIZES", ((80, 24),))
        yield from live.beside_others(1.0, 0.5)


def _follow(cache: Path) -> Iterator[table.Figure]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MEMORY", str(cache)), ("SCREENS", "1"), ("PRESSES", 1), ("OPENING_LOOKS", 2)):
            patch.setattr(follow, name, value)
        yield from follow.measure([follow.Case(70, 2, 0.2, 3.0, with_screen=10.0)], looks=1)


def _imports(cache: Path) -> Iterator[table.Figure]:
    for kind in imports.KINDS:
        path = str(cache / "made")
        imports.main(["make", kind, path, "300"])
        output = cache / "said"
        processes.run((processes.PYTHON, "-m", "benchmarks.imports", "ours", kind, path), output)
        yield table.Figure(kind, float(output.read_text()), "s")


def _footprint() -> Iterator[table.Figure]:
    """Of an environment into which nothing is installed, as that needs a package index."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(footprint, "_install", lambda _environment, _extra: 0.0)
        yield from footprint.measure(extras=("web",))


SMALL: dict[str, Callable[[Path], Iterator[table.Figure]]] = {
    "start": lambda _: start.measure(repeats=3),
    "rank": lambda _: rank.measure(repeats=1, warm_up=0.5),
    "sampler": lambda _: sampler.measure(gpus=(2,), hertz=(20.0,), seconds=0.5, windows=2, warm_up=0.5),
    "busy": lambda _: busy.measure(seconds=0.5, windows=1, warm_up=0.5),
    "driver": lambda _: driver.measure(seconds=0.5, windows=1, warm_up=0.5, restarts=1, down=0.2),
    "write": lambda _: write.measure(cases=((2, 10),), repeats=1),
    "large": lambda _: _large(),
    "merge": lambda _: merge.measure(ranks=3, minutes=0.5, repeats=1, kills=2),
    "live": _live,
    "live beside others": lambda _: _beside_others(),
    "hosts": lambda _: hosts.measure(n_hosts=2, seconds=1.0, settle=0.5, recorded=6.0),
    "follow": _follow,
    "fleet": lambda _: fleet.measure(10, 0.005, repeats=1),
    "fleet_index": lambda _: fleet.second_look(3),
    "fleet_nodes": lambda _: fleet.simulated_nodes(2),
    "fleet_history": lambda _: fleet.simulated_histories(4),
    "imports": _imports,
    "engines": lambda _: engines.measure(7, 0.005),
    "amd": lambda _: amd.measure(seconds=0.5, windows=1, warm_up=0.5),
    "digests": lambda _: digests.measure(ranks=3),
    "footprint": lambda _: _footprint(),
}
"""Those of which a small setting exists; soak, shared, transparency, truth and on_gpu have tests of their own."""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_measures_something(name: str, cache: Path) -> None:
    figures = list(SMALL[name](cache))
    assert figures
    assert all(figure.value >= 0 for figure in figures), figures
    assert any(figure.value > 0 for figure in figures), figures
    assert not [figure for figure in figures if figure.missed and figure.limit == 0], "what was asked agrees"
