"""Reading archives of Score-P, written with the package otf2; beside that package's own callbacks, all empty, and beside
callbacks as bare as ctypes lets them be, which do nothing either, on the same archive.

What is measured is this module as a process: ``python -m benchmarks.scorep empty|bare|read FOLDER`` or ``make FOLDER``.
"""

import statistics
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.processes import CACHE, PYTHON, Cost, median, run
from benchmarks.table import Figure

RANKS, ROUNDS, PER_ROUND = 8, 20_000, 14
SHARE_OF_EMPTY = 0.7


def make(folder: Path) -> None:
    """Ranks in a ring: each round computes, sends to the next, receives from the one before, and reduces."""
    from tests.fakes.scorep import otf2_archive
    from tests.fakes.scorep.program import Comm, Location, Program, Record, Region

    regions = [Region(f"compute {at}", "USER") for at in range(10)]
    isend, recv, reduce = range(len(regions), len(regions) + 3)
    regions += [Region(name, "MPI") for name in ("MPI_Isend", "MPI_Recv", "MPI_Allreduce")]
    events: dict[int, list[Record]] = {}
    for rank in range(RANKS):
        after, before, records = (rank + 1) % RANKS, (rank - 1) % RANKS, list[Record]()
        for number in range(ROUNDS):
            at, outer, inner = 100_000 * number, number % 10, (number + 3) % 10
            records += [
                (at, "enter", outer), (at + 10_000, "enter", inner),
                (at + 50_000, "leave", inner), (at + 60_000, "leave", outer),
                (at + 60_000, "enter", isend), (at + 61_000, "send", after, 0, 1, 4096, number),
                (at + 62_000, "leave", isend), (at + 62_000, "enter", recv),
                (at + 70_000, "recv", before, 0, 1, 4096, None), (at + 71_000, "leave", recv),
                (at + 71_000, "enter", reduce), (at + 71_000, "coll_begin"),
                (at + 90_000, "coll_end", "ALLREDUCE", 0, None, 8, 8), (at + 91_000, "leave", reduce),
            ]  # fmt: skip
        events[rank] = records
    locations = [Location(rank, rank, 0, "Master thread") for rank in range(RANKS)]
    world = Comm(0, "world", tuple(range(RANKS)))
    otf2_archive.write(folder, Program(RANKS, locations, [world], events, [0] * RANKS, regions, ()))


def figures(repeats: int) -> Iterator[Figure]:
    """By turns, each as a process of its own; nothing where the package otf2 is not there."""
    folder = CACHE / f"scorep-{RANKS}-{ROUNDS}"
    with suppress(ImportError):
        import otf2  # noqa: F401

        if not folder.exists():
            run((PYTHON, "-m", "benchmarks.scorep", "make", folder.with_name("part")))
            folder.with_name("part").rename(folder)
        costs: dict[str, list[Cost]] = {name: [] for name in ("empty", "bare", "read")}
        for _ in range(repeats):
            for name, some in costs.items():
                some.append(run((PYTHON, "-m", "benchmarks.scorep", name, folder)))
        n = RANKS * ROUNDS * PER_ROUND
        rates = {name: n / median(some).cpu for name, some in costs.items()}
        shares = [empty.cpu / read.cpu for empty, read in zip(costs["empty"], costs["read"], strict=True)]
        case = f"traces, {n / 1e6:.2g} M events of Score-P"
        yield Figure(f"{case}: read: CPU", median(costs["read"]).cpu, "s")
        yield Figure(
            f"{case}: rate, times that of empty callbacks", statistics.median(shares), "", SHARE_OF_EMPTY, True
        )
        yield Figure(f"{case}: rate, times that of bare callbacks", rates["read"] / rates["bare"], "")


def _empty(folder: str) -> None:
    import _otf2

    def nothing() -> Any:
        return lambda *_: _otf2.CALLBACK_SUCCESS

    kept, places = [], list[int]()
    reader = _otf2.Reader_Open(f"{folder}/traces.otf2")
    _otf2.Reader_SetSerialCollectiveCallbacks(reader)
    callbacks = _otf2.GlobalDefReaderCallbacks_New()

    def location(_data: Any, place: int, *_: Any) -> None:
        places.append(place)

    _otf2.GlobalDefReaderCallbacks_SetLocationCallback(callbacks, location)
    definitions = _otf2.Reader_GetGlobalDefReader(reader)
    _otf2.Reader_RegisterGlobalDefCallbacks(reader, definitions, callbacks, None)
    _otf2.Reader_ReadAllGlobalDefinitions(reader, definitions)
    for place in places:
        _otf2.Reader_SelectLocation(reader, place)
    _otf2.Reader_OpenEvtFiles(reader)
    for place in places:
        _otf2.Reader_GetEvtReader(reader, place)
    events = _otf2.Reader_GetGlobalEvtReader(reader)
    callbacks = _otf2.GlobalEvtReaderCallbacks_New()
    for name in ("Enter", "Leave", "MpiIsend", "MpiRecv", "MpiCollectiveBegin", "MpiCollectiveEnd"):
        kept.append(nothing())
        getattr(_otf2, f"GlobalEvtReaderCallbacks_Set{name}Callback")(callbacks, kept[-1])
    _otf2.Reader_RegisterGlobalEvtCallbacks(reader, events, callbacks, None)
    assert _otf2.Reader_ReadAllGlobalEvents(reader, events) == RANKS * ROUNDS * PER_ROUND


def _bare(folder: str) -> None:
    from gssr.traces.otf2 import events as otf2_events

    class Bare(otf2_events.Otf2Reader):
        def _functions(self) -> dict[str, Any]:
            def enter(_l: int, _t: int, _p: int, _u: int, _a: int, _region: int) -> int:
                return 0

            others = {name: (lambda *_: 0, fields) for name, (_, fields) in super()._functions().items()}
            return others | {"Enter": (enter, "i"), "Leave": (enter, "i")}

    archive = Bare(f"{folder}/traces.otf2", lambda *_: None)
    archive.read([row[0] for row in archive.definitions()["Location"]], 10**9)


def _read(folder: str) -> None:
    from gssr.traces.otf2.archive import read_otf2

    assert read_otf2(folder).sources[0].n_events == RANKS * ROUNDS * PER_ROUND


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        {"empty": _empty, "bare": _bare, "read": _read}[sys.argv[1]](sys.argv[2])
