"""The page that README.md shows is one that ``make demo`` ends with."""

import re
import sqlite3
from pathlib import Path

import fenced

README = fenced.ROOT / "README.md"
FIRST_SCREENS = 75
"""Lines: the sentence, the film, three ways to begin, and what comes of it."""
HOST = {
    "host_samples": (0.5, 1.0, 1 << 30, 24 << 30, 0.0, 1e6, 0.0, 0.0, None, None),
    "workload_samples": (0.8, 5 << 20, 3),
}
"""What stands in for the host of the demonstration."""


def demonstration(folder: Path) -> str:
    """The page of a recording such as ``make demo`` makes: the same scenario, without the 20 s."""
    makefile = (fenced.ROOT / "Makefile").read_text(encoding="utf-8")
    recorded = re.search(r"profile --backend synthetic:(\w+):(\d+) -t (\d+)", makefile)
    assert recorded
    scenario, gpus, interval = recorded.groups()
    generate = f"python -m gssr.backends.synthetic {scenario} --gpus {gpus} --hours 0.005556 -t {interval} -o demo.sql"
    assert fenced.run([generate], folder)[0].exit_code == 0
    with sqlite3.connect(folder / "demo.sql") as connection:
        connection.execute("UPDATE gpus SET node = 'vm'")
        for table, values in HOST.items():
            marks = ", ".join("?" * len(values))
            own = "node" if table == "host_samples" else "rank"
            connection.execute(
                f"INSERT INTO {table} SELECT run_id, {own}, started_at + 1, {marks} FROM processes", values
            )
    (outcome,) = fenced.run(["gssr analyze demo.sql"], folder)
    return outcome.output


def shape(line: str) -> str:
    """A line without what differs from run to run: numbers, the length of bars, where lines are broken."""
    line = re.sub(r"[▁▂▃▄▅▆▇█▓▒░·▊▙▌▚▎╳▀╬:?]+|[━╸─]+", "=", line)
    return re.sub(r"\s+", " ", re.sub(r"[\d.,]+", "0", line)).strip()


def test_the_readmes_page_is_that_of_the_demonstration(tmp_path: Path) -> None:
    (shown,) = fenced.blocks(README, "text")
    page = demonstration(tmp_path)
    printed = [shape(line) for line in page.splitlines()]
    at = 2  # the name of the run and its command are the demonstration's own
    for line in shown.text.splitlines()[2:]:
        if line == "...":
            continue
        assert shape(line) in printed[at:], f"the page has no line like {line!r} here:\n{page}"
        at = printed.index(shape(line), at) + 1
    found, told = ([float(x) for x in re.findall(r"=([\d.]+)", text.splitlines()[-1])] for text in (page, shown.text))
    assert all(abs(a - b) < 0.03 for a, b in zip(found, told, strict=True)), "the scenario has changed: make demo"


def test_the_first_screens_show_the_commands_and_real_output() -> None:
    first = "\n".join(README.read_text(encoding="utf-8").splitlines()[:FIRST_SCREENS])
    wanted = ("screenshots/film.gif", "gssr profile", "make demo", "make test", "GSSR score=", "samples NVIDIA GPUs")
    assert [text for text in wanted if text not in first] == []
