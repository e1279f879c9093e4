"""Profiles of Score-P in CUBE4, made by hand: a call tree, ranks with threads, metrics of all types, in either byte order,
packed or not."""

import io
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

import numpy as np

TYPES = {
    "DOUBLE": "f8",
    "MINDOUBLE": "f8",
    "MAXDOUBLE": "f8",
    "UINT64": "u8",
    "INT64": "i8",
    "UINT32": "u4",
    "INT16": "i2",
}


class Call(NamedTuple):
    """A call, and what it calls."""

    name: str
    paradigm: str = "user"
    role: str = "function"
    calls: tuple["Call", ...] = ()


class Metric(NamedTuple):
    """``values`` [n_nodes, n_locations] in the order of the tree, None of a metric without files; ``only``: the nodes that
    the index has, None for all, in that order."""

    name: str
    type: str
    kind: str
    unit: str
    values: Any
    only: Sequence[int] | None = None


class Location(NamedTuple):
    """A thread, or a stream of a GPU."""

    node: str
    rank: int
    name: str = "Master thread"
    type: str = "thread"


def walk(calls: Sequence[Call], above: int = -1, at: list[int] | None = None) -> Iterator[tuple[int, int, Call]]:
    """Each call's number in the file, that of its caller, and the call."""
    at = at if at is not None else [0]
    for call in calls:
        number = at[0]
        at[0] += 1
        yield number, above, call
        yield from walk(call.calls, number, at)


def blocks(calls: Sequence[Call]) -> list[int]:
    """The numbers of the calls in the order of indexes of inclusive metrics: callees together, then what is below each."""
    below: dict[int, list[int]] = {}
    for number, above, _ in walk(calls):
        below.setdefault(above, []).append(number)

    def deeper(number: int) -> list[int]:
        own = below.get(number, [])
        return [*own, *(each for one in own for each in deeper(one))]

    return [each for root in below[-1] for each in (root, *deeper(root))]


def anchor(calls: Sequence[Call], locations: Sequence[Location], metrics: Sequence[Metric], head: str = "") -> str:
    """The XML."""
    every = list(walk(calls))
    regions = {
        key: at for at, key in enumerate(dict.fromkeys((call.name, call.paradigm, call.role) for *_, call in every))
    }

    def tree(some: Sequence[Call], ids: Iterator[int]) -> str:
        return "".join(
            f'<cnode id="{next(ids)}" calleeId="{regions[call[:3]]}">\n{tree(call.calls, ids)}</cnode>\n'
            for call in some
        )

    def system() -> Iterator[str]:
        number = 0
        for node in dict.fromkeys(location.node for location in locations):
            yield f"<systemtreenode Id='{number}'><name>{escape(node)}</name><class>node</class>\n"
            for rank in dict.fromkeys(location.rank for location in locations if location.node == node):
                yield f"<locationgroup Id='{rank}'><name>P</name><rank>{rank}</rank><type>process</type>\n"
                for at, own in enumerate(one for one in locations if (one.node, one.rank) == (node, rank)):
                    yield f"<location Id='{locations.index(own)}'><name>{escape(own.name)}</name><rank>{at}</rank>"
                    yield f"<type>{own.type}</type></location>\n"
                yield "</locationgroup>\n"
            yield "</systemtreenode>\n"

    listed = "".join(
        f'<metric id="{at}" type="{one.kind}"><disp_name>{one.name}</disp_name><uniq_name>{one.name}</uniq_name>'
        f"<dtype>{one.type}</dtype><uom>{one.unit}</uom><url/><descr>{one.name}</descr></metric>\n"
        for at, one in enumerate(metrics)
    )
    named = "".join(
        f'<region id="{at}" mod="" begin="-1" end="-1"><name>{escape(name)}</name><mangled_name/>'
        f"<paradigm>{paradigm}</paradigm><role>{role}</role><url/><descr/></region>\n"
        for (name, paradigm, role), at in regions.items()
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n{head}<cube version="4.4">\n<attr key="Creator" value="Score-P 8.4"/>\n'
        f"<metrics>{listed}</metrics>\n<program>{named}{tree(calls, iter(range(len(every))))}</program>\n"
        f"<system><systemtreenode Id='99'><name>machine</name><class>machine</class>{''.join(system())}</systemtreenode>"
        "</system>\n</cube>\n"
    )


def files(
    calls: Sequence[Call],
    locations: Sequence[Location],
    metrics: Sequence[Metric],
    order: str = "<",
    packed: bool = False,
) -> dict[str, bytes]:
    """The files in the archive by their names. ``order``: of bytes; ``packed``: values packed with zlib, row by row."""
    found: dict[str, bytes] = {}
    n = len(list(walk(calls)))
    for at, metric in enumerate(metrics):
        if metric.values is None:
            continue
        nodes = list(range(n)) if metric.only is None else list(metric.only)
        places = blocks(calls) if metric.kind == "INCLUSIVE" else list(range(n))
        number = "little" if order == "<" else "big"
        index = np.array([places.index(node) for node in nodes], f"{order}i4").tobytes()
        counts = [(1).to_bytes(4, number), (0).to_bytes(2, number), b"\1", len(nodes).to_bytes(4, number)]  # type: ignore[arg-type]
        found[f"{at}.index"] = b"CUBEX.INDEX" + b"".join(counts) + index
        rows = np.asarray(metric.values)[nodes].astype(order + TYPES[metric.type])
        if packed:
            parts = [zlib.compress(row.tobytes()) for row in rows]
            heads = np.array([[0, 0, len(part)] for part in parts], f"{order}i8").tobytes()
            found[f"{at}.data"] = b"ZCUBEX.DATA" + len(parts).to_bytes(8, number) + heads + b"".join(parts)  # type: ignore[arg-type]
        else:
            found[f"{at}.data"] = b"CUBEX.DATA" + rows.tobytes()
    found["anchor.xml"] = anchor(calls, locations, metrics).encode()
    return found


