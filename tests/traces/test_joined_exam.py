"""Recordings and traces of one run, joined: against runs whose truth is known (tests/fakes/joined)."""

import hashlib
import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_process import gssr

from tests.fakes.joined import run
from tests.fakes.joined.run import CASES, INTERVAL, START, Joined

MAY_MISS = INTERVAL
"""Seconds by which a clock that was found by comparison may be off: the recording's interval."""


def analysed(*words: str | Path) -> dict[str, Any]:
    """The one run as ``gssr analyze --json`` has it."""
    code, out, err = gssr("analyze", "--json", *words)
    assert code == 0, err
    (found,) = json.loads(out)["runs"]
    return dict(found)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Joined, dict[str, Any]]]:
    """By case: what was made, and what is said of it; each is made once."""
    return Known(tmp_path_factory)


class Known(dict[str, tuple[Joined, dict[str, Any]]]):
    """Cases by name, made when they are asked for."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.factory = factory

    def __missing__(self, name: str) -> tuple[Joined, dict[str, Any]]:
        joined = run.make(self.factory.mktemp("joined"), CASES[name])
        self[name] = joined, analysed(joined.recording, "--attach", *joined.traces)
        return self[name]


def uuids(said: dict[str, Any], row: dict[str, Any]) -> set[str]:
    """Of the GPUs over which a trace was laid: positions in the run's, as of verdicts."""
    return {said["gpus"][position]["uuid"] for position in row["gpus"]}


def all_said(said: dict[str, Any]) -> str:
    """All sentences of notes: of the run's and of the traces'."""
    return "\n".join([*said["notes"], *(note for row in said["traces"] for note in row["notes"])])


def test_the_samples_are_of_the_kernels(made: dict[str, tuple[Joined, dict[str, Any]]]) -> None:
    """The examination itself: the share busy, by a plain walk over the kernels."""
    joined, _ = made["same clock"]
    for rank, (times, share) in joined.samples.items():
        for at in range(0, len(times), 90):
            end = (at + 1) * INTERVAL
            begin = end - INTERVAL
            covered = sum(max(0.0, min(stop, end) - max(start, begin)) for start, stop in joined.busy[rank])
            assert share[at] == pytest.approx(covered / INTERVAL, abs=1e-9)
        assert np.allclose(np.diff(times), INTERVAL)


@pytest.mark.parametrize("name", ["late", "early", "nvml", "nsys late"])
def test_a_clock_that_is_off_is_found(made: dict[str, tuple[Joined, dict[str, Any]]], name: str) -> None:
    joined, said = made[name]
    assert said["traces"]
    for row in said["traces"]:
        assert row["clock"] == "by comparison"
        assert abs(abs(row["offset_s"]) - abs(joined.case.offset)) <= MAY_MISS
        assert row["start"] == pytest.approx(START + joined.case.window[0], abs=MAY_MISS + 3)
        assert row["start"] + row["window_s"] == pytest.approx(row["end"], abs=0.01)
    assert len({np.sign(row["offset_s"]) for row in said["traces"]}) == 1


def test_what_is_ahead_and_what_is_behind_go_different_ways(made: dict[str, tuple[Joined, dict[str, Any]]]) -> None:
    late, early = (made[name][1]["traces"][0]["offset_s"] for name in ("late", "early"))
    assert late < 0 < early  # what is added to the trace's times


@pytest.mark.parametrize("name", ["same clock", "slight", "renumbered", "nsys renumbered", "four ranks", "ends later"])
def test_a_clock_that_agrees_is_left_alone(made: dict[str, tuple[Joined, dict[str, Any]]], name: str) -> None:
    joined, said = made[name]
    ranks = {row["rank"] for row in said["traces"]}
    assert ranks == ({None} if joined.case.form == "nsys" else set(range(joined.case.ranks)))
    for row in said["traces"]:
        assert (row["clock"], row["clock_check"], row["offset_s"]) == ("unix", "agrees", 0.0)
    assert not all_said(said).count("clock")


