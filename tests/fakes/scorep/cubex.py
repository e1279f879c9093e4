"""Writes .cubex files as Score-P's profiles are, kind and unkind, and says what each holds.

``write(path, of_program(program))`` writes the profile of a simulated program, ``write(path, grown(cnodes=200, ranks=64))``
a tree drawn at random. What a file means is in ``Cube.inclusive`` and ``Cube.exclusive``: plain sums over the tree.
"""

import io
import random
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from . import truth
from .program import REGIONS, Program, Region

Number = int | float
Kind = Literal["INCLUSIVE", "EXCLUSIVE"]
FORMATS = {"UINT64": "Q", "INT64": "q", "UINT32": "I", "DOUBLE": "d", "MINDOUBLE": "d", "MAXDOUBLE": "d"}
PARADIGMS = {"COMPILER": "compiler", "USER": "user", "MPI": "mpi", "OPENMP": "openmp", "CUDA": "cuda", "OPENACC": "openacc",
             "IO": "io", "PTHREAD": "pthread"}  # fmt: skip


class Node(NamedTuple):
    """A path of the call tree; ``region``: its place in ``Cube.regions``."""

    number: int
    region: int
    parent: int | None


class Place(NamedTuple):
    """A thread of a rank, on a node."""

    rank: int
    thread: int
    name: str
    kind: str = "thread"
    node: int = 0


@dataclass
class Metric:
    """``values``: as stored, by node number, one for each place; a node that is not there is 0. None: no data at all."""

    name: str
    kind: Kind
    dtype: str
    unit: str
    values: dict[int, list[Number]] | None


@dataclass
class Cube:
    """A profile."""

    regions: Sequence[Region]
    nodes: list[Node]
    places: list[Place]
    metrics: list[Metric]
    order: list[int] = field(default_factory=list)
    """The nodes' numbers as indices list them, where not in the order of ``nodes``."""

    def children(self) -> dict[int | None, list[int]]:
        """Numbers of nodes by their parent's."""
        found: dict[int | None, list[int]] = {}
        for node in self.nodes:
            found.setdefault(node.parent, []).append(node.number)
        return found

    def places_of(self, kind: Kind) -> dict[int, int]:
        """A node's place in the order by which Cube lists the values of a metric: of exclusive ones each node before its
        children, and these one after the other with all below them; of inclusive ones all children of a node in a row."""
        children = self.children()
        found: list[int] = []
        for root in children[None]:
            found += [root] * (kind == "INCLUSIVE")
            todo = [root]
            while todo:
                node = todo.pop()
                below = children.get(node, [])
                found += below if kind == "INCLUSIVE" else [node]
                todo += reversed(below)
        return {number: place for place, number in enumerate(found)}

    def path(self, number: int) -> tuple[str, ...]:
        """The names from the root to a node."""
        by_number = {node.number: node for node in self.nodes}
        names: list[str] = []
        at: int | None = number
        while at is not None:
            names.append(self.regions[by_number[at].region].name)
            at = by_number[at].parent
        return tuple(reversed(names))

    def metric(self, name: str) -> Metric:
        """The metric of that name."""
        return next(metric for metric in self.metrics if metric.name == name)

    def inclusive(self, name: str) -> dict[int, list[Number]]:
        """By node and place; of least and greatest values those of the whole subtree."""
        metric, children = self.metric(name), self.children()
        assert metric.values is not None
        if metric.kind == "INCLUSIVE":
            return {node.number: self._stored(metric, node.number) for node in self.nodes}
        join = {"MINDOUBLE": min, "MAXDOUBLE": max}.get(metric.dtype)
        found: dict[int, list[Number]] = {}
        for node in reversed(self.nodes):  # a parent comes before its children
            parts = [self._stored(metric, node.number), *(found[child] for child in children.get(node.number, []))]
            found[node.number] = [join(column) if join else sum(column) for column in zip(*parts, strict=True)]
        return found

    def exclusive(self, name: str) -> dict[int, list[Number]]:
        """By node and place; can be negative where counters were multiplexed."""
        metric, children = self.metric(name), self.children()
        assert metric.values is not None
        if metric.kind == "EXCLUSIVE":
            return {node.number: self._stored(metric, node.number) for node in self.nodes}
        return {
            node.number: [
                own - sum(column)
                for own, *column in zip(
                    self._stored(metric, node.number),
                    *(self._stored(metric, child) for child in children.get(node.number, [])),
                    strict=True,
                )
            ]
            for node in self.nodes
        }

    def _stored(self, metric: Metric, number: int) -> list[Number]:
        assert metric.values is not None
        return metric.values.get(number, [0] * len(self.places))


