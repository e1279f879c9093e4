"""Recordings of which every text is an attack, and what must hold for whatever is made of them."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from rich.cells import cell_len

from gssr.backends.synthetic.bulk import generate
from gssr.render.cells import LONGEST

ATTACKS = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31;5mred\x1b[10;10H\x1b[6n",  # title, clear, colours, go there, answer me
    "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\ \x1b]52;c;ZXZpbA==\x07",  # a link, the clipboard
    "\x1bP$qm\x1b\\\x1bP1000p\x9b31m\x9d52;c;eA==\x9c\x90q\x9c",  # DCS, and C1 codes
    "first\nsecond\r\rthird\x0b\x0c\x85\u2028\u2029\b\b\b\x7f\x00\ttab",
    "\u202egnp.exe\u2066\u2069\u200f\u061c\u200b\ufeff\u00ad\u2060",  # right to left, and nothing at all
    "a" + "\u0301" * 300 + "क्षि 각\u1160ㅤ 👩‍👩‍👧‍👦 🇩🇪 👍🏿 ﷽ ☰ 漢字",
    "[bold red]rich[/] [link=http://evil.example]x[/link] [/] [@click=app.quit]quit[/] [[ ]] \\[b] :smile:",
    "<script>alert(1)</script><img src=x onerror=alert(1)>'\"><svg/onload=alert(1)>&lt;b&gt;&#x3c;i&#x3e;",
    "</script><!-- ]]> --><style>*{display:none}</style><iframe src='javascript:alert(1)'>`${alert(1)}`",
    '$\\frac{1}{0}$ $x^ \\input{/etc/passwd} %s %n {0.__class__} {{7*7}} =HYPERLINK("http://evil.example")',
    "'; DROP TABLE runs; -- \" OR 1=1 /* \\",
    "\udcff\ud800 é\ufffe\U0010ffff\ue000 \x1c\x1d\x1e\x1f",
)
"""What is dangerous for a terminal, for a line, for the eye, for markup, for formulas and for what is evaluated."""
HUGE = "x" * (1 << 20)

_TEXTS = {
    "runs": ("run_id", "label", "job_id", "step_id", "launcher", "cluster", "user", "gssr_version"),
    "processes": ("run_id", "node", "hostname", "boot_id"),
    "gpus": ("run_id", "node", "uuid", "name", "compute_capability", "driver_version", "backend", "mig"),
    "host_samples": ("run_id", "node"),
    "workload_samples": ("run_id",),
    "process_gpus": ("run_id",),
    "gpu_processes": ("name", "user"),
    "events": ("run_id", "node", "message"),
    "merged": ("run_id", "shard"),
}
"""Every column of text, but the state, which readers take for one of those there are, and kinds of events."""


def attack(field: str, number: int) -> str:
    """An attack for a field: all there are, beginning with number ``number``, so that a cut field begins with each in turn;
    text that a database takes."""
    at = (number + sum(map(ord, field))) % len(ATTACKS)
    text = " ".join((f"{field}!", *ATTACKS[at:], *ATTACKS[:at]))
    return text.encode("utf-8", "backslashreplace").decode()


def write(path: Path, number: int = 0, huge: bool = False, texts: bool = True) -> None:
    """A run of 16 GPUs on two nodes over ten minutes, all of whose texts are attacks, from ``number`` on; ``huge``: of a
    megabyte each as well, and of 9 GPUs. Without ``texts`` the same run as it would be without any attack."""
    generate(str(path), "imbalanced", 9 if huge else 16, 1 / 6, 2.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        run = file.execute("SELECT run_id, started_at, ended_at FROM runs").fetchone()
        for at, kind in enumerate(("mark", "gpu_lost", "gap", "xid", "throttle_begin", "\x1b[31mkind\n<b>[red]")):
            event = (run[0], run[1] + 60 * at + 30, "node0000" if at % 2 else None, at or None, 0, kind, "")
            file.execute(
                "INSERT INTO events (run_id, time, node, gpu, rank, kind, message) VALUES (?,?,?,?,?,?,?)", event
            )
        for gpu in range(3):  # the newest look at each
            look = (gpu, run[2], 1, 4000 + gpu, "python", "user", 1 << 30, 0.5)
            file.execute("INSERT INTO gpu_processes VALUES (?,?,?,?,?,?,?,?)", look)
        row = (run[0], "node0000", run[1] + 30, 0.5, 1.0, 1 << 30, 1 << 34)
        file.execute(
            "INSERT INTO host_samples (run_id, node, time, cpu_utilization, load1, memory_used, memory_total)"
            " VALUES (?,?,?,?,?,?,?)", row,
        )  # fmt: skip
        for table, columns in _TEXTS.items() if texts else ():
            for column in columns:
                key = "run" if column == "run_id" else column
                text = (
                    ("H100 " if column == "name" else "")
                    + attack(key, number)
                    + (HUGE if huge and table != "gpus" else "")
                )
                if column in ("node", "hostname"):  # two nodes, whatever table they are told in
                    file.execute(
                        f"UPDATE {table} SET {column} = substr({column}, 1, 8) || ?", (attack("node", number),)
                    )
                elif column == "uuid":
                    file.execute(f"UPDATE {table} SET {column} = ? || gpu", (text,))
                else:
                    file.execute(f"UPDATE {table} SET {column} = ?", (text,))
        if not texts:
            return
        if huge:  # of a GPU of each node: that is much already
            for column in _TEXTS["gpus"][2:]:
                file.execute(f"UPDATE gpus SET {column} = {column} || ? WHERE gpu % 8 = 0", (HUGE,))
        command = [attack("word", number), attack("argument", number + 1), HUGE if huge else "end"]
        file.execute("UPDATE runs SET command = ?", (json.dumps(command),))


_SGR = re.compile(r"\x1b\[[0-9;]*m")


def harmless(text: str, sgr: bool = False) -> None:
    """Nothing in the text but what is printed as it is, and newlines; with ``sgr`` our own colours as well."""
    bare = _SGR.sub("", text) if sgr else text
    found = {char for char in bare if char != "\n" and not char.isprintable()}
    assert not found, f"{found!r} in {next(line for line in bare.splitlines() if found & set(line))!r}"


def narrow(text: str, width: int, but_last: bool = False) -> None:
    """No line takes more cells than ``width`` on a terminal, as Textual and Rich count them."""
    lines = text.split("\n")
    for line in lines[: -2 if but_last else None]:
        assert cell_len(_SGR.sub("", line)) <= width, line
    assert max(map(len, lines)) <= 2 * LONGEST
