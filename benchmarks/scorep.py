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
    import otf2

    with otf2.writer.open(str(folder), timer_resolution=1_000_000_000) as trace:
        own, enums = trace.definitions, otf2.enums
        node = own.system_tree_node("node0", "node")
        groups = [own.location_group(f"MPI Rank {rank}", system_tree_parent=node) for rank in range(RANKS)]
        ranks = [own.location("Master thread", group=group) for group in groups]
        kinds, mpi = enums.GroupType, enums.Paradigm.MPI
        own.group("", group_type=kinds.COMM_LOCATIONS, paradigm=mpi, members=ranks)
        world = own.comm("world", own.group("", kinds.COMM_GROUP, mpi, members=list(range(RANKS))))
        compute = [own.region(f"compute {at}", paradigm=enums.Paradigm.USER) for at in range(10)]
        calls = [own.region(name, paradigm=mpi) for name in ("MPI_Isend", "MPI_Recv", "MPI_Allreduce")]
        for rank, location in enumerate(ranks):
            write = trace.event_writer_from_location(location)
            for number in range(ROUNDS):
                at = 100_000 * number
                outer, inner = compute[number % 10], compute[(number + 3) % 10]
                write.enter(at, outer)
                write.enter(at + 10_000, inner)
                write.leave(at + 50_000, inner)
                write.leave(at + 60_000, outer)
                write.enter(at + 60_000, calls[0])
                write.mpi_isend(at + 61_000, (rank + 1) % RANKS, world, 1, 4096, number)
                write.leave(at + 62_000, calls[0])
                write.enter(at + 62_000, calls[1])
                write.mpi_recv(at + 70_000, (rank - 1) % RANKS, world, 1, 4096)
                write.leave(at + 71_000, calls[1])
                write.enter(at + 71_000, calls[2])
                write.mpi_collective_begin(at + 71_000)
                write.mpi_collective_end(at + 90_000, enums.CollectiveOp.ALLREDUCE, world, 0, 8, 8)
                write.leave(at + 91_000, calls[2])


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