def test_an_archive_of_all_ranks_lies_over_the_gpus_of_all(made: dict[str, tuple[Joined, dict[str, Any]]]) -> None:
    """Its processes are called MPI Rank 0, 1 …: that tells the ranks."""
    pytest.importorskip("otf2")
    joined, said = made["archive"]
    assert said["traces"], all_said(said)
    assert set().union(*(uuids(said, row) for row in said["traces"])) == {uuid for _, _, uuid in joined.gpu_of.values()}
    for row in said["traces"]:
        assert abs(row["offset_s"] + joined.case.offset) <= MAY_MISS


def test_without_unix_times_the_samples_tell_when(made: dict[str, tuple[Joined, dict[str, Any]]]) -> None:
    joined, said = made["no unix time"]
    assert len(said["traces"]) == 1
    for row in said["traces"]:
        assert row["clock"] == "by comparison"
        assert abs(row["start"] - START - joined.case.window[0]) <= MAY_MISS + run.PERIOD


@pytest.mark.parametrize("name", ["periodic", "periodic, same clock"])
def test_steps_that_are_all_alike_tell_nothing_and_that_is_said(
    made: dict[str, tuple[Joined, dict[str, Any]]], name: str
) -> None:
    _, said = made[name]
    assert [row["offset_s"] for row in said["traces"]] == [0.0]
    assert {row["clock"] for row in said["traces"]} == {"unix"}
    if name == "periodic":  # half a period off: not where the unix time says, and nobody knows where
        assert all_said(said).count("rank0.json") or all(row["notes"] for row in said["traces"])


def test_a_gpu_that_is_always_busy_tells_nothing_and_that_is_said(
    made: dict[str, tuple[Joined, dict[str, Any]]],
) -> None:
    _, said = made["flat"]
    assert [(row["clock"], row["offset_s"]) for row in said["traces"]] == [("unix", 0.0)]
    assert all(row["notes"] for row in said["traces"])


@pytest.mark.parametrize("name", ["same clock", "renumbered", "nsys renumbered", "four ranks"])
def test_a_trace_lies_over_the_gpu_that_it_is_of(made: dict[str, tuple[Joined, dict[str, Any]]], name: str) -> None:
    """Numbers of GPUs are those of a process, where CUDA_VISIBLE_DEVICES is set."""
    joined, said = made[name]
    for row in said["traces"]:
        of = joined.gpu_of if row["rank"] is None else {row["rank"]: joined.gpu_of[row["rank"]]}
        assert uuids(said, row) == {uuid for _, _, uuid in of.values()}


def test_the_gpus_of_one_process_are_not_told_apart_by_their_numbers_alone(
    made: dict[str, tuple[Joined, dict[str, Any]]],
) -> None:
    """CUDA_VISIBLE_DEVICES=1,0: the samples tell which is which; else nothing lies over the wrong one, and that is said."""
    joined, said = made["one process"]
    positions = {gpu["uuid"]: position for position, gpu in enumerate(said["gpus"])}
    alone = [stall for stall in joined.stalls if len(stall.ranks) == 1]
    assert alone
    found = 0
    for stall in alone:
        right = positions[joined.gpu_of[stall.ranks[0]][2]]
        gaps = [gap for row in said["traces"] for gap in row["gaps"] if stall.name in (gap["doing"] or "")]
        near = [gap for gap in gaps if abs(gap["start"] - START - stall.begin) < 1 and gap["seconds"] > run.PERIOD * 3]
        assert {gap["gpu"] for gap in near} <= {right, None}, (stall, near)
        found += bool(near)
    assert found or "rank0.json" in all_said(said) or any(row["notes"] for row in said["traces"])


def test_ranks_are_known_by_their_gpus_too(made: dict[str, tuple[Joined, dict[str, Any]]]) -> None:
    """What is imported has one process, but ranks of GPUs."""
    joined, said = made["imported"]
    assert [uuids(said, row) for row in said["traces"]] == [{uuid} for _, _, uuid in joined.gpu_of.values()], all_said(
        said
    )


@pytest.mark.parametrize("name", ["another run", "other GPUs"])
def test_a_trace_of_another_run_is_not_joined_and_that_is_said(
    made: dict[str, tuple[Joined, dict[str, Any]]], name: str
) -> None:
    joined, said = made[name]
    assert said["traces"] == []
    for path in joined.traces:
        assert path.name in all_said(said)
    alone = analysed(joined.recording)
    assert alone["score"] == said["score"] and alone["verdicts"] == said["verdicts"]
    code, page, _ = gssr("analyze", joined.recording, "--attach", *joined.traces)
    assert code == 0 and joined.traces[0].name in page


