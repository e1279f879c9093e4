"""A file from somebody else takes memory in proportion to its size, whatever it lists."""

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from benchmarks.processes import ENVIRONMENT, GSSR
from gssr.convert.tables import Exported
from gssr.model.breakdown.categories import CATEGORIES
from gssr.model.compare.comparison import analyze_to_compare
from gssr.model.verdicts.rules import TABLE
from gssr.store.read.recording import open_recording
from tests.fuzz.readers import large

BASE, OF_A_BYTE = 80e6, 11
"""Bytes: together 300 MB for a file of 20 MB."""
PEAK = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""
"""A process of its own, because a child's peak counts from before its program was loaded."""
LOOK = """
import sys
from gssr.model.live.live_result import Query
from gssr.model.live.watched_recording import WatchedRecording
from gssr.model.live.watch import Watch
watch = WatchedRecording(sys.argv[1])
assert watch.look(Query(rows=30, columns=150, activity=True), quick=True).problem is None
"""


def peak(*words: str) -> int:
    found = subprocess.run(
        [sys.executable, "-c", PEAK, *words], env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=300
    )
    code, size = map(int, found.stdout.split())
    assert code == 0, found.stderr
    return size


@pytest.mark.parametrize(
    ("make", "commands"),
    [
        (partial(large.listed, n=10_000), (("analyze", "--json"), ("look",))),
        (partial(large.once, n=10_000), (("analyze", "--json"),)),
        (partial(large.runs, n=100, gpus=100, ticks=4), (("analyze",),)),
    ],
    ids=["listed", "sampled once", "runs"],
)
def test_a_file_that_lists_very_much_takes_memory_in_proportion_to_its_size(
    tmp_path: Path, make: Callable[[Path], None], commands: tuple[tuple[str, ...], ...]
) -> None:
    path = tmp_path / "a.sql"
    make(path)
    allowed = BASE + OF_A_BYTE * path.stat().st_size
    for words in commands:
        whole = (sys.executable, "-c", LOOK, str(path)) if words == ("look",) else (*GSSR, *words, str(path))
        assert peak(*whole) <= allowed, words


def test_what_is_kept_of_a_gpu_while_two_runs_are_compared_or_one_is_exported_is_little(tmp_path: Path) -> None:
    path, n = tmp_path / "a.sql", 5_000
    large.once(path, n=n)

    def compared_with_others() -> object:
        with closing(open_recording(path)) as recording:
            return analyze_to_compare(recording.runs[0], TABLE)

    def exported() -> object:
        with closing(open_recording(path)) as recording:
            own = Exported(recording.runs[0], "a.sql", TABLE)
            assert len(own.figures.gpus) == n and own.analysis.metrics and not own.analysis.gpus
            return own

    def traced(ask: Callable[[], object]) -> float:
        """Bytes of a GPU in what comes back."""
        ask()  # what is kept once, whatever is asked
        gc.collect()
        tracemalloc.start(1)
        try:
            _kept = ask()
            gc.collect()
            return tracemalloc.get_traced_memory()[0] / n
        finally:
            tracemalloc.stop()

    assert traced(compared_with_others) <= 410 + 8 * len(CATEGORIES) + 48  # the breakdown's seconds, and whose they are
    assert traced(exported) <= 1140
