"""Metrics of one's own: what they say is what a count by hand says, and no pattern hangs anybody."""

import time
from dataclasses import replace

import numpy as np
import pytest
from timelines import CPU, Events, gpu

from gssr.metrics import metric_named
from gssr.model import custom_metrics as customs
from gssr.model.custom_metrics import custom, flag_matching_names
from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.model.traces.levels import levels_of
from gssr.model.traces.only import NOTHING, Limit, Only
from gssr.model.traces.part import only, part_of
from gssr.model.traces.trace_selection import limit
from gssr.traces.timeline import Collectives, Kind, Messages, Timeline


def made() -> Timeline:
    """A GPU that works from 0 to 1000 ns, and a thread that waits."""
    events = Events()
    events.add(Kind.KERNEL, "gemm", 0, 400).add(Kind.KERNEL, "gemm", 300, 300, gpu(stream=8))
    events.add(Kind.MEMCPY, "Memcpy HtoD", 700, 100, size=4096).add(Kind.MEMCPY, "Memcpy HtoD", 800, 100, size=1024)
    events.add(Kind.KERNEL, "ncclDevKernel", 950, 50)
    events.add(Kind.CPU_OP, "outer", 0, 1000).add(Kind.CPU_OP, "MPI_Wait", 100, 300, CPU)
    return events.add(Kind.CPU_OP, "MPI_Recv", 500, 100).timeline()


@pytest.mark.parametrize(
    ("text", "level", "value", "unit"),
    [
        ("w=share(/gemm/)", "gpus", 0.6, "1"),  # two that overlap count once
        ("w=count(/^gemm$/)", "gpus", 2e6, "calls/s"),
        ("w=bytes(/Memcpy/)", "gpus", 5120e6, "bytes/s"),
        ("w = bytes(/Memcpy/) / count(/Memcpy/)", "gpus", 2560.0, "bytes"),
        ("w=bytes(/Memcpy/)/share(/Memcpy/)", "gpus", 5120 / 200e-9, "bytes/s"),
        ("w=share(/gemm/)/count(/gemm/)", "gpus", 300e-9, "s"),
        ("w=share(/nccl/)/share(/gemm/)", "gpus", 50 / 600, ""),
        (r"w=share(/^MPI_(Wait|Recv)/)", "threads", 0.4, "1"),
    ],
)
def test_a_metric_is_what_a_count_by_hand_says(text: str, level: str, value: float, unit: str) -> None:
    own, timeline = custom(text), made()
    of = levels_of(part_of(timeline), [own])[level]  # type: ignore[index]
    total, weight = of.values(own.metric, None, len(of), 0, 1000, 1)
    assert total[0, 0] / weight[0, 0] == pytest.approx(value)
    assert own.metric in of.metrics and own.unit == unit
    shown = metric_named(own.metric)
    assert shown is not None and (shown.label, shown.unit) == ("w", unit) and custom(own.metric) == own
    (row,) = analyze_timeline(timeline, own=[own]).metrics
    assert (row.name, row.unit, row.level, row.rank) == ("w", unit, "GPU" if level == "gpus" else "thread", 0)
    assert row.value == pytest.approx(value)


