"""Files of rocprofv3 (rocpd) whose meaning is known, tests/fakes/rocpd: alone, and laid over recordings of the same GPUs."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from in_process import analysed, gssr

from gssr.traces.open import open_traces
from gssr.traces.timeline import Kind
from tests.fakes.amd import gpus
from tests.fakes.amd.gpus import MI300X, steady, unique
from tests.fakes.amd.tree import Live, Tree
from tests.fakes.amd.truth import Steps
from tests.fakes.rocpd import bad
from tests.fakes.rocpd.files import Process, Style, Written, boot_to_unix, trained, write
from tests.fakes.traces import kineto, loop
from tests.fakes.traces.content import Event, Split, split

ROOT = Path(__file__).parent.parent.parent
GPUS = tuple(unique(place) for place in range(4))
MS = 1_000_000


def uuid(place: int) -> str:
    return f"GPU-{GPUS[place]:016x}"


def meant(events: tuple[Event, ...], device: int) -> dict[str, int]:
    """What a rank's row says."""
    found: Split = split(events, device)
    return {
        "n_kernels": sum(e.kind.name == "KERNEL" and e.device == device for e in events), "span_ns": found.span,
        "busy_ns": found.busy, "idle_ns": found.idle, "compute_ns": found.compute,
        "communication_ns": found.communication, "copy_ns": found.copy,
        "exposed_communication_ns": found.exposed_communication, "exposed_copy_ns": found.exposed_copy,
    }  # fmt: skip


def agrees(said: dict[str, Any], written: Written) -> None:
    """Whether all ranks' rows are those that the file means."""
    rows = {row["rank"]: row for row in said["ranks"]}
    assert sorted(rows) == sorted(written.events), said["sources"]
    for rank, events in written.events.items():
        (device,) = {e.device for e in events if e.device is not None}
        assert {key: rows[rank][key] for key in meant(events, device)} == meant(events, device)


def test_a_file_says_what_ran(tmp_path: Path) -> None:
    written = write(tmp_path / "nid1" / "5000_results.db", [Process(trained(0, device=2), GPUS)])
    said = analysed(written.path)
    (source,) = said["sources"]
    assert (source["format"], source["left_out"]) == ("rocpd", 0)
    agrees(said, written)
    (row,) = said["ranks"]
    assert row["uuid"] == uuid(2) and row["gpu"] == 2 and row["node"] == os.uname().nodename
    assert (row["busy_ns"], row["compute_ns"], row["exposed_copy_ns"]) == (69 * MS, 48 * MS, 9 * MS)
    kernels = {each["name"]: each for each in said["kernels"]}
    assert {name: (each["count"], each["total_ns"], each["category"]) for name, each in kernels.items()} == {
        "void at::native::elementwise_kernel<512, 1>": (12, 24 * MS, "compute"),
        "Cijk_Ailk_Bljk_SB_MT128x128x16": (12, 24 * MS, "compute"),
        "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)": (3, 18 * MS, "communication"),
    }
    copies = {each["operation"]: (each["count"], each["bytes"], each["total_ns"]) for each in said["copies"]}
    assert copies == {"HtoD": (3, 3 << 20, 6 * MS), "DtoH": (3, 3 * 4096, 3 * MS)}
    ranges = {each["name"]: (each["count"], each["total_ns"]) for each in said["ranges"]}
    assert ranges == {f"step {step}": (1, 39 * MS) for step in range(3)}
    api = {each["name"]: each["count"] for each in said["api"]}
    assert api == {"hipLaunchKernel": 27, "hipMemcpyWithStream": 6}
    assert said["launches"]["count"] in (27, 33)  # of kernels, or of copies as well


STYLES = {
    "plain": Style(), "no views": Style(views=False), "ids of its own": Style(own_ids=True),
    "one set": Style(one_set=True, own_ids=True), "agents told by uuid": Style(unique=True),
    "rank not told": Style(rank=False), "agents not told": Style(told=False),
}  # fmt: skip


