"""Files that could be read only in part say so on page, in JSON and on screens, and are not judged as a whole run's."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gssr.cli import main
from gssr.commands.tui import watches_of
from gssr.model.breakdown.categories import POSITIONS
from gssr.model.traces.analyze_trace import analyze_timeline, combined
from gssr.traces.open import open_traces
from gssr.tui.view import View
from tests.fakes.perfetto import as_rocprofv3
from tests.fakes.rocpd.files import Process, trained, write
from tests.fakes.rocpd.other_formats import as_csv
from tests.fakes.traces import ncu
from tests.fakes.traces.beside import Truth
from tests.looking import live_screen, seen, until, work

SAMPLES = Path(__file__).parent / "samples"


def cut(path: Path, share: float) -> Path:
    """Cut a file off."""
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * share)])
    return path


def cut_kineto(folder: Path) -> Path:
    return cut(Path(shutil.copy(SAMPLES / "launch-rank0.json.gz", folder)), 0.6)


def cut_perfetto(folder: Path) -> Path:
    (folder / "a.pftrace").write_bytes(as_rocprofv3())
    return cut(folder / "a.pftrace", 0.9)


def cut_csv(folder: Path) -> Path:
    written = write(folder / "a.db", [Process(trained(1, device=1), (5, 6))])
    (folder / "csv").mkdir()
    files = as_csv(written.path, written.tables[0], folder / "csv")
    cut(next(file for file in files if "kernel_trace" in file.name), 0.7)
    return folder / "csv"


def cut_nsys(folder: Path) -> Path:
    return cut(Path(shutil.copy(SAMPLES / "straggler-2025.6.sqlite", folder)), 0.99)


CUTS = {"kineto": cut_kineto, "perfetto": cut_perfetto, "csv": cut_csv, "nsys": cut_nsys}


@pytest.mark.parametrize("name", CUTS)
def test_a_file_that_is_read_in_part_says_so_and_is_not_judged(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(CUTS[name](tmp_path))
    assert main(["analyze", path]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "is cut off or damaged: times and shares are of what could be read" in page
    assert main(["analyze", "--json", path]) == 0
    found = json.loads(capsys.readouterr().out)
    (source,) = found["sources"]
    assert source["is_damaged"] and any("cut off" in note for note in source["notes"])
    reasons = {each["reason"] for each in found["abstentions"]}
    assert found["verdicts"] == [] and reasons == {"a file is cut off or damaged: some of what was done may be missing"}
    assert found["critical_path"] is None
    categories = {each["name"]: each for each in found["breakdown"]["categories"]}
    assert categories["end"]["share"] == 0 and categories["working.other"]["confidence"] == "guess"


@pytest.mark.parametrize("name", CUTS)
def test_the_screens_say_that_the_file_is_damaged(name: str, tmp_path: Path) -> None:
    (watch,) = watches_of([str(CUTS[name](tmp_path))])
    app = live_screen(watch, view=View(screen="why"))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "Not judged: the trace" in seen(app))
        assert "where the GPU time went in a damaged file" in seen(app)
        assert "Nothing stands out" not in seen(app)

    work(app, steps)


def test_what_comes_after_the_last_work_of_a_damaged_rank_is_not_measured() -> None:
    timelines = [open_traces([str(SAMPLES / f"straggler-rank{rank}.json.gz")]).timeline() for rank in (0, 1)]
    whole = combined([analyze_timeline(each) for each in timelines]).breakdown
    (source,) = timelines[1].sources
    half = len(timelines[1].intervals) // 2
    own = timelines[1].intervals
    first_half = replace(own, **{name: getattr(own, name)[:half] for name in own.__slots__})
    damaged = replace(timelines[1], intervals=first_half, sources=(source._replace(is_damaged=True),))
    found = combined([analyze_timeline(timelines[0]), analyze_timeline(damaged)])
    assert whole is not None and found.breakdown is not None
    unmeasured = found.breakdown.by_gpu[:, POSITIONS["unmeasured"]]
    assert unmeasured[1] > 0.3 * found.breakdown.by_gpu[1].sum() > unmeasured[0]
    assert found.breakdown.by_gpu[1, POSITIONS["end"]] == 0 and not found.verdicts


def test_a_damaged_trace_names_no_cause_in_a_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = Truth(ranks=1, seconds=60)
    truth.record(tmp_path / "run.sql")
    truth.trace(tmp_path / "rank0.json", 0, 20.0, 40.0)
    cut(tmp_path / "rank0.json", 0.9)
    assert main(["analyze", "--json", str(tmp_path / "run.sql"), "--attach", str(tmp_path / "rank0.json")]) == 0
    (trace,) = json.loads(capsys.readouterr().out)["runs"][0]["traces"]
    assert not trace["split"] and not trace["idle"] and not trace["gaps"] and not trace["verdicts"]
    assert trace["breakdown"] is None and trace["kernels"]
    assert "the trace rank0.json is cut off or damaged: times and shares are of what could be read" in trace["notes"]


@pytest.mark.parametrize("write_csv", [ncu.details, ncu.raw])
def test_kernels_of_a_file_that_is_cut_off_say_so(
    write_csv: Callable[[], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(write_csv())
    cut(path, 0.9)
    said = "ends in the middle of a row: what ncu wrote from there on is missing"
    assert main(["analyze", str(path)]) == 1
    assert said in " ".join(capsys.readouterr().out.split())
    assert main(["analyze", "--json", str(path)]) == 1
    (damage,) = json.loads(capsys.readouterr().out)["damage"]
    assert damage.endswith(said)