def test_columns_add_up_and_what_no_name_fits_is_unknown() -> None:
    timeline = made()
    gpus = levels_of(part_of(timeline), [custom("none=share(/xyz/)"), custom("n=bytes(/gemm/)")])["gpus"]
    for text in ("a=share(/./)", "a=count(/./)", "a=bytes(/./)"):
        fine, whole = (gpus.values(custom(text).metric, None, 1, 0, 1000 // n, n) for n in (10, 1))
        assert fine[0].sum() == pytest.approx(whole[0].sum()) and fine[1].sum() == pytest.approx(whole[1].sum())
    assert not any(name.startswith("own:") for name in gpus.metrics)
    _, weight = gpus.values(custom("none=share(/xyz/)").metric, None, 1, 0, 1000, 1)
    assert weight.sum() == 0, "not known is not zero"


@pytest.mark.parametrize(
    "text",
    ["", "wait", "wait=", "=share(/x/)", "1x=share(/x/)", "busy=share(/x/)", "w=sum(/x/)", "w=share(x)", "w=share(/x/",
     "w=share(/(/)", "w=share(//)", "w=share(/a/)/", "w=share(/a/)/share(/b/)/share(/c/)", "w=share(/a/)+share(/b/)",
     f"w=share(/{'a' * 501}/)", "w=share(/[/)", "w=share(/" + "(" * 400 + ")" * 90 + "/)", "w=share(/a{99999999999}/)"],
)  # fmt: skip
def test_what_is_no_metric_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r".{10}") as said:
        custom(text)
    assert "\n" not in str(said.value) and len(str(said.value)) < 800


def test_a_slash_is_written_with_a_backslash() -> None:
    assert flag_matching_names(("a/b", "ab"), custom(r"w=share(/a\/b/)").top.pattern).tolist() == [True, False]


def test_a_pattern_without_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(customs, "PATIENCE", 0.3)
    began = time.monotonic()
    with pytest.raises(ValueError, match="simpler pattern"):
        flag_matching_names(("a" * 64 + "b",), "^(a+)+$")
    assert time.monotonic() - began < 30


def test_names_are_whatever_files_hold() -> None:
    names = ("plain", "ünïcode ☃", "line\nbreak", "\udcff broken", "nul\0")
    assert flag_matching_names(names, "(n|b)").tolist() == [True, True, True, True, True]
    assert flag_matching_names(names, "snow|☃").tolist() == [False, True, False, False, False]
    assert flag_matching_names((), "(x)").tolist() == []


def test_only_some_intervals_are_left_and_copies_stay_what_they_are() -> None:
    events = Events()
    events.add(Kind.MEMCPY, "Memcpy HtoD (Pageable -> Device)", 0, 50, size=1 << 20)
    events.add(Kind.MEMCPY, "Memcpy HtoD (Pinned -> Device)", 60, 5, size=64).add(Kind.KERNEL, "gemm", 70, 500)
    timeline = events.add(Kind.MEMCPY, "Memcpy DtoH (Device -> Pageable)", 600, 90, size=4 << 20).timeline(
        pageable=True
    )

    def left(wanted: Only) -> list[str]:
        found = only(timeline, wanted)
        assert found.pageable is not None and found.tracks == timeline.tracks
        names = [found.names[at] for at in found.intervals.name]
        assert [names[at] for at in found.pageable] == [name for name in names if "Pageable" in name]
        return [name.partition(" (")[0] for name in names]

    assert left(NOTHING) == ["Memcpy HtoD", "Memcpy HtoD", "gemm", "Memcpy DtoH"]
    assert left(Only(limits=(limit("size", False, "64k"),))) == ["Memcpy HtoD", "Memcpy DtoH"]
    assert left(Only(limits=(limit("size", True, "1M"),))) == ["Memcpy HtoD"], "what has no size is not small"
    assert left(Only(limits=(limit("takes", False, "80ns"),))) == ["gemm", "Memcpy DtoH"]
    assert left(Only(names=(("htod", "GEMM"),), limits=(Limit("takes", True, 100),))) == ["Memcpy HtoD", "Memcpy HtoD"]
    assert left(Only(names=(("*dtoh*",),))) == ["Memcpy DtoH"]
    assert left(Only(names=(("nothing",),))) == []


def test_messages_are_filtered_by_their_size() -> None:
    def column(kind: type = np.int64) -> np.ndarray:
        return np.arange(4, dtype=kind)

    none = np.zeros(0, np.int64)
    collectives = Collectives(*[none] * len(Collectives.__slots__))
    sent = Messages(
        column(np.int32),
        column(np.int32),
        column(),
        column(),
        column() * 1024,
        column(np.int32),
        ("world",),
        collectives,
    )
    timeline = replace(made(), messages=sent)
    left = only(timeline, Only(limits=(limit("size", False, "1k"),))).messages
    assert left is not None and left.comms == ("world",)
    assert left.source.tolist() == left.sent.tolist() == left.comm.tolist() == [2, 3]
    assert only(timeline, Only(names=(("x",),))).messages is sent


def test_rows_last_as_long_whatever_is_left_out() -> None:
    timeline = made()
    every, some = levels_of(part_of(timeline)), levels_of(part_of(only(timeline, Only(names=(("nccl",),)))))
    for name, level in some.items():
        level.last_as(every[name])
    means = some["gpus"].means(0, 1000).overall()
    assert means["busy"] == pytest.approx(0.05) and means["idle"] == pytest.approx(0.95)
