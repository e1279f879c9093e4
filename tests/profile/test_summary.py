"""The line that ends a run is the line that ends its page."""

import random

import pytest

from gssr.metrics import NAMES
from gssr.model.analyze import analyze
from gssr.profile.sampling.summary import whole_run
from gssr.report.page import closing_line
from gssr.store.read.recording import open_recording
from gssr.store.write.writer import Writer

START = 1_700_000_003.0


def rows(case, n_gpus):
    rng = random.Random(3)
    for tick in range(0 if case == "no samples" else 400):
        if case == "gaps" and 100 <= tick < 130:
            continue
        for gpu in range(n_gpus):
            values = [None if case == "nothing measured" else rng.random() for _ in NAMES]
            if case == "holes":
                values = [None if rng.random() < 0.3 else value for value in values]
            if not (case == "a silent GPU" and gpu == 1):
                yield (gpu, START + tick * 0.5, *values)


@pytest.mark.parametrize("case", ["plain", "gaps", "holes", "a silent GPU", "nothing measured", "no samples", "no GPU"])
def test_the_sampler_and_the_page_say_the_same(tmp_path, case):
    n_gpus = 0 if case == "no GPU" else 3
    writer = Writer(str(tmp_path / "a.sql"))
    writer.begin({"run_id": "r", "started_at": START, "sampling_ms": 500, "state": "running"}, {"rank": 0})
    writer.add_gpus([{"device_index": gpu, "uuid": f"GPU-{gpu}"} for gpu in range(n_gpus)], NAMES, 0.5)
    for row in rows(case, n_gpus):
        writer.add([row])
        writer.tick(row[1])
    assert writer.finish(START + 200, 0, "completed", START + 200)
    (reader,) = open_recording(tmp_path / "a.sql").runs
    assert whole_run(writer.totals.values()) == closing_line(analyze(reader))
