"""The call tree on Calls: of a profile, which has nothing else, and of a trace among its tables."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from gssr.tui.palette import choices
from hypothesis import given, settings
from hypothesis import strategies as st
from test_trace_screens import TRACE, Seat

from gssr.cli import main
from gssr.commands.tui import watches_of
from gssr.model.live.watch_trace import WatchTrace
from gssr.model.verdicts.rules import TABLE
from gssr.render.cells import cell_width
from gssr.render.glyphs import ASCII, UTF8
from gssr.render.roles import text_of
from gssr.tui import shell
from gssr.tui.moves import MOVES
from gssr.tui.screens import SCREENS, screens_of
from tests.fakes.traces.cube import write_solver


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchTrace]:
    (found,) = watches_of([str(write_solver(tmp_path_factory.mktemp("profile") / "profile.cubex"))])
    assert isinstance(found, WatchTrace)
    found.look(shell.query(Seat(found, "calls").view, 80, 24, TABLE))
    yield found
    found.close()


@pytest.fixture
def seat(profile: WatchTrace) -> Seat:
    return Seat(profile, "calls", (120, 30))


def calls(seat: Seat) -> list[str]:
    """The calls in sight with the marks before them, without their indentation."""
    rows = [row[2:].strip() for row in seat.text().splitlines()[3 : 3 + 20]]
    found = (re.match(r".*(?:%|-)   *([-+]? ?\S.*)$", row) for row in rows)
    return [match[1].strip() for match in found if match]


def test_the_hot_path_is_open_and_enter_opens_and_closes(seat: Seat) -> None:
    before = calls(seat)
    assert before == [
        "- solver", "- iterate<double>(std::vector<double>&)", "- !$omp parallel @solve.f90:10", "!$omp do @solve.f90:12",
        "!$omp implicit barrier @solve.f90:40", "MPI_Allreduce", "+ refine", "cudaLaunchKernel", "MPI_Init",
    ]  # fmt: skip
    seat.press(*["down"] * 6, "enter")
    assert calls(seat)[6:9] == ["- refine", "+ refine", "cudaLaunchKernel"]
    seat.press("down", "right", "right")
    assert calls(seat)[6:10] == ["- refine", "- refine", "MPI_Isend", "cudaLaunchKernel"]
    seat.press("left", "left", "left", "left")
    assert calls(seat)[6:8] == ["+ refine", "cudaLaunchKernel"]
    seat.press("first", "enter")
    assert calls(seat) == ["+ solver"]
    assert calls(seat.press("enter")) == before


def test_the_call_under_the_cursor_is_shown_rank_by_rank(seat: Seat) -> None:
    text = seat.press(*["down"] * 3).text()
    assert "over 4 ranks, most 8 s on rank 2, least 4 s on rank 0, imbalance 37.5 %" in text
    top, *_, half = (row[2:].rstrip() for row in text.splitlines()[-7:-4])
    assert top == " " * 16 + "█" * 8 and half == "█" * 32


def test_sorting_and_looking_for_names(seat: Seat) -> None:
    seat.press("reverse")
    assert calls(seat)[:2] == ["- solver", "MPI_Init"]
    seat.press("reverse")
    seat.view = seat.view.down(sought="isend")
    assert calls(seat) == ["- solver", "- iterate<double>(std::vector<double>&)", "- refine", "- refine", "MPI_Isend"]
    assert "1 of 11 found" in seat.text()
    seat.view = seat.view.down(sought="nothing of that name")
    assert "no call passes" in seat.text()


def test_any_metric_of_the_profile_can_be_looked_at(seat: Seat) -> None:
    listed = choices("metrics", seat.scene, "bytes")
    assert [choice.name for choice in listed] == ["bytes_sent"]
    seat.view = listed[0].then  # type: ignore[assignment]
    text = seat.text()
    assert "call tree: bytes_sent (bytes)" in text and re.search(r"40,960 +100\.0 % .*solver", text)
    seat.press("next_metric")
    assert "call tree: PAPI_L2_DCM" in seat.text()


def test_a_profile_has_one_screen_and_no_times(seat: Seat) -> None:
    assert [screen.name for screen in screens_of(seat.frame)] == ["calls"]
    for screen in SCREENS:
        assert seat.press(f"screen_{screen.name}").view.screen == "calls"
    text = seat.press("next_screen").text()
    assert "[8]Calls" in text and "zoom" not in text and "profile" in text.splitlines()[0]
    functions = seat.press("density").text()
    assert "─ functions" in functions and re.search(r"20\.0 s .*!\$omp do", functions)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(MOVES)), max_size=15),
    st.sampled_from(((20, 5), (40, 10), (80, 24), (160, 50))),
    st.booleans(),
)
def test_whatever_is_pressed_is_drawn(
    profile: WatchTrace, moves: list[str], size: tuple[int, int], ascii_only: bool
) -> None:
    seat = Seat(profile, "calls", size)
    seat.glyphs = ASCII if ascii_only else UTF8
    for move in moves:
        rows = shell.draw(seat.press(move).scene)
        assert len(rows) == size[1] and {cell_width(text_of(row)) for row in rows} == {size[0]}
        assert not ascii_only or all(text_of(row).isascii() for row in rows)


def test_of_a_trace_it_is_one_of_the_tables_and_enter_leads_to_the_time() -> None:
    watch = WatchTrace("trace.json", lambda: TRACE)
    seat = Seat(watch, "calls", (120, 30))
    for _ in range(8):
        if "─ call tree" in seat.text():
            break
        seat.press("density")
    text = seat.text()
    assert "─ call tree: time" in text and "Enter, left, right" in text
    leaf = next(at for at, name in enumerate(calls(seat)) if name[0] not in "+-")
    assert seat.press(*["down"] * leaf, "enter").view.screen == "time"
    watch.close()


def test_another_screen_of_a_profile_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_solver(tmp_path / "a.cubex")
    assert main(["tui", "--screen", "map", str(path)]) == 2
    error = capsys.readouterr().err
    assert "needs a terminal" in error or "its screen is calls" in error
