"""Exporting a run: table by table into a sink, a piece of the recording at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.convert.tables import Columns, Exported, ExportTable, Sink
from gssr.metrics import BY_NAME
from gssr.model.verdicts.rules import TABLE
from gssr.model.verdicts.table import RuleTable as Rules
from gssr.store.format.sample_arrays import Samples
from gssr.store.read.recording import RunReader
from gssr.store.read.whole_run import read_rows_in_pieces

ROWS = 1 << 16
"""Raw samples read at a time: 30 MB, and as much again while they are written."""
MOST_HELD = 10 * ROWS
"""Those that wait for more of their nodes: 140 MB of twenty metrics."""


def export(
    reader: RunReader,
    file: str,
    sink: Sink,
    tables: Sequence[ExportTable],
    rules: Rules = TABLE,
    progress: Callable[[float], None] = lambda _: None,
) -> bool:
    """Write tables of one run into a sink. Returns False, and reads nothing, where the sink has the run already.

    Args:
        file: the recording that ``reader`` reads, as figures name it.
        sink: gets ``begin``, ``write`` for each piece, and ``end``; ``undo`` if anything is raised.
        tables: in the order in which they are written.
        rules: the rules that judge the run.
        progress: called with the share that is done, 0-1.

    Raises ExportError, OSError and RecordingError.
    """
    name = file.encode("utf-8", "backslashreplace").decode()  # names of files are no UTF-8
    own = Exported(reader, name, rules)
    wanted = sink.begin(reader.run.run_id, tables, reader.run.started_at)
    if not wanted:
        return False
    try:
        for table in wanted:
            if table.rows is None:
                own = Exported(reader, name, rules)  # what was computed of very many GPUs takes much memory
            pieces = _samples(reader, table, sink, progress) if table.rows is None else _rows(own, table)
            for node, columns in pieces:
                sink.write(table, node, columns)
        sink.end()
    except BaseException:
        sink.undo()
        raise
    progress(1.0)
    return True


def _rows(own: Exported, table: ExportTable) -> Iterator[tuple[str | None, Columns]]:
    """Yield the pieces of a small table: the node of all rows (None if the table is not split by node) and the columns.
    A table that is not split by node has at least one piece, which may be empty."""
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
    reader: RunReader, table: ExportTable, sink: Sink, progress: Callable[[float], None]
) -> Iterator[tuple[str | None, Columns]]:
    """Yield raw samples in pieces: the node and the columns, sorted by GPU and then time. A piece has as many rows of
    its node as the sink wants together, or as memory allows. If there are more nodes than ``sink.most_nodes``, the
    recording is read several times."""
    nodes = [gpu.node for gpu in reader.gpus]
    names = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
    number = np.array([names[node] for node in nodes], np.int64)
    metrics = [name for name in reader.metrics if name in BY_NAME]
    passes = range(0, max(len(names), 1), sink.most_nodes)
    total, done = max(reader.n_rows, 1) * len(passes), 0
    for lowest in passes:
        held = _HeldRows(sink.rows_together)
        for piece in read_rows_in_pieces(reader, metrics, ROWS):
            own = number[piece.gpu]
            rows = np.flatnonzero((own >= lowest) & (own - lowest < sink.most_nodes))
            rows = rows[np.lexsort((piece.time[rows], piece.gpu[rows], own[rows]))]
            for first, last in _of_one_node(own[rows]):
                held.add(int(own[rows[first]]), piece, rows[first:last])
            for samples in held.ready():
                yield _of_a_node(reader, table, samples)
            done += len(piece.gpu)
            progress(min(done / total, 1.0))
        for samples in held.rest():
            yield _of_a_node(reader, table, samples)


class _HeldRows:
    """Collects raw rows by node until a node has ``enough`` of them, or all nodes together have MOST_HELD."""

    def __init__(self, enough: int) -> None:
        self._enough, self._total = enough, 0
        self._pieces: dict[int, list[Samples]] = {}
        self._rows: dict[int, int] = {}

    def add(self, node: int, piece: Samples, rows: Ints) -> None:
        """Keep these rows (indices, sorted by GPU and then time) of a piece for a node."""
        own = Samples(piece.gpu[rows], piece.time[rows], {name: each[rows] for name, each in piece.values.items()})
        self._pieces.setdefault(node, []).append(own)
        self._rows[node] = self._rows.get(node, 0) + len(rows)
        self._total += len(rows)

    def ready(self) -> Iterator[Samples]:
        """Yield, and forget, the rows of each node that has enough; then, while too many are held, those of the node
        that has most."""
        for node in [node for node, rows in self._rows.items() if rows >= self._enough]:
            yield self._taken(node)
        while self._total > MOST_HELD:
            yield self._taken(max(self._rows, key=self._rows.__getitem__))

    def rest(self) -> Iterator[Samples]:
        """Yield, and forget, all rows that are left, node by node."""
        for node in list(self._rows):
            yield self._taken(node)

    def _taken(self, node: int) -> Samples:
        """Remove a node's rows and return them, sorted by GPU and then time."""
        self._total -= self._rows.pop(node)
        pieces = self._pieces.pop(node)
        if len(pieces) == 1:
            return pieces[0]
        gpu, time = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("gpu", "time"))
        order = np.lexsort((time, gpu))
        values = {name: np.concatenate([piece.values[name] for piece in pieces])[order] for name in pieces[0].values}
        return Samples(gpu[order], time[order], values)


def _of_one_node(number: Ints) -> Iterator[tuple[int, int]]:
    """Yield for each different number in ``number`` [n], ascending, the index of its first row and the index behind its
    last. Nothing if there are no rows."""
    edges = np.flatnonzero(np.diff(number)) + 1
    yield from zip([0, *edges.tolist()], [*edges.tolist(), len(number)], strict=True) if len(number) else ()


def _of_a_node(reader: RunReader, table: ExportTable, samples: Samples) -> tuple[str | None, Columns]:
    """Return the node of samples, which are all of one node, and the table's columns. A metric that the recording lacks
    is NaN throughout."""
    node, n = reader.gpus[int(samples.gpu[0])].node, len(samples.gpu)
    own: dict[str, NDArray[Any] | Sequence[Any]] = {
        "run_id": [reader.run.run_id] * n,
        "node": [node] * n,
        "gpu": samples.gpu,
        "time": samples.time,
    }
    for column in table.columns:
        if column.name in samples.values:
            own[column.name] = samples.values[column.name]
        elif column.name in BY_NAME:
            own[column.name] = np.full(n, np.nan)
    return node, own