def of_program(program: Program) -> Cube:
    """The profile that Score-P would have written of it: time, visits, least and greatest time of a visit, bytes."""
    found = truth.of(program)
    names = {region.name: number for number, region in enumerate(program.regions)}
    paths = sorted({path for path, _ in found.paths})
    numbers = {path: number for number, path in enumerate(paths)}
    nodes = [Node(numbers[path], names[path[-1]], numbers.get(path[:-1])) for path in paths]
    places = [
        Place(
            at.rank,
            at.thread,
            at.name,
            "gpu" if at.kind == "ACCELERATOR_STREAM" else "thread",
            program.node_of[at.rank],
        )
        for at in program.locations
    ]
    columns = {at.number: column for column, at in enumerate(program.locations)}
    time: dict[int, list[Number]] = {}
    visits: dict[int, list[Number]] = {}
    sent: dict[int, list[Number]] = {}
    for (path, location), spent in found.paths.items():
        number, column = numbers[path], columns[location]
        time.setdefault(number, [0.0] * len(places))[column] = spent.inclusive / 1e9
        visits.setdefault(number, [0] * len(places))[column] = spent.count
        if path[-1] in ("MPI_Send", "MPI_Isend"):
            sent.setdefault(number, [0] * len(places))[column] = 100 * spent.count
    metrics = [
        Metric("visits", "EXCLUSIVE", "UINT64", "occ", visits), Metric("time", "INCLUSIVE", "DOUBLE", "sec", time),
        Metric("bytes_sent", "EXCLUSIVE", "UINT64", "bytes", sent),
        Metric("bytes_received", "EXCLUSIVE", "UINT64", "bytes", None),
    ]  # fmt: skip
    return Cube(program.regions, nodes, places, metrics)


