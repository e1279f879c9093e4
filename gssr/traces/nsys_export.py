"""Exports of Nsight Systems in columns, ``nsys export --type parquetdir`` or ``arrowdir``: a folder with a file for each
table, which has the columns of the table in an .sqlite export.

pyarrow reads them in a process of its own (gssr.traces.confined), which writes the columns into a file that is mapped here.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from gssr.arrays import Ints
from gssr.store.pages.leaf_rows import NULL
from gssr.traces.confined import Limits, confined_arguments, written_by
from gssr.traces.tables import TablesInMemory
from gssr.traces.timeline import TraceError

ENDINGS = (".parquet", ".arrow")
_MEMORY, _MEMORY_BY_SIZE = 900 << 20, 8
"""Bytes of addresses that the process may take, of which Python and pyarrow take 600 MB (most of it never touched), and how
many more for each byte of the files."""
_SECONDS, _BYTES_PER_SECOND = 15, 8 << 20
_WRITTEN, _WRITTEN_BY_SIZE = 256 << 20, 60
"""Bytes that it may write, and how many more for each byte of the files: a column that hardly varies packs well."""
_FEW_ROWS, _LEAST_ROW = 100_000, 6
"""Rows that a table may say it has, and bytes of its file for each where there are more: times alone take as many."""
_AT_ONCE = 1 << 16


def read_columns(folder: str, tables: Iterable[str]) -> TablesInMemory:
    """Read the whole numbers and texts of these tables, as far as they are there. Raises TraceError."""
    try:
        sizes = [os.path.getsize(path) for path in _files(folder, tables).values()]
    except OSError as error:
        raise TraceError(f"{folder}: can't be read: {error.strerror}") from None
    size = sum(sizes)
    limits = Limits(
        _MEMORY + _MEMORY_BY_SIZE * size, _WRITTEN + _WRITTEN_BY_SIZE * size, _SECONDS + size // _BYTES_PER_SECOND
    )
    variables = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
    with written_by(send_columns, folder, [*tables], limits, "pyarrow", variables) as (written, exit_code):
        try:
            return _received(folder, written)
        except (ValueError, EOFError, KeyError, TypeError):
            what = "pyarrow crashed on it, or it takes too much memory or time"
            raise TraceError(f"{folder}: can't be read: {what} (exit code {exit_code})") from None


def _files(folder: str, tables: Iterable[str]) -> dict[str, str]:
    """Return the files of those of the tables that are there, by table."""
    paths = ((table, os.path.join(folder, table + ending)) for ending in ENDINGS for table in tables)
    return {table: path for table, path in paths if os.path.isfile(path)}


def _received(folder: str, written: Any) -> TablesInMemory:
    """Read what the process has written: lines of JSON, of which one that names a column of numbers is followed by them.
    Raises ValueError, EOFError, KeyError or TypeError if it is not that, TraceError if it says that it failed."""
    tables: dict[str, dict[str, Ints | Sequence[Any]]] = {}
    while True:
        told = json.loads(written.readline() or b"{}")
        if not told:
            raise EOFError
        if "end" in told:
            return TablesInMemory(folder, tables, [f"{folder}: {each}" for each in told["end"]])
        if "failed" in told:
            raise TraceError(f"{folder}: {told['failed']}")
        columns = tables.setdefault(told["table"], {})
        if "texts" in told:
            columns[told["column"]] = told["texts"]
        elif told["n"]:
            at = written.tell()
            columns[told["column"]] = np.memmap(written, np.int64, "r", at, (told["n"],))
            written.seek(at + 8 * told["n"])
        else:
            columns[told["column"]] = np.empty(0, np.int64)


def send_columns() -> None:
    """Run in the process of its own: read, in the folder that is its first argument, the tables that are the others, and
    write their columns."""
    folder, *tables = confined_arguments()
    with open(1, "wb", closefd=False) as out:
        damage: list[str] = []
        try:
            import pyarrow
        except ImportError:
            _say(out, failed="reading it needs the package pyarrow: pip install 'pyarrow>=17,<27'")
            return
        for table, path in _files(folder, tables).items():
            try:
                for column, values in _columns(path):
                    if isinstance(values, list):
                        _say(out, table=table, column=column, texts=values)
                    else:
                        _say(out, table=table, column=column, n=len(values))
                        out.write(values.tobytes())
            except (pyarrow.ArrowException, OSError, ValueError, MemoryError) as error:
                damage.append(f"{table} can't be read ({type(error).__name__})")
        _say(out, end=damage)


def _say(out: Any, **told: Any) -> None:
    out.write(json.dumps(told).encode() + b"\n")


def _columns(path: str) -> Iterator[tuple[str, Ints | list[str | None]]]:
    """Yield the columns of a file that hold whole numbers or texts, by name; NULL and None for what is missing. Raises
    pyarrow's errors, and ValueError for a table that says it has more rows than it can hold."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    most = max(_FEW_ROWS, os.path.getsize(path) // _LEAST_ROW)
    if path.endswith(ENDINGS[0]):
        file = pq.ParquetFile(path)
        if file.metadata.num_rows > most:
            raise ValueError
        schema = file.schema_arrow
    else:
        schema, batches = _arrow_batches(path)
        if sum(batch.num_rows for batch in batches) > most:
            raise ValueError
    for at, field in enumerate(schema):
        if not (_is_whole(field.type) or _is_text(field.type)):
            continue
        if path.endswith(ENDINGS[0]):
            read = file.iter_batches(_AT_ONCE, columns=[field.name], use_threads=False)
            parts = [batch.column(0) for batch in read]
        else:
            parts = [batch.column(at) for batch in batches]
        whole = pa.chunked_array(parts, field.type)
        if _is_text(field.type):
            yield field.name, whole.cast(pa.large_string()).to_pylist()
        else:
            yield field.name, whole.cast(pa.int64(), safe=False).fill_null(NULL).to_numpy().astype(np.int64)


def _arrow_batches(path: str) -> tuple[Any, list[Any]]:
    """Return the schema and the batches of a file of Arrow in either of its forms, mapped into memory."""
    import pyarrow as pa

    stream = pa.memory_map(path)
    try:
        reader: Any = pa.ipc.open_file(stream)
        return reader.schema, [reader.get_batch(place) for place in range(reader.num_record_batches)]
    except pa.ArrowInvalid:
        stream.seek(0)
        reader = pa.ipc.open_stream(stream)
        return reader.schema, list(reader)


def _is_whole(kind: Any) -> bool:
    """Tell whether a column of this pyarrow type holds whole numbers or truth values, also by way of a dictionary."""
    import pyarrow as pa

    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_integer(own) or pa.types.is_boolean(own))


def _is_text(kind: Any) -> bool:
    """Tell whether a column of this pyarrow type holds texts, also by way of a dictionary."""
    import pyarrow as pa

    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(own) or pa.types.is_large_string(own) or own == pa.string_view())