@pytest.mark.parametrize("name", ["ends later", "late", "nsys renumbered"])
def test_the_window_is_held_against_the_run(made: dict[str, tuple[Joined, dict[str, Any]]], name: str) -> None:
    joined, said = made[name]
    begin, end = joined.case.window
    end = min(end, joined.case.recorded)
    for row in said["traces"][:1]:
        assert row["share_of_run"] == pytest.approx(joined.share_of_run, abs=1.5 / joined.case.recorded)
        gpus = ",".join(sorted(uuids(said, row)))
        inside = analysed(joined.recording, "--gpus", gpus, "--from", str(begin - 0.5), "--to", str(end - 0.5))["score"]
        assert row["score_inside"] == pytest.approx(inside, abs=0.02)
        whole = analysed(joined.recording, "--gpus", gpus)["score"]
        share = row["share_of_run"]
        assert share * row["score_inside"] + (1 - share) * row["score_outside"] == pytest.approx(whole, abs=0.01)


@pytest.mark.parametrize("name", ["same clock", "late", "nsys late", "renumbered", "four ranks"])
def test_each_wait_has_its_cause(made: dict[str, tuple[Joined, dict[str, Any]]], name: str) -> None:
    joined, said = made[name]
    assert joined.stalls
    gaps = [gap | {"rank": row["rank"]} for row in said["traces"] for gap in row["gaps"]]
    for stall in joined.stalls:
        for rank in stall.ranks:
            found = [
                gap for gap in gaps
                if gap["rank"] in (rank, None) and abs(gap["start"] - START - stall.begin) <= MAY_MISS + run.PERIOD
                and abs(gap["seconds"] - (stall.end - stall.begin)) <= 3 * run.PERIOD
            ]  # fmt: skip
            assert any(gap["cause"] == "host" and stall.name in (gap["doing"] or "") for gap in found), (stall, rank)


def test_the_longest_wait_is_in_the_verdicts_and_on_the_page(made: dict[str, tuple[Joined, dict[str, Any]]]) -> None:
    joined, said = made["same clock"]
    name = joined.stalls[0].name
    told = [evidence["text"] for verdict in said["verdicts"] for evidence in verdict["evidence"]]
    assert any(name in text for text in told)
    _, page, _ = gssr("analyze", joined.recording, "--attach", *joined.traces, "--width", "160")
    assert name in page
    _, page, _ = gssr("analyze", joined.recording, "--width", "160")
    assert name not in page


def test_looking_changes_nothing(made: dict[str, tuple[Joined, dict[str, Any]]], tmp_path: Path) -> None:
    joined, _ = made["late"]
    before = hashlib.sha256(joined.recording.read_bytes()).hexdigest()
    gssr("analyze", joined.recording, "--attach", *joined.traces)
    assert hashlib.sha256(joined.recording.read_bytes()).hexdigest() == before
    assert sorted(path.name for path in joined.recording.parent.iterdir()) == ["run.sql", "traces"]
    assert not list(tmp_path.iterdir())


def test_a_node_whose_clock_is_off_has_samples_by_the_same_clock(tmp_path: Path) -> None:
    """What processes.clock_offset says holds for the node's samples and traces alike: it moves neither against the other."""
    joined = run.make(tmp_path, CASES["same clock"])
    run.set_clock(joined.recording, 1, 3.0)
    said = analysed(joined.recording, "--attach", *joined.traces)
    assert [row["clock_check"] for row in said["traces"]] == ["agrees", "agrees"]


def test_an_offset_can_be_told(made: dict[str, tuple[Joined, dict[str, Any]]]) -> None:
    joined, _ = made["periodic"]
    said = analysed(joined.recording, "--attach", *joined.traces, "--offset", "-5")
    assert [row["offset_s"] for row in said["traces"]] == [-5.0]
    assert [row["start"] for row in said["traces"]] == pytest.approx([START + 40.0], abs=0.1)