def grown(cnodes: int = 32, ranks: int = 4, threads: int = 1, seed: int = 0, per_node: int = 4) -> Cube:
    """A tree drawn at random: numbers of nodes are not in its order, indices list a part of it in another one. Times are
    multiples of 2**-20 s, so that sums of them are exact; one rank takes longest everywhere but in MPI."""
    rng = random.Random(f"cube {cnodes} {ranks} {seed}")
    parents: list[int | None] = [None, *(rng.randrange(max(0, number - 12), number) for number in range(1, cnodes))]
    numbers = list(range(cnodes))
    rng.shuffle(numbers)
    nodes = [
        Node(numbers[at], rng.randrange(1, len(REGIONS)) if at else 0, None if parent is None else numbers[parent])
        for at, parent in enumerate(parents)
    ]
    places = [
        Place(rank, thread, "Master thread" if not thread else f"OMP thread {thread}", node=rank // per_node)
        for rank in range(ranks)
        for thread in range(threads)
    ]
    slow = rng.randrange(ranks)

    def column(draw: Iterable[Number]) -> list[Number]:
        return list(draw)

    own: dict[int, list[Number]] = {
        node.number: column(
            rng.randrange(2000) * (2 if place.rank == slow and REGIONS[node.region].paradigm != "MPI" else 1) / 2**20
            for place in places
        )
        for node in nodes
    }
    cube = Cube(REGIONS, nodes, places, [Metric("own", "EXCLUSIVE", "DOUBLE", "sec", own)])
    time = cube.inclusive("own")
    some = {node.number for node in rng.sample(nodes, max(1, cnodes * 12 // 32))}
    visits: dict[int, list[Number]] = {node.number: column(1 + rng.randrange(10**6) for _ in places) for node in nodes}
    sent: dict[int, list[Number]] = {number: column(rng.randrange(2**40) for _ in places) for number in sorted(some)}
    least: dict[int, list[Number]] = {
        node.number: column((1 + rng.randrange(9)) / 1024 for _ in places) for node in nodes
    }
    most: dict[int, list[Number]] = {number: [10 * value for value in values] for number, values in least.items()}
    cycles: dict[int, list[Number]] = {
        number: column(int(value * 2**20) * (2**40 + 1) for value in values) for number, values in time.items()
    }
    leaf = next(node for node in reversed(nodes) if node.parent is not None)
    assert leaf.parent is not None
    multiplexed: dict[int, list[Number]] = {
        number: column(int(value * 2**20) for value in values) for number, values in time.items()
    }
    multiplexed[leaf.number] = [value + 10**6 for value in multiplexed[leaf.parent]]  # more than what called it
    cube.metrics = [
        Metric("visits", "EXCLUSIVE", "UINT64", "occ", visits), Metric("time", "INCLUSIVE", "DOUBLE", "sec", time),
        Metric("min_time", "EXCLUSIVE", "MINDOUBLE", "sec", least),
        Metric("max_time", "EXCLUSIVE", "MAXDOUBLE", "sec", most),
        Metric("bytes_sent", "EXCLUSIVE", "UINT64", "bytes", sent),
        Metric("bytes_received", "EXCLUSIVE", "UINT64", "bytes", None),
        Metric("PAPI_TOT_CYC", "INCLUSIVE", "UINT64", "#", cycles),
        Metric("PAPI_L2_DCM", "INCLUSIVE", "INT64", "#", multiplexed),
        Metric("hits", "EXCLUSIVE", "UINT64", "occ", None),
    ]  # fmt: skip
    cube.order = sorted(numbers, key=lambda number: (number * 7) % (cnodes + 1))
    return cube


class Style(NamedTuple):
    """How a profile is written. ``checksum``: "bug" as Cube 4.8's, ``packed``: data as ZCUBEX; ``histogram``: whether there
    is a metric of a type that nobody reads; ``cut``: bytes left out at the end; ``version``: of the anchor."""

    order: Literal["<", ">"] = "<"
    packed: bool = False
    checksum: Literal["right", "bug"] = "right"
    histogram: bool = False
    cut: int = 0
    version: str = "4.4"
    anchor_first: bool = False
    control: bool = False


PLAIN = Style()


def anchor(cube: Cube, style: Style) -> str:
    """The XML of what the profile is of."""
    out = io.StringIO()
    out.write(f'<?xml version="1.0" encoding="UTF-8"?>\n\n<cube version="{style.version}">\n')
    for key, value in (
        ("CUBE Library version", "CubeLib-4.8.2"),
        ("Cube Version", "4.8.2"),
        ("Creator", "Score-P 8.4"),
    ):
        out.write(f"  <attr key={quoteattr(key)} value={quoteattr(value)}/>\n")
    out.write('  <doc>\n    <mirrors>\n    </mirrors>\n  </doc>\n  <metrics title="x">\n')
    for number, metric in enumerate(cube.metrics):
        out.write(
            f'    <metric id="{number}" type="{metric.kind}">\n      <disp_name>{escape(metric.name.title())}</disp_name>\n'
            f"      <uniq_name>{escape(metric.name)}</uniq_name>\n      <dtype>{metric.dtype}</dtype>\n"
            f"      <uom>{escape(metric.unit)}</uom>\n      <url></url>\n      <descr>a &lt;b&gt; c</descr>\n    </metric>\n"
        )
    if style.histogram:
        out.write(
            f'    <metric id="{len(cube.metrics)}" type="EXCLUSIVE">\n      <disp_name>H</disp_name>'
            "\n      <uniq_name>H</uniq_name>\n      <dtype>HISTOGRAM(5)</dtype>\n      <uom>sec</uom>\n    </metric>\n"
        )
    out.write("  </metrics>\n  <program>\n")
    for number, region in enumerate(cube.regions):
        name = escape(region.name) + ("&#9;tab" if style.control and number == 2 else "")
        out.write(
            f'    <region id="{number}" mod={quoteattr(region.file)} begin="{region.line}" end="{region.line + 20}">\n'
            f"      <name>{name}</name>\n      <mangled_name>{name}</mangled_name>\n"
            f"      <paradigm>{PARADIGMS[region.paradigm]}</paradigm>\n      <role>{region.role.lower()}</role>\n"
            "      <url></url>\n      <descr></descr>\n    </region>\n"
        )
    children, by_number = cube.children(), {node.number: node for node in cube.nodes}
    todo: list[int | None] = list(reversed(children[None]))  # None: the end of a node
    while todo:
        number_or_end = todo.pop()
        if number_or_end is None:
            out.write("</cnode>\n")
            continue
        out.write(f'<cnode id="{number_or_end}" calleeId="{by_number[number_or_end].region}">\n')
        todo += [None, *reversed(children.get(number_or_end, []))]
    out.write('  </program>\n  <system>\n<systemtreenode Id="0">\n<name>machine</name>\n<class>machine</class>\n')
    location = 0
    for node in sorted({place.node for place in cube.places}):
        out.write(f'<systemtreenode Id="{node + 1}">\n<name>node{node}</name>\n<class>node</class>\n')
        for rank in sorted({place.rank for place in cube.places if place.node == node}):
            out.write(
                f'<locationgroup Id="{rank}">\n<name>MPI Rank {rank}</name>\n<rank>{rank}</rank>\n<type>process</type>\n'
            )
            for place in cube.places:
                if place.rank == rank:
                    out.write(
                        f'<location Id="{location}">\n<name>{escape(place.name)}</name>\n<rank>{place.thread}</rank>\n'
                        f"<type>{place.kind}</type>\n</location>\n"
                    )
                    location += 1
            out.write("</locationgroup>\n")
        out.write("</systemtreenode>\n")
    out.write("</systemtreenode>\n  </system>\n</cube>\n")
    return out.getvalue()


def head(name: str, size: int, checksum: str = "right") -> bytes:
    """A member's head in the archive, as Cube writes it."""
    fields = f"{name}\0".encode().ljust(100, b"\0") + b"0000600\x000377777\x000377777\0" + f"{size:011o}\0".encode()
    rest = b"14751733600\0"
    after = b"\0ustar\x000\0" if checksum == "bug" else b"0ustar\x0000"
    after = after[:1] + b"\0" * 100 + after[1:]
    block = (fields + rest + b" " * 8 + after).ljust(512, b"\0")
    total = sum(block) - (0o40 if checksum == "bug" else 0)
    return block[:148] + f"{total:06o}\0".encode() + (b"\0" if checksum == "bug" else b" ") + block[156:]


def member(name: str, content: bytes, checksum: str = "right") -> bytes:
    """A member of the archive."""
    return head(name, len(content), checksum) + content + b"\0" * (-len(content) % 512)


def index(numbers: Sequence[int], order: str) -> bytes:
    """The file that says whose values there are."""
    return b"CUBEX.INDEX" + struct.pack(f"{order}ihBi{len(numbers)}i", 1, 0, 1, len(numbers), *numbers)


def data(rows: Sequence[bytes], order: str, packed: bool) -> bytes:
    """The file of values: a row for each node of the index."""
    if not packed:
        return b"CUBEX.DATA" + b"".join(rows)
    small = [zlib.compress(row) for row in rows]
    table, at = [], 0
    for n, (row, pressed) in enumerate(zip(rows, small, strict=True)):
        table += [n * len(row), at, len(pressed)]
        at += len(pressed)
    return b"ZCUBEX.DATA" + struct.pack(f"{order}q{len(table)}q", len(rows), *table) + b"".join(small)


def write(path: Path | str, cube: Cube, style: Style = PLAIN) -> Path:
    """Writes the profile. The order of files in it is that of Cube: data before index, the anchor at the end."""
    path = Path(path)
    parts: list[bytes] = []
    listed = cube.order or [node.number for node in cube.nodes]
    for number, metric in enumerate(cube.metrics):
        if metric.values is None:
            continue
        kept = [n for n in listed if n in metric.values]
        places = cube.places_of(metric.kind)
        if not cube.order:
            kept.sort(key=lambda n: places[n])
        packer = struct.Struct(f"{style.order}{len(cube.places)}{FORMATS[metric.dtype]}")
        rows = [packer.pack(*metric.values[n]) for n in kept]
        parts.append(member(f"{number}.data", data(rows, style.order, style.packed), style.checksum))
        parts.append(member(f"{number}.index", index([places[n] for n in kept], style.order), style.checksum))
    if style.histogram:
        number, kept = len(cube.metrics), listed[:2]
        rows = [bytes(7 * 8 * len(cube.places))] * len(kept)
        parts.append(member(f"{number}.data", data(rows, style.order, style.packed), style.checksum))
        parts.append(member(f"{number}.index", index(kept, style.order), style.checksum))
    xml = member("anchor.xml", anchor(cube, style).encode(), style.checksum)
    body = b"".join([xml, *parts] if style.anchor_first else [*parts, xml]) + bytes(1024)
    path.write_bytes(body[: len(body) - style.cut] if style.cut else body)
    return path


def hostile(folder: Path, cube: Cube) -> dict[str, Path]:
    """Files that no reader may believe: by what is wrong with them."""
    good = write(folder / "good.cubex", cube).read_bytes()
    xml = anchor(cube, Style())
    time = cube.metric("time")
    assert time.values is not None
    number = cube.metrics.index(time)
    row = bytes(8 * len(cube.places))

    def archive(name: str, *parts: bytes) -> Path:
        path = folder / f"{name}.cubex"
        path.write_bytes(b"".join(parts) + bytes(1024))
        return path

    anchor_part = member("anchor.xml", xml.encode())
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    laughing = xml.replace("?>\n", f'?>\n<!DOCTYPE cube [<!ENTITY l0 "ha">{laughs}]>\n', 1).replace(
        "Score-P 8.4", "&l11;"
    )
    outside = xml.replace("?>\n", '?>\n<!DOCTYPE cube [<!ENTITY f SYSTEM "file:///etc/passwd">]>\n', 1).replace(
        "<name>machine</name>", "<name>&f;</name>"
    )  # fmt: skip
    deep = xml.split("<cnode", 1)[0] + '<cnode id="0" calleeId="0">' * 200_000 + "</cnode>" * 200_000
    deep += "  </program>" + xml.split("</program>", 1)[1]
    bomb = zlib.compress(bytes(1 << 26), 1)
    packed = b"ZCUBEX.DATA" + struct.pack("<q3q", 1, 0, 0, len(bomb)) + bomb
    files = {
        "cut": good[: len(good) // 2], "empty": b"",
        "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "resource fork": b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(200),
    }  # fmt: skip
    for name, content in files.items():
        (folder / f"{name}.cubex").write_bytes(content)
    odd = {
        "infinite": float("inf"),
        "not a number": float("nan"),
        "beyond all time": 1e300,
        "minus infinite": float("-inf"),
    }
    for name, value in odd.items():
        wrong = replace(time, values={**time.values, 0: [value] * len(cube.places)})
        metrics = [wrong if metric is time else metric for metric in cube.metrics]
        write(folder / f"{name}.cubex", replace(cube, metrics=metrics))
    made = {name: folder / f"{name}.cubex" for name in [*files, *odd]}
    made |= {
        "huge member": archive("huge member", head("anchor.xml", 8**11 - 1), xml.encode()),
        "no anchor": archive("no anchor", member("0.data", b"CUBEX.DATA"), member("0.index", index([], "<"))),
        "no xml": archive("no xml", member("anchor.xml", b"<cube><metrics></cube>")),
        "laughs": archive("laughs", member("anchor.xml", laughing.encode())),
        "outside": archive("outside", member("anchor.xml", outside.encode())),
        "deep": archive("deep", member("anchor.xml", deep.encode())),
        "huge index": archive(
            "huge index", anchor_part, member(f"{number}.data", b"CUBEX.DATA" + row),
            member(f"{number}.index", b"CUBEX.INDEX" + struct.pack("<ihBi", 1, 0, 1, 2**31 - 1)),
        ),
        "short data": archive(
            "short data", anchor_part, member(f"{number}.data", b"CUBEX.DATA" + row[:-3]),
            member(f"{number}.index", index([cube.nodes[0].number], "<")),
        ),
        "unknown node": archive(
            "unknown node", anchor_part, member(f"{number}.data", b"CUBEX.DATA" + row),
            member(f"{number}.index", index([10**6], "<")),
        ),
        "bomb": archive(
            "bomb", anchor_part, member(f"{number}.data", packed),
            member(f"{number}.index", index([cube.nodes[0].number], "<"))
        ),
    }  # fmt: skip
    return made
