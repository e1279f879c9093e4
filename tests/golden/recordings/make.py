"""Record by an earlier commit, and keep what that commit itself says of its recording: NAME.sql.gz and NAME.json.

    python tests/golden/recordings/make.py COMMIT SCENARIO [OPTIONS OF gssr profile ...]

Three synthetic GPUs for 34 s, a sample a second. Whose machine it was is taken out. Of what ``gssr analyze --json`` says,
all is kept but what is said in words or judged (verdicts, the breakdown, notes, rooflines), which later versions do better.
"""

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

FOLDER = Path(__file__).parent
JUDGED = ("verdicts", "abstentions", "breakdown", "notes", "roofline")


def kept(node: object) -> object:
    """A JSON value without what is said in words or judged, at any depth."""
    if isinstance(node, dict):
        return {key: kept(value) for key, value in node.items() if key not in JUDGED}
    return [kept(value) for value in node] if isinstance(node, list) else node


def _anonymize(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        known = {"node": "node1", "hostname": "node1", "user": "user", "boot_id": "boot", "pid": 100, "pid_start": 1}
        for table in tables:
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for column, value in known.items():
                if column in columns and table != "gpu_processes":
                    connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} > ''", (value,))
            if "run_id" in columns:
                connection.execute(f"UPDATE {table} SET run_id = 'run'")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")  # nothing of it is left in free pages


def main(commit: str, scenario: str, *options: str) -> None:
    """Write both files for this commit."""
    name = f"{subprocess.check_output(['git', 'rev-parse', '--short=8', commit], text=True).strip()}-{scenario}"
    with tempfile.TemporaryDirectory() as folder:
        tree = subprocess.run(["git", "archive", commit, "gssr"], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "x", "-C", folder], input=tree, check=True)
        gssr = [sys.executable, "-m", "gssr"]
        own = {"cwd": folder, "env": os.environ | {"PYTHONPATH": folder}, "check": True}
        backend = ["--backend", f"synthetic:{scenario}:3", "-t", "1000"]
        subprocess.run([*gssr, "profile", *backend, "-o", "run.sql", *options, "--", "sleep", "34"], **own)
        path = Path(folder, "run.sql")
        _anonymize(path)
        said = subprocess.run([*gssr, "analyze", "--json", "run.sql"], **own, stdout=subprocess.PIPE).stdout
        (FOLDER / f"{name}.sql.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    (FOLDER / f"{name}.json").write_text(json.dumps(kept(json.loads(said)["runs"][0]), indent=0) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
