"""What earlier commits recorded opens with the numbers that they themselves found in it: tests/golden/recordings."""

import gzip
import json
import math
from pathlib import Path

import pytest

from gssr.metrics import BY_NAME
from gssr.model.analyze import analyze
from gssr.report.json_document import to_json
from gssr.store.read.recording import RunReader, open_recording

FOLDER = Path(__file__).parents[1] / "golden" / "recordings"
EARLIER = sorted(path.name.removesuffix(".sql.gz") for path in FOLDER.glob("*.sql.gz"))


@pytest.fixture(params=EARLIER)
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[RunReader, dict]:
    path = tmp_path / "run.sql"
    path.write_bytes(gzip.decompress((FOLDER / f"{request.param}.sql.gz").read_bytes()))
    (run,) = open_recording(path).runs
    return run, json.loads((FOLDER / f"{request.param}.json").read_text())


def differences(before: object, now: object, where: str) -> list[str]:
    """Where a JSON value lacks what was there before, or has something else; numbers to within rounding."""
    if isinstance(before, dict) and isinstance(now, dict):
        each = ((before[key], now.get(key, "nothing"), f"{where}.{key}") for key in before)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        each = ((*pair, f"{where}[{at}]") for at, pair in enumerate(zip(before, now, strict=True)))
    else:
        are_numbers = isinstance(before, int | float) and isinstance(now, int | float)
        same = math.isclose(before, now, rel_tol=1e-9) if are_numbers else before == now
        return [] if same else [f"{where}: {before!r} is now {now!r}"]
    return [difference for one in each for difference in differences(*one)]


def test_there_are_some() -> None:
    assert len(EARLIER) >= 8


def test_it_says_the_same_numbers(earlier: tuple[RunReader, dict]) -> None:
    run, before = earlier
    assert differences(before, json.loads(to_json([analyze(run)]))["runs"][0], "") == []


def test_its_rollups_and_sketches_count_what_its_samples_are(earlier: tuple[RunReader, dict]) -> None:
    run, before = earlier
    buckets = run.buckets()
    starts = {metric.name: start for metric, start, _ in buckets.layout.blocks}
    names = [name for name, own in before["metrics"].items() if own["n"] and BY_NAME[name].kind in ("gauge", "rate")]
    assert len(names) > 20
    bins = run.histograms(names).counts
    for name in names:
        start, own = starts[name], before["metrics"][name]
        n, total = buckets.vectors[:, start].sum(), buckets.vectors[:, start + 1].sum()
        assert n == own["n"] == bins[name].sum(), name
        assert math.isclose(total / n, own["mean"], rel_tol=1e-9), name
