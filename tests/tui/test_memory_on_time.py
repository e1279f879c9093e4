"""PyTorch's memory snapshots and timelines on the screen Time, which draws them as it draws any trace."""

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Tabs

from gssr.commands.tui import watches_of
from gssr.model.live.live_result import Query
from gssr.model.traces.memory import DeviceMemory, device_memories, places
from gssr.model.traces.memory_over_time import REQUESTED
from gssr.model.verdicts.words import binary
from gssr.report.live.call_tables import tables_of
from gssr.traces.memory_dump import read_memory_dump
from gssr.tui.calls.table import CallTable
from gssr.tui.view import View
from tests.fakes.traces.torch_memory import MIB, Allocator, trained, write_snapshot, write_timeline
from tests.looking import live_screen, seen, until, work


def _memory(path: Path) -> DeviceMemory:
    (found,) = device_memories(str(path), read_memory_dump(str(path)))
    return found


def test_time_shows_what_was_requested_and_reserved(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "rank3.pickle", trained())
    (watch,) = watches_of([str(path)])
    app = live_screen(watch, view=View(screen="time", metric=REQUESTED))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "reserved" in seen(app))
        tabs = app.query_one("#tabs", Tabs)
        assert [tab.label.plain for tab in tabs.query("Tab") if tab.display] == ["3 Time", "7 Calls"]
        assert "requested, GiB" in seen(app) and "what GPU time is for" not in seen(app)
        assert f"requested {binary(_memory(path).peak_bytes or 0)}" in " ".join(seen(app).replace("≤", "").split())
        await pilot.press("e")
        await until(pilot, lambda: "2 events, newest first" in seen(app))
        assert "peak of" in seen(app) and "out of memory: 512 MiB asked for" in seen(app)

    work(app, steps)


def test_the_columns_are_the_sizes_of_the_file(tmp_path: Path) -> None:
    """In columns that are finer than the steps the greatest value is the peak, as the page says it."""
    path = write_snapshot(tmp_path / "rank3.pickle", trained())
    own = _memory(path)
    (watch,) = watches_of([str(path)])
    frame = watch.look(Query(metric=REQUESTED, rows=20, columns=20_000))
    assert frame.gpus[0].rank == 3 and own.peak_bytes is not None
    assert frame.grid.values.max() == own.peak_bytes
    (peak, *failed) = (event for event in frame.events if event.kind == "mark")
    assert peak.time == (own.peak_ns or 0) / 1e9 and peak.message.startswith("peak of ")
    assert [event.time for event in failed] == [(one.at_ns or 0) / 1e9 for one in own.failures]
    assert failed[0].message == f"out of memory: {own.failures[0].asked // MIB} MiB asked for"


def test_a_timeline_shows_each_category_that_there_is(tmp_path: Path) -> None:
    path = write_timeline(tmp_path / "memory_timeline.json", False)
    own = _memory(path)
    (watch,) = watches_of([str(path)])
    frame = watch.look(Query(metric=REQUESTED, rows=20, columns=100))
    assert frame.part is not None
    shown = [each.metric.rpartition(":")[2] for each in frame.part.counters]
    there = {name for name, sizes in zip(own.series, own.sizes.T, strict=True) if sizes.any()}
    assert shown[0] == "requested" and set(shown[1:]) == there
    at_peak = [(own.at_peak or {})[name] for name in shown[1:]]
    assert at_peak == sorted(at_peak, reverse=True)
    app = live_screen(watch, view=View(screen="time", metric=REQUESTED))

    async def steps(pilot: Pilot[int]) -> None:
        await pilot.press("e")
        await until(pilot, lambda: "1 event, newest first" in seen(app))

    work(app, steps)


def test_calls_lists_what_held_memory_at_the_peak(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "rank3.pickle", trained())
    own = _memory(path)
    (watch,) = watches_of([str(path)])
    app = live_screen(watch, view=View(screen="calls", metric=REQUESTED))

    async def steps(pilot: Pilot[int]) -> None:
        await until(pilot, lambda: "what held memory" in seen(app))
        table = app.query_one(CallTable)
        assert [heading.title for heading in table.headings()] == ["share", "count", "bytes", "largest", "", "name"]
        assert table.values["name"] == [name or "(no stack)" for name in places(own.alive or ())]
        assert sum(table.values["held_bytes"]) == own.peak_bytes == sum(one.size for one in own.alive or ())
        assert binary(table.values["held_bytes"][0]) in seen(app)
        await pilot.press("enter")
        await until(pilot, lambda: len(app._notifications) == 1)
        (said,) = (each.message for each in app._notifications)
        assert said == "Time shows how much a GPU held, not for what."

    work(app, steps)


@pytest.mark.parametrize("is_raw", [False, True])
def test_calls_lists_the_categories_of_a_timeline(tmp_path: Path, is_raw: bool) -> None:
    path = write_timeline(tmp_path / "memory_timeline.json", is_raw)
    (watch,) = watches_of([str(path)])
    frame = watch.look(Query(metric=REQUESTED, tables=True))
    assert frame.part is not None and frame.part.analysis is not None
    values = tables_of(frame.part.analysis)["holders"]
    held = dict(zip(values["name"], values["held_bytes"], strict=True))
    assert held == {name: size for name, size in (_memory(path).at_peak or {}).items() if size}


def test_several_files_are_a_row_each(tmp_path: Path) -> None:
    files = [write_snapshot(tmp_path / f"rank{rank}.pickle", trained(seed=rank)) for rank in (0, 1)]
    (watch,) = watches_of(list(map(str, files)))
    frame = watch.look(Query(metric=REQUESTED, rows=20, columns=20_000))
    assert [gpu.rank for gpu in frame.gpus] == [0, 1]
    assert frame.grid.values.max(axis=1).tolist() == [_memory(file).peak_bytes for file in files]
    assert frame.part is not None
    names = [each.name for each in frame.part.trace.holders]
    assert len(set(names)) == len(names) and {name[:8] for name in names} == {"rank:0  ", "rank:1  "}


def test_what_has_no_times_is_not_shown(tmp_path: Path) -> None:
    own = Allocator(history=False)
    own.alloc(5 * MIB, [])
    path = write_snapshot(tmp_path / "a.pickle", own)
    (watch,) = watches_of([str(path)])
    assert (watch.look(Query()).problem or "").endswith("a.pickle: tells no times: gssr analyze shows what it holds")


def test_memory_and_traces_are_looked_at_one_by_one(tmp_path: Path) -> None:
    memory = write_snapshot(tmp_path / "a.pickle", trained())
    (tmp_path / "t.json").write_text('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}]}')
    with pytest.raises(ValueError, match=r"a\.pickle holds memory, and .*t\.json does not: look at one kind at a time"):
        watches_of([str(tmp_path / "t.json"), str(memory)])
    with pytest.raises(ValueError, match=r"--attach: is for recordings: .*a\.pickle holds memory"):
        watches_of([str(memory)], attach=[str(tmp_path / "t.json")])
