"""OTF2 archives: what was written with the package otf2 is read back, and what is damaged is said."""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from otf2_archives import COMPUTE, MAIN, N_RANKS, N_ROUNDS, gpu_archive, mpi_archive, otf2_archive, ranks_program

import gssr.traces.otf2.archive
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.model.traces.levels import levels_of
from gssr.model.traces.part import part_of
from gssr.recognise import recognise
from gssr.store.format.rows import AttachedTrace
from gssr.traces.attached import open_attached
from gssr.traces.open import open_traces, ranks_of
from gssr.traces.otf2 import process as otf2_process
from gssr.traces.otf2.archive import read_otf2
from gssr.traces.timeline import NO_TIME, Category, Kind, Timeline, TraceError

_US = 1000
_MPI_ONLY = {"main", "compute", "MPI_Isend", "MPI_Irecv", "MPI_Wait", "MPI_Allreduce", "write"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mpi_archive(tmp_path_factory.mktemp("archive") / "scorep")


@pytest.fixture(scope="module")
def timeline(folder: Path) -> Timeline:
    return open_traces([str(folder)]).timeline()


@pytest.fixture(scope="module")
def of_gpu(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    return read_otf2(str(gpu_archive(tmp_path_factory.mktemp("gpu") / "scorep")))


def _named(timeline: Timeline) -> list[tuple[str, str, int, int]]:
    own = timeline.intervals
    columns = own.track.tolist(), own.name.tolist(), own.start.tolist(), own.length.tolist()
    return [
        (timeline.tracks[track].name, timeline.names[name], start // _US, length // _US)
        for track, name, start, length in zip(*columns, strict=True)
    ]


def test_regions_tracks_and_clock_are_as_they_were_written(timeline: Timeline) -> None:
    (source,) = timeline.sources
    assert (source.tool, source.version, source.left_out, source.notes) == ("Score-P", "8.4", 0, ())
    assert [(track.rank, track.node, track.name) for track in timeline.tracks] == [
        (rank, f"node{rank // 2}", f"rank {rank}") for rank in range(N_RANKS)
    ]
    found = _named(timeline)
    assert Counter(name for _, name, _, _ in found) == Counter({
        name: N_RANKS * (1 if name == "main" else N_ROUNDS) for name in _MPI_ONLY
    })  # fmt: skip
    assert ("rank 3", "compute", 1100, 400) in found
    assert ("rank 0", "MPI_Wait", 2540, 20) in found
    assert ("rank 2", "main", 0, 3000) in found
    assert timeline.clock.origin == "unix" and timeline.clock.unix_ns is not None


def test_what_regions_are_for_follows_from_their_paradigm(timeline: Timeline, of_gpu: Timeline) -> None:
    found = {
        (one.names[name], Kind(kind).name, Category(category).name)
        for one in (timeline, of_gpu)
        for name, kind, category in zip(one.intervals.name, one.intervals.kind, one.intervals.category, strict=True)
    }
    assert found == {
        ("main", "RANGE", "RANGE"), ("compute", "RANGE", "RANGE"), ("MPI_Isend", "CPU_OP", "COMMUNICATION"),
        ("MPI_Irecv", "CPU_OP", "COMMUNICATION"), ("MPI_Wait", "CPU_OP", "COMMUNICATION"),
        ("MPI_Allreduce", "CPU_OP", "COMMUNICATION"), ("write", "OS", "IO"), ("cudaLaunchKernel", "RUNTIME", "LAUNCH"),
        ("!$omp parallel @a.c:7", "CPU_OP", "COMPUTE"), ("!$omp implicit barrier @a.c:9", "CPU_OP", "SYNC"),
        ("gemm", "KERNEL", "COMPUTE"), ("COMPUTE IDLE", "OTHER", "OTHER"), ("Memcpy HtoD", "MEMCPY", "COPY"),
        ("Memcpy DtoH", "MEMCPY", "COPY"),
    }  # fmt: skip
    assert timeline.domains["MPI_Wait"] == "MPI" and timeline.domains["write"] == "io"


def test_a_gpu_works_on_its_stream_and_belongs_to_its_process(of_gpu: Timeline) -> None:
    (stream,) = (track for track in of_gpu.tracks if track.kind == "gpu_stream")
    assert (stream.device, stream.stream, stream.node) == (1, 7, "node0")
    assert ("CUDA[1:7]", "Memcpy HtoD", 20, 40) in _named(of_gpu)
    assert ("CUDA[1:7]", "Memcpy DtoH", 260, 10) in _named(of_gpu)
    assert of_gpu.intervals.size[of_gpu.intervals.kind == Kind.MEMCPY].tolist() == [1 << 20, 2048]
    (use,) = analyze_timeline(of_gpu).gpus
    assert (use.busy_ns, use.compute_ns, use.span_ns) == (150 * _US, 100 * _US, 250 * _US)


def test_counters_of_one_class_are_told_apart(of_gpu: Timeline) -> None:
    assert {each.name: (each.unit, each.time.tolist(), each.value.tolist()) for each in of_gpu.counters} == {
        "power": ("W", [5 * _US, 205 * _US], [100.0, 200.0]),
        "cycles": ("", [5 * _US, 205 * _US], [1e6, 3e6]),
    }


def test_what_does_not_fit_together_is_said_and_nothing_invented(of_gpu: Timeline) -> None:
    assert ("Master thread", "main", 0, 270) in _named(of_gpu)  # until the last of all
    notes = "\n".join(of_gpu.sources[0].notes)
    assert "open at the end, and last until it: 1" in notes
    assert "not entered, and are left out: 1" in notes
    assert "wrote its buffers to disk: 1, which took 2e-06 s" in notes


def test_threads_and_processes_are_rows_as_gpus_are(timeline: Timeline, of_gpu: Timeline) -> None:
    levels = levels_of(part_of(timeline))
    assert list(levels) == ["threads", "nodes"] and len(levels["threads"]) == N_RANKS
    assert set(levels["threads"].metrics) >= {"busy", "communication", "ranges", "io", "idle"}
    total, time = levels["threads"].values("communication", None, N_RANKS, 0, 3000 * _US, 1)
    assert (total[:, 0] / time[:, 0]).tolist() == [0.14, 0.14, 0.14, 0.06]
    assert list(levels_of(part_of(of_gpu))) == ["gpus", "threads", "processes"]


def test_only_the_ranks_asked_for_are_opened(folder: Path) -> None:
    timeline = open_traces([str(folder)], ranks="1-2").timeline()
    assert [(track.rank, track.kind) for track in timeline.tracks] == [
        (0, "process"), (1, "cpu_thread"), (2, "cpu_thread"), (3, "process"),
    ]  # fmt: skip
    assert {name for name, _, _, _ in _named(timeline)} == {"rank 1", "rank 2"}
    own = timeline.messages
    assert own is not None and set(own.collectives.wait.tolist()) == {-1}
    known = {
        (source, target): (sent != NO_TIME, received != NO_TIME)
        for source, target, sent, received in zip(own.source, own.target, own.sent, own.received, strict=True)
    }
    assert known == {(0, 1): (False, True), (1, 2): (True, True), (2, 3): (True, False)}
    assert len(levels_of(part_of(timeline))["threads"]) == 2
    with pytest.raises(TraceError, match="none of these ranks is in it: there are 0 to 3"):
        open_traces([str(folder)], ranks="7").timeline()
    with pytest.raises(ValueError, match="names no ranks"):
        ranks_of("one")


def test_a_window_keeps_what_reaches_into_it(folder: Path, timeline: Timeline) -> None:
    window = (1_300 * _US, 1_700 * _US)
    part = next(open_traces([str(folder)], window=window).timelines())
    assert len(part.intervals) < len(timeline.intervals) / 2
    of_part, of_all = analyze_timeline(part, window), analyze_timeline(timeline, window)
    for name in ("collectives", "io"):
        assert getattr(of_part, name) == getattr(of_all, name), name
    assert of_part.exchange is not None and of_all.exchange is not None
    assert of_part.exchange.size.tolist() == of_all.exchange.size.tolist() == [1000, 2000, 3000, 4000]


def test_a_time_in_which_nothing_was_says_how_long_it_lasts(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"nothing of .* is in that time: it lasts until 0\.003 s"):
        read_otf2(str(folder), window=(4_000 * _US, None))


def test_what_does_not_fit_is_refused_until_a_part_is_chosen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gssr.traces.otf2.archive, "MOST_EVENTS", 50)
    with pytest.raises(TraceError, match=r"holds 2\d\d events, more than fit at once .* choose ranks, as --ranks 0-7"):
        read_otf2(str(folder))
    with pytest.raises(TraceError, match="regions in that time, more than fit at once"):
        read_otf2(str(folder), window=(0, None))
    assert len(read_otf2(str(folder), window=(1_600 * _US, 1_700 * _US)).intervals) < 25


def test_a_profile_beside_an_archive_is_named(copy: Path) -> None:
    (copy / "profile.cubex").write_bytes(b"")
    (source,) = open_traces([str(copy)]).timeline().sources
    assert source.notes == ("profile.cubex beside it is a profile: name it to see it",)


def test_of_an_attached_archive_no_link_is_followed(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "run.traces" / "scorep"
    shutil.copytree(folder, archive)
    status = (archive / "traces.otf2").stat()
    row = AttachedTrace(
        "r", None, None, "scorep/traces.otf2", "otf2", status.st_size, status.st_mtime, None, None, "unix", None
    )
    ((_, found),) = open_attached(str(tmp_path / "run.sql"), [row])
    assert isinstance(found, Timeline) and len(found.intervals) == 76
    (archive / "traces" / "1.evt").unlink()
    (archive / "traces" / "1.evt").symlink_to(folder / "traces" / "1.evt")
    ((_, found),) = open_attached(str(tmp_path / "run.sql"), [row])
    assert isinstance(found, str) and "there is a link in the place of a file or a folder" in found


# What is damaged


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


@pytest.mark.parametrize(
    ("lost", "content", "said"),
    [
        ("traces.otf2", None, "without its anchor file, traces.otf2, which is written when the program ends"),
        ("traces.otf2", b"\3BOTF2", "can't be read: it is not sound"),
        ("traces.def", None, "can't be read: its definitions can't be opened"),
        ("traces.def", b"", "can't be read: "),
    ],
)
def test_an_archive_that_is_not_whole_is_one_sentence(copy: Path, lost: str, content: bytes | None, said: str) -> None:
    (copy / lost).unlink()
    if content is not None:
        (copy / lost).write_bytes(content)
    with pytest.raises(TraceError) as caught:
        open_traces([str(copy)]).timeline()
    assert said in str(caught.value) and str(caught.value).startswith(str(copy)) and "\n" not in str(caught.value)


@pytest.mark.parametrize("lost", ["traces.def", "traces/1.def", "traces/2.evt"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(
    copy: Path, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gssr.traces.otf2.process.SILENCE", 5.0)
    (copy / lost).unlink()
    os.mkfifo(copy / lost)
    with pytest.raises(TraceError) as caught:
        open_traces([str(copy)]).timeline()
    assert str(caught.value) == f"{copy}: can't be read: {lost} in it is no file but a pipe or a device"


def test_an_archive_of_which_the_events_of_a_rank_end_early_is_damaged(copy: Path) -> None:
    assert not open_traces([str(copy)]).timeline().sources[0].is_damaged
    events = sorted((copy / "traces").glob("*.evt"))[0]
    events.write_bytes(events.read_bytes()[: events.stat().st_size // 2])
    (source,) = open_traces([str(copy)]).timeline().sources
    assert source.is_damaged and any("its events end early" in note for note in source.notes)


def test_an_archive_without_events_says_so(tmp_path: Path) -> None:
    otf2_archive.write(tmp_path / "a", ranks_program({0: [(0, "enter", MAIN)]}), events={0: []})
    with pytest.raises(TraceError, match="holds no events, only definitions"):
        read_otf2(str(tmp_path / "a"))


def test_what_an_archive_consists_of_is_recognised(folder: Path, copy: Path) -> None:
    assert recognise(str(folder)).kind == recognise(str(folder / "traces.otf2")).kind == "otf2"
    for name in ("traces.def", "traces/0.evt"):
        assert "name its folder, or its anchor file" in recognise(str(folder / name)).problem
    with pytest.raises(TraceError, match="name it alone"):
        open_traces([str(folder), str(copy)])


# The process that reads it


@pytest.fixture
def instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package in the place of otf2's own library."""
    package = tmp_path / "site" / "_otf2"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(package.parent), *sys.path])
    yield package / "Config.py"


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("import os; os.kill(os.getpid(), 11)", r"libotf2 crashed on it \(SIGSEGV\)"),
        ("import time; time.sleep(60)", "libotf2 got no further in 1 s"),
        ("raise ImportError", r"needs the package otf2: pip install 'otf2>=3,<4'.*\[scorep\]"),
        ("raise ValueError('odd')", r"the process that reads it has failed \(ValueError: odd\)"),
    ],
)
def test_whatever_happens_to_libotf2_is_one_sentence(
    folder: Path, instead: Path, does: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in does:  # a process that says why it fails may take longer to begin, on a busy machine
        monkeypatch.setattr(otf2_process, "SILENCE", 1.0)
    instead.write_text(does)
    with pytest.raises(TraceError, match=said) as caught:
        read_otf2(str(folder))
    assert "\n" not in str(caught.value)


def test_times_are_those_of_the_timer(tmp_path: Path) -> None:
    tick = 333_333_334
    records = [(1, "enter", MAIN), (4, "leave", MAIN), (5, "enter", COMPUTE), (5, "leave", COMPUTE)]
    events = [(ticks * tick, *rest) for ticks, *rest in records]
    otf2_archive.write(tmp_path / "a", ranks_program({0: events}), otf2_archive.Style(resolution=3))
    own = read_otf2(str(tmp_path / "a")).intervals
    assert own.length.tolist() == [10**9, 0] and np.diff(own.start).tolist() == [1_333_333_333]
