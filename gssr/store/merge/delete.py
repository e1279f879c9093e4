"""Deleting runs from a recording that holds others as well."""

import sqlite3
from collections.abc import Collection

from gssr.store.format.columns import columns_of
from gssr.store.format.host_rollups import USE_TABLES, add_up
from gssr.store.format.schema import TABLES


def delete_runs(connection: sqlite3.Connection, run_ids: Collection[str]) -> None:
    """Delete these runs in one transaction, with all that belongs to them. What they took of the file is reused by
    later writes. Raises sqlite3.Error; then all of them are still there."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("CREATE TEMP TABLE gone (run_id TEXT PRIMARY KEY)")
        connection.executemany("INSERT INTO temp.gone VALUES (?)", [(run_id,) for run_id in run_ids])
        runs = "run_id IN (SELECT run_id FROM temp.gone)"
        gpus = f"gpu IN (SELECT gpu FROM main.gpus WHERE {runs})"
        of_run = [table for table in TABLES if "run_id" in columns_of(connection, table)]
        of_gpu = [table for table in TABLES if table not in of_run and "gpu" in columns_of(connection, table)]
        for table in of_gpu:  # first, as long as it is known whose the GPUs are
            connection.execute(f"DELETE FROM main.{table} WHERE {gpus}")
        for table in of_run:
            connection.execute(f"DELETE FROM main.{table} WHERE {runs}")
        for use in USE_TABLES:
            add_up(connection, use)
        connection.execute("DROP TABLE temp.gone")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
