"""An .sqlite export of Nsight Systems as a folder of Parquet or Arrow files, a file for each table, by plain SQL and
pyarrow."""

import sqlite3
from contextlib import closing
from pathlib import Path


def in_columns(report: Path, folder: Path, ending: str) -> Path:
    """Write the tables of a report into a folder; ``ending``: "parquet", "arrow", or "stream" for Arrow's other form."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(report)) as db:
        db.text_factory = lambda text: text.decode("utf-8", "replace")
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            cursor = db.execute(f'SELECT * FROM "{name}"')
            heads, rows = [head[0] for head in cursor.description], cursor.fetchall()
            table = pa.table({head: pa.array([row[at] for row in rows]) for at, head in enumerate(heads)})
            if ending == "parquet":
                pq.write_table(table, folder / f"{name}.parquet")
                continue
            make = pa.ipc.new_file if ending == "arrow" else pa.ipc.new_stream
            with pa.OSFile(str(folder / f"{name}.arrow"), "wb") as file, make(file, table.schema) as writer:
                writer.write_table(table)
    return folder
