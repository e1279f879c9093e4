"""Exporting a run: table by table into a sink, a piece of the recording at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.convert.tables import Columns, Exported, Sink, Table
from gssr.metrics import BY_NAME
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import Table as Rules
from gssr.store.read.everything import in_pieces
from gssr.store.read.recording import RunReader, Samples

ROWS = 1 << 16
"""Raw samples in memory at a time: 30 MB, and as much again while they are written."""


def export(
    reader: RunReader,
    file: str,
    sink: Sink,
    tables: Sequence[Table],
    rules: Rules = TABLE,
    progress: Callable[[float], None] = lambda _: None,
) -> None:
    """Write these tables of a run, which is in the recording ``file``, judged by ``rules``. ``progress`` is told the share
    done, 0-1. Raises ExportError and OSError; then the sink has undone what it began."""
    own = Exported(reader, file.encode("utf-8", "backslashreplace").decode(), rules)  # names of files are no UTF-8
    sink.begin(reader.run.run_id, tables)
    try:
        for table in tables:
            pieces = _samples(reader, table, sink.most_nodes, progress) if table.rows is None else _rows(own, table)
            for node, columns in pieces:
                sink.write(table, node, columns)
        sink.end()
    except BaseException:
        sink.undo()
        raise
    progress(1.0)


def _rows(own: Exported, table: Table) -> Iterator[tuple[str | None, Columns]]:
    """A small table; without rows it has an empty piece, where it is not split by node."""
    assert table.rows is not None
    names = [column.name for column in table.columns]
    pieces = 0
    for batch in table.rows(own):
        if not table.per_node:
            pieces += 1
            yield None, dict(zip(names, zip(*batch, strict=True) if batch else [()] * len(names), strict=True))
            continue
        at = names.index("node")
        for node in dict.fromkeys(row[at] for row in batch):
            mine = [row for row in batch if row[at] == node]
            yield node, dict(zip(names, zip(*mine, strict=True), strict=True))
    if not (pieces or table.per_node):
        yield None, dict.fromkeys(names, ())


def _samples(
    reader: RunReader, table: Table, most_nodes: int, progress: Callable[[float], None]
) -> Iterator[tuple[str | None, Columns]]:
    """Raw samples by node, a piece of the file at a time, each GPU's in the order of time. Of more nodes than ``most_nodes``
    so many at a time: the file is gone through several times."""
    nodes = [gpu.node for gpu in reader.gpus]
    names = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
    number = np.array([names[node] for node in nodes], np.int64)
    metrics = [name for name in reader.metrics if name in BY_NAME]
    passes = range(0, max(len(names), 1), most_nodes)
    total, done = max(reader.n_rows, 1) * len(passes), 0
    for lowest in passes:
        for piece in in_pieces(reader, metrics, ROWS):
            done += len(piece.gpu)
            order = np.lexsort((piece.time, piece.gpu))
            if len(passes) > 1:
                own = number[piece.gpu[order]]
                order = order[(own >= lowest) & (own < lowest + most_nodes)]
            gpu = piece.gpu[order]
            for first, last in _of_one_node(number[gpu]):
                rows = order[first:last]
                yield nodes[int(gpu[first])], _columns(reader, table, piece, rows, nodes[int(gpu[first])])
            progress(min(done / total, 1.0))


def _of_one_node(number: Ints) -> Iterator[tuple[int, int]]:
    """Where in the numbers of nodes [n], ascending, each of them begins and ends."""
    edges = np.flatnonzero(np.diff(number)) + 1
    yield from zip([0, *edges.tolist()], [*edges.tolist(), len(number)], strict=True) if len(number) else ()


def _columns(
    reader: RunReader,
    table: Table,
    piece: Samples,
    rows: Ints,
    node: str | None,
) -> Columns:
    n = len(rows)
    own: dict[str, NDArray[Any] | Sequence[Any]] = {
        "run_id": [reader.run.run_id] * n,
        "node": [node] * n,
        "gpu": piece.gpu[rows],
        "time": piece.time[rows],
    }
    for column in table.columns:
        if column.name in piece.values:
            own[column.name] = piece.values[column.name][rows]
        elif column.name in BY_NAME:
            own[column.name] = np.full(n, np.nan)
    return own