@pytest.fixture(scope="module")
def attached_once(tmp_path_factory: pytest.TempPathFactory) -> Joined:
    """A run of one rank whose trace was attached by ``gssr merge``."""
    joined = run.make(
        tmp_path_factory.mktemp("attached"), CASES["same clock"]._replace(ranks=1, recorded=60.0, window=(20.0, 35.0))
    )
    code, _, err = gssr("merge", joined.recording, "--attach", *joined.traces)
    assert code == 0, err
    return joined


@pytest.fixture
def attached(attached_once: Joined, tmp_path: Path) -> Joined:
    """A copy of it, to be spoilt."""
    folder = tmp_path / "attached"
    shutil.copytree(attached_once.recording.parent, folder)
    return attached_once._replace(recording=folder / "run.sql")


def kept(joined: Joined) -> Path:
    """The attached file in NAME.traces."""
    (path,) = (path for path in (joined.recording.parent / "run.traces").rglob("*") if path.is_file())
    return path


def row_of(joined: Joined) -> dict[str, Any]:
    """Its row in the recording."""
    with closing(sqlite3.connect(joined.recording)) as db:
        db.row_factory = sqlite3.Row
        (row,) = db.execute("SELECT * FROM traces").fetchall()
        return dict(row)


def test_what_was_attached_is_joined_from_then_on(attached_once: Joined) -> None:
    attached = attached_once
    path, row = kept(attached), row_of(attached)
    assert (path.parent.stat().st_mode & 0o777) == 0o700
    assert (row["rank"], row["format"], row["size"]) == (0, "kineto", path.stat().st_size)
    assert row["mtime"] == pytest.approx(path.stat().st_mtime, abs=1e-3)
    assert not os.path.isabs(row["path"]) and ".." not in Path(row["path"]).parts
    before = hashlib.sha256(attached.recording.read_bytes()).hexdigest()
    said = analysed(attached.recording)
    assert [row["rank"] for row in said["traces"]] == [0] and said["traces"][0]["clock_check"] == "agrees"
    assert hashlib.sha256(attached.recording.read_bytes()).hexdigest() == before
    code, _, _ = gssr("merge", attached.recording, "--attach", *attached.traces)  # again
    assert code == 0 and len(analysed(attached.recording)["traces"]) == 1


def test_the_export_has_kernels_and_samples_on_one_clock(attached: Joined, tmp_path: Path) -> None:
    code, _, err = gssr(
        "export", "--format", "perfetto", "--with-traces", attached.recording, "-o", tmp_path / "out.json"
    )
    assert code == 0, err
    file = json.loads((tmp_path / "out.json").read_text())
    base = file["baseTimeNanoseconds"]
    kernels = [e for e in file["traceEvents"] if e.get("ph") == "X" and e["name"].startswith("kernel_")]
    begin, end = attached.case.window
    meant = attached.busy[0]
    meant = meant[(meant[:, 0] >= begin) & (meant[:, 1] <= end)]
    starts = sorted((base + event["ts"] * 1000) / 1e9 - START for event in kernels)
    assert len(starts) == len(meant) and np.allclose(starts, meant[:, 0], atol=1e-4)
    counters = [event["ts"] for event in file["traceEvents"] if event.get("ph") == "C"]
    assert min(counters) <= min(e["ts"] for e in kernels) and max(e["ts"] for e in kernels) <= max(counters)


def test_an_attached_file_that_is_no_longer_itself_is_said_and_not_read(attached: Joined) -> None:
    path = kept(attached)
    path.write_bytes(path.read_bytes() + b"\n")
    said = analysed(attached.recording)  # exit code 0
    assert said["traces"] == []
    assert path.name in all_said(said) and "changed" in all_said(said)


def test_a_path_that_leads_out_of_the_folder_is_not_followed(attached: Joined) -> None:
    shutil.copy2(kept(attached), attached.recording.parent / "secret.json")
    with closing(sqlite3.connect(attached.recording)) as db, db:
        db.execute("UPDATE traces SET path = '../secret.json'")
    said = analysed(attached.recording)
    assert said["traces"] == [] and "secret.json" in all_said(said)