@pytest.mark.parametrize("name", STYLES)
def test_processes_of_one_file_are_kept_apart(tmp_path: Path, name: str) -> None:
    """Their queues, streams, kernels and threads have the same numbers."""
    style = STYLES[name]
    processes = [Process(trained(0, 3), GPUS), Process(trained(1, 1, steps=5), GPUS)]
    written = write(tmp_path / "merged.db", processes, style)
    said = analysed(written.path)
    rows = said["ranks"]
    assert len(rows) == 2 and sum(source["left_out"] for source in said["sources"]) == 0
    if style.rank:
        agrees(said, written)
    assert sorted(row["busy_ns"] for row in rows) == [69 * MS, 115 * MS]
    told = {row["busy_ns"]: row["uuid"] for row in rows}
    assert told in ({69 * MS: uuid(3), 115 * MS: uuid(1)}, *([] if style.told else [dict.fromkeys(told)]))
    assert sum(each["count"] for each in said["kernels"]) == 27 + 45


def test_a_training_loop_of_four_ranks_reads_as_it_ran(tmp_path: Path) -> None:
    made = loop.ail("straggler", 1, 4, 1)
    for content in made:
        write(tmp_path / f"{5000 + content.rank}_results.db", [Process(content, GPUS)], boot_ns=10**15)
    said = analysed(tmp_path)
    assert [row["rank"] for row in said["ranks"]] == [0, 1, 2, 3]
    for row, content in zip(said["ranks"], made, strict=True):
        events = tuple(e for e in content.events if e.device is None or e.kind.name in ("KERNEL", "MEMCPY"))
        assert {key: row[key] for key in meant(events, content.rank)} == meant(events, content.rank)
        assert row["uuid"] == uuid(content.rank)