def archive(parts: dict[str, bytes]) -> bytes:
    """A tar of them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue()


# A solver on 4 ranks with 2 threads each and a GPU, of which rank 2 computes twice as long as the others

SOLVER = (
    Call("solver", calls=(
        Call("MPI_Init", "mpi", "other collective"),
        Call("iterate<double>(std::vector<double>&)", "compiler", calls=(
            Call("!$omp parallel @solve.f90:10", "openmp", "parallel", (
                Call("!$omp do @solve.f90:12", "openmp", "loop"),
                Call("!$omp implicit barrier @solve.f90:40", "openmp", "implicit barrier"),
            )),
            Call("cudaLaunchKernel", "cuda"),
            Call("refine", calls=(Call("refine", calls=(Call("MPI_Isend", "mpi", "point2point"),)),)),
            Call("MPI_Allreduce", "mpi", "all2all"),
        )),
    )),
)  # fmt: skip
RANKS, LATE = 4, 2


def solver() -> tuple[list[Location], list[Metric]]:
    """Its places and metrics, times in s."""
    locations = [
        Location(f"node{rank // 2}", rank, name, kind)
        for rank in range(RANKS)
        for name, kind in (("Master thread", "thread"), ("OMP thread 1", "thread"), ("CUDA[0:7]", "accelerator stream"))
    ]
    names = [call.name for _, _, call in walk(SOLVER)]
    n, n_locations = len(names), len(locations)
    own, visits, sent = np.zeros((n, n_locations)), np.zeros((n, n_locations)), np.zeros((n, n_locations))
    for at, place in enumerate(locations):
        work = 4.0 if place.rank == LATE else 2.0
        if place.name == "Master thread":
            times = [0.001, 0.1, 0.25, 0.01, work, 0.125, 0.0625, 0.03125, 0.015625, 0.5, 4.1 - work]
            visits[:, at] = [1, 1, 10, 40, 40, 40, 1000, 10, 20, 20, 10]
            sent[names.index("MPI_Isend"), at] = 4096 * (place.rank + 1)
        elif place.type == "thread":
            times = [0, 0, 0, 0.01, work, 0.125, 0, 0, 0, 0, 0]
            visits[3:6, at] = 40
        else:
            continue
        own[:, at] = times
    above = {number: caller for number, caller, _ in walk(SOLVER)}
    inclusive = own.copy()
    for number in reversed(range(n)):
        if above[number] >= 0:
            inclusive[above[number]] += inclusive[number]
    each = np.where(visits > 0, inclusive / np.maximum(visits, 1), 0.0)
    calls = [number for number in range(n) if number % 3 != 2]
    misses = inclusive * 1000
    misses[2, :] -= 5000  # what was counted less around its callees than in them
    metrics = [
        Metric("visits", "UINT64", "EXCLUSIVE", "occ", visits),
        Metric("time", "DOUBLE", "INCLUSIVE", "sec", inclusive),
        Metric("min_time", "MINDOUBLE", "EXCLUSIVE", "sec", each * 0.5),
        Metric("max_time", "MAXDOUBLE", "EXCLUSIVE", "sec", each * 2),
        Metric("bytes_sent", "UINT64", "EXCLUSIVE", "bytes", sent, only=[names.index("MPI_Isend")]),
        Metric("io_bytes_read", "UINT64", "EXCLUSIVE", "bytes", None),
        Metric("PAPI_L2_DCM", "INT64", "INCLUSIVE", "#", np.maximum(misses, 0), only=[*reversed(calls)]),
        Metric("rates", "RATE", "EXCLUSIVE", "#", None),
    ]
    return locations, metrics


def write_solver(path: Path, order: str = "<", packed: bool = False) -> Path:
    """It as a file."""
    locations, metrics = solver()
    path.write_bytes(archive(files(SOLVER, locations, metrics, order, packed)))
    return path


def large(n_calls: int, n_ranks: int) -> bytes:
    """A profile of so many calls on so many ranks."""
    rng = np.random.default_rng(1)
    leaves = tuple(Call(f"leaf {at}", ("user", "mpi")[at % 5 == 0]) for at in range(9))
    groups = tuple(Call(f"group {at}", calls=leaves) for at in range(-(-(n_calls - 1) // 10)))
    tree = (Call("main", calls=groups),)
    n = len(list(walk(tree)))
    time = rng.random((n, n_ranks))
    metrics = [Metric(name, "DOUBLE", "INCLUSIVE", "sec", time) for name in ("time", "PAPI_TOT_INS", "PAPI_TOT_CYC")]
    metrics += [
        Metric(name, "UINT64", "EXCLUSIVE", "occ", time * 100) for name in ("visits", "bytes_sent", "bytes_received")
    ]
    return archive(files(tree, [Location(f"node{rank // 8}", rank) for rank in range(n_ranks)], metrics))