def test_a_link_leads_from_the_call_to_the_kernel(tmp_path: Path) -> None:
    written = write(tmp_path / "a.db", [Process(trained(0), GPUS)])
    delay = analysed(written.path)["launches"]["delay_ns"]
    assert delay["mean"] == pytest.approx(MS // 2, abs=MS // 2) and delay["max"] <= MS


def test_marks_are_moments_and_change_no_sum(tmp_path: Path) -> None:
    written = write(tmp_path / "a.db", [Process(trained(0), GPUS)], Style(marks=True, own_ids=True))
    agrees(analysed(written.path), written)
    timeline = open_traces([str(written.path)]).timeline()
    own = timeline.intervals
    marks = [timeline.names[name] for name, kind in zip(own.name, own.kind, strict=True) if kind == Kind.MARK]
    assert sorted(marks) == ["step 0", "step 1", "step 2"]


@pytest.mark.parametrize("apart", [37 * MS, 3600 * 10**9], ids=["booted together", "booted apart"])
def test_two_nodes_have_two_clocks(tmp_path: Path, apart: int) -> None:
    """Each counts from when it was booted: that their times overlap means nothing."""
    for rank, host in enumerate(("nid1", "nid2")):
        process = [Process(trained(rank, 0), GPUS)]
        write(tmp_path / host / f"{rank}_results.db", process, Style(hostname=host), 10**15 + rank * apart)
    folders = [str(tmp_path / host) for host in ("nid1", "nid2")]
    said = analysed(*folders)
    assert [(row["rank"], row["node"], row["busy_ns"]) for row in said["ranks"]] == [
        (0, "nid1", 69 * MS), (1, "nid2", 69 * MS),
    ]  # fmt: skip
    assert said["clock"] == "unknown" and said["zero_unix_ns"] is None
    timeline = open_traces(folders).timeline()
    assert any("clock" in note for source in timeline.sources for note in source.notes)
    assert timeline.clock.unix_ns is None and int(timeline.intervals.start.max()) < 200 * MS


def test_torch_without_gpu_rows_says_so_and_not_that_the_gpu_idled(tmp_path: Path) -> None:
    """HIP was used before the profiler began: github.com/pytorch/kineto/issues/1338."""
    content = loop.ail("healthy", 0, 1, 2)[0]
    host = content._replace(events=tuple(e for e in content.events if e.device is None), samples=())
    said = analysed(kineto.write(tmp_path / "rank0.json", host, kineto.Style(rocm=True)))
    assert not any(row["idle_ns"] or row["busy_ns"] for row in said["ranks"])
    assert any("GPU" in note for note in said["sources"][0]["notes"])
    assert not [verdict for verdict in said["verdicts"] if "idle" in verdict["code"]]


def one_sentence(code: int, out: str, err: str, name: str) -> None:
    assert (code, out, err.count("\n")) == (1, "", 1), (code, out[:200], err)
    assert name in err and "Traceback" not in err


def test_of_a_cut_file_there_is_a_part_or_a_sentence(tmp_path: Path) -> None:
    for share in (0.03, 0.6, 0.97):
        path = bad.cut(tmp_path / "cut_results.db", Process(trained(0, steps=15), GPUS), share)
        code, out, err = gssr("analyze", "--json", path)
        assert "Traceback" not in err
        if code:
            one_sentence(code, out, err, path.name)
        else:
            (source,) = json.loads(out)["sources"]
            assert source["notes"]


def test_rows_without_an_end_are_left_out_and_counted(tmp_path: Path) -> None:
    said = analysed(bad.without_ends(tmp_path / "a.db", Process(trained(0), GPUS)).path)
    assert said["sources"][0]["left_out"] in (2, 3)
    assert sum(each["count"] for each in said["kernels"]) + sum(each["count"] for each in said["copies"]) in (30, 31)


def test_a_schema_of_another_time_is_read_rightly_or_not_at_all(tmp_path: Path) -> None:
    written = bad.other_schema(tmp_path / "a.db", Process(trained(0), GPUS))
    code, out, err = gssr("analyze", "--json", written.path)
    if code:
        one_sentence(code, out, err, written.path.name)
    else:
        assert not json.loads(out)["kernels"] and "\n".join(json.loads(out)["sources"][0]["notes"])


def test_names_that_are_none_cost_nothing_else(tmp_path: Path) -> None:
    written = bad.nameless(tmp_path / "a.db", Process(trained(0), GPUS))
    code, out, err = gssr("analyze", "--json", written.path)
    assert code == 0, err
    said = json.loads(out)
    assert said["ranks"][0]["busy_ns"] in (69 * MS, 67 * MS)
    assert sum(each["count"] for each in said["kernels"]) in (26, 27)
    assert any("ernel<" in each["name"] for each in said["kernels"])


def test_nothing_on_a_gpu_is_not_an_idle_gpu(tmp_path: Path) -> None:
    for make in (bad.no_gpu, bad.empty):
        written = make(tmp_path / "a.db", Process(trained(0), GPUS))
        code, out, err = gssr("analyze", "--json", written.path)
        if code:
            one_sentence(code, out, err, written.path.name)
            continue
        said = json.loads(out)
        assert not said["kernels"] and not any(row["n_kernels"] or row["idle_ns"] for row in said["ranks"])
        assert not [verdict for verdict in said["verdicts"] if "idle" in verdict["code"]]


def test_views_and_triggers_of_strangers_are_never_run(tmp_path: Path) -> None:
    process = Process(trained(0), GPUS)
    begun = time.process_time()
    for make in (bad.evil_view, bad.trigger):
        written = make(tmp_path / f"{make.__name__}.db", process)
        before = written.path.read_bytes()
        code, out, err = gssr("analyze", "--json", written.path)
        if code:
            one_sentence(code, out, err, written.path.name)
        else:
            agrees(json.loads(out), written)
        assert written.path.read_bytes() == before
    written = bad.view_for_a_table(tmp_path / "view.db", process)
    code, out, err = gssr("analyze", "--json", written.path)
    if code:
        one_sentence(code, out, err, written.path.name)
    else:
        assert sum(each["count"] for each in json.loads(out)["kernels"]) == 0
    assert time.process_time() - begun < 20


class Recorded:
    """A run on a GPU whose files were made, and what its GPU did meanwhile. Its command left a trace of that where
    ``gssr profile`` looks for them; ``bare`` is the recording without it."""

    def __init__(self, folder: Path) -> None:
        self.recording, self.bare = folder / "x.sql", folder / "bare.sql"
        self.content = trained(0, device=2, steps=45)
        changes = [(step * 0.04 + begin, use) for step in range(45) for begin, use in ((0.001, 1.0), (0.024, 0.0))]
        busy = steady(2)._replace(utilization=Steps(((0.0, 0.0), *changes)))
        tree = Tree(folder / "root", gpus.full_node(MI300X, 4, truth=[steady(0), steady(1), busy, steady(3)]))
        with Live(tree, 0.008) as live:
            self.boot_ns = round(live.began * 1e9) - boot_to_unix()
            trace = write(folder / "1_results.db", [Process(self.content, GPUS)], boot_ns=self.boot_ns).path
            command = [sys.executable, "-m", "gssr", "profile", "--backend", "amd", "-t", "100", "-o", str(self.recording),
                       "--", "sh", "-c", f"sleep 1.7; cp {trace} $GSSR_TRACES"]  # fmt: skip
            environment = {"PYTHONPATH": str(ROOT), "GSSR_AMD_ROOT": str(tree.root), "ROCR_VISIBLE_DEVICES": "2"}
            ran = subprocess.run(
                command, env=os.environ | environment, cwd=folder, stderr=subprocess.PIPE, text=True, timeout=60
            )
        assert ran.returncode == 0, ran.stderr
        shutil.copy(self.recording, self.bare)
        with contextlib.closing(sqlite3.connect(self.bare)) as db:
            db.execute("DELETE FROM traces")
            db.commit()

    def joined(self, path: Path, style: Style | None = None, later: int = 0) -> tuple[Written, dict[str, Any], str]:
        """A trace of it, the run with the trace attached, and all sentences."""
        written = write(path, [Process(self.content, GPUS)], style, self.boot_ns + later)
        code, out, err = gssr("analyze", "--json", self.bare, "--attach", path)
        assert code == 0, err
        (run,) = json.loads(out)["runs"]
        notes = [*run["notes"], *(note for row in run["traces"] for note in row["notes"]), err]
        return written, run, "\n".join(notes)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return Recorded(tmp_path_factory.mktemp("recorded"))


def test_a_trace_that_the_job_has_left_belongs_to_its_recording(recorded: Recorded) -> None:
    code, out, err = gssr("analyze", "--json", recorded.recording)
    assert code == 0, err
    (run,) = json.loads(out)["runs"]
    (row,) = run["traces"]
    assert [run["gpus"][place]["uuid"] for place in row["gpus"]] == [uuid(2)]
    assert row["path"].endswith("1_results.db") and row["clock"] != "by comparison"


@pytest.mark.parametrize("name", ["plain", "agents told by uuid", "agents not told"])
def test_a_trace_of_this_boot_lies_where_it_belongs(recorded: Recorded, tmp_path: Path, name: str) -> None:
    written, run, said = recorded.joined(tmp_path / "t_results.db", STYLES[name])
    (gpu,) = run["gpus"]
    assert gpu["uuid"] == uuid(2)
    (row,) = run["traces"]
    assert [run["gpus"][place]["uuid"] for place in row["gpus"]] == [uuid(2)]
    last = max(e.end for e in written.events[0]) / 1e9  # it begins before the run, as the files do
    assert row["end"] == pytest.approx((written.boot_ns + boot_to_unix()) / 1e9 + last, abs=0.1)
    assert row["clock"] != "by comparison" and abs(row["offset_s"] or 0) < 0.1, said


@pytest.mark.parametrize(
    ("style", "later"),
    [(Style(hostname="elsewhere"), 0), (Style(), 400 * 86_400 * 10**9)],
    ids=["another host", "another boot"],
)
def test_a_trace_of_another_boot_or_host_is_not_laid_by_the_clock(
    recorded: Recorded, tmp_path: Path, style: Style, later: int
) -> None:
    _, run, said = recorded.joined(tmp_path / "t_results.db", style, later)
    assert all(row["clock"] == "by comparison" for row in run["traces"])
    assert run["traces"] or "t_results.db" in said
