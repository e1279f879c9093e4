"""Compare sets two runs beside each other: the same columns, the same zero, the differences marked."""

import re
from dataclasses import replace

import frames
import numpy as np
import pytest
from looking import SIZES, fits, frame_of, scene_of, text

from gssr.model.compare.alignment import aligned, difference, energies, origins, shares_columns
from gssr.model.live.frame import Query
from gssr.render.glyphs import UTF8, glyphs
from gssr.tui.screens import compare
from gssr.tui.view import Scene, View

VIEW = View(screen="compare")


@pytest.mark.parametrize(("width", "height"), [(40, 8), (80, 22), (160, 46)])
def test_compare_looks_as_it_did(plants, golden, width, height):
    golden(f"compare_{width}x{height + 2}.txt", text(scene_of(plants["before"], VIEW, width, height, plants["after"])))


def test_compare_in_ascii_looks_as_it_did(plants, golden):
    view = replace(VIEW, align="activity")
    golden("compare_ascii_80x24.txt", text(scene_of(plants["before"], view, 80, 22, plants["after"], True)))


def test_nothing_is_outside_its_box(plants):
    for width, height in SIZES:
        others = (VIEW, replace(VIEW, align="activity"), replace(VIEW, span=100.0, metric="power_usage"))
        scenes = [scene_of(plants["before"], view, width, height, plants["straggler"]) for view in others]
        for scene in [*scenes, scene_of(plants["before"], VIEW, width, height)]:
            fits(scene)
            fits(scene._replace(glyphs=glyphs(True)))


def test_one_recording_alone_says_how_to_give_another(plants):
    scene = scene_of(plants["before"], VIEW, 80, 22)
    assert "gssr tui A.sql B.sql" in text(scene)
    assert "reading the other" in text(scene._replace(n_recordings=2))


@pytest.mark.parametrize("align", ["start", "activity"])
@pytest.mark.parametrize("span", [None, 90.0])
def test_both_have_the_same_columns_from_the_same_zero(plants, align, span):
    scene = scene_of(plants["before"], replace(VIEW, align=align, span=span), 80, 22, plants["after"])
    one, other = scene.frame, scene.other
    assert other is not None and shares_columns(one, other)
    begins = [
        frame.grid.start - zero.time for frame, zero in zip((one, other), origins(one, other, align), strict=True)
    ]
    assert abs(begins[0] - begins[1]) < one.grid.width


def test_asking_again_with_the_frames_that_came_changes_nothing(plants):
    query = Query(columns=75, cursor=None)
    one = two = None
    asked = []
    for _ in range(4):
        asked.append(aligned(query, "activity", one, two))
        one, two = (frame_of(plants[n], q) for n, q in zip(("before", "after"), asked[-1], strict=True))
    assert asked[-1] == asked[-2]


def test_a_run_does_not_differ_from_itself(plants):
    scene = scene_of(plants["before"], VIEW, 80, 22, plants["before"])
    assert scene.other is not None
    apart = difference(scene.frame, scene.other)
    assert np.nanmax(np.abs(apart)) == 0.0
    line = next(line for line in text(scene).splitlines() if line.startswith("B-A"))
    assert set(line.removeprefix("B-A").strip()) == {"="}


def test_every_difference_is_what_changed_from_the_first_to_the_second():
    one, other = frames.frame_of(np.full((2, 60), 0.5)), frames.frame_of(np.full((2, 60), 0.8))
    for first, second, sign in ((one, other, "+"), (other, one, "-")):
        drawn = text(Scene(first, second, View(screen="compare"), 80, 22, UTF8)).splitlines()
        values = next(line.split() for line in drawn if line.startswith(" !sm "))
        assert float(values[-1]) == pytest.approx(30.0 if sign == "+" else -30.0)
        assert float(values[2]) == pytest.approx(50.0 if sign == "+" else 80.0), "the first run's value is the first"
        score = next(line.split() for line in drawn if "score" in line)
        assert float(score[3]) == pytest.approx(float(score[2]) - float(score[1]), abs=0.0015)
        assert set(next(line for line in drawn if line.startswith("B-A"))[3:].split()) == {sign * 60}


def test_the_axis_of_runs_that_are_over_ends_with_the_longer_one():
    one, other = frames.frame_of(np.full((2, 60), 0.5)), frames.frame_of(np.full((2, 60), 0.8), last=frames.START + 300)
    longer = replace(one, last=frames.START + 420)
    axis = text(Scene(longer, other, View(screen="compare"), 80, 22, UTF8)).splitlines()[-3]
    assert "6:00" in axis and "8:00" not in axis
    axis = text(Scene(replace(longer, state="live"), other, View(screen="compare"), 80, 22, UTF8)).splitlines()[-3]
    assert "10:00" in axis


def test_a_difference_that_is_none_has_no_minus_sign():
    one, other = frames.frame_of(np.full((2, 60), 0.5)), frames.frame_of(np.full((2, 60), 0.5 + 1e-7))
    for name, of in (("compare", other), ("why", None)):
        frame = frames.frame_of([[0.5] * 60, [0.5 + 1e-7] * 60]) if of is None else one
        scene = Scene(frame, of, View(screen=name, selection=() if of else (0,), selected="nid"), 160, 46, UTF8)
        drawn = text(scene)
        assert "+0.0" in drawn
        assert not re.search(r"-0\.0*\b(?![1-9])", drawn), drawn


def test_where_work_begins_is_shown_and_subtracted(plants):
    drawn = text(scene_of(plants["before"], replace(VIEW, align="activity"), 160, 46, plants["after"]))
    assert "works from 40.0 s on" in drawn and "works from 10.0 s on" in drawn


def test_the_selection_of_one_run_means_nothing_in_the_other(plants):
    view = replace(VIEW, selection=(40, 41), selected="two", cursor=1_700_000_500.0)
    scene = scene_of(plants["straggler"], view, 80, 22, plants["before"])
    assert scene.other is not None and scene.other.n_gpus == 16
    assert "at the cursor A" in text(scene)


def test_energy_is_what_the_counters_say_and_else_power_times_time(plants):
    counted, other = (frame_of(plants[name], Query(energy=True)) for name in ("healthy", "straggler"))
    found = energies(counted, other)
    by_power = float(counted.window.per_gpu("power_usage").sum()) * 299.0
    assert found.counted and found.one == counted.energy_j == pytest.approx(by_power, rel=0.01)
    assert found.one != pytest.approx(by_power, rel=1e-9)
    plain = frame_of(plants["healthy"], Query())
    assert plain.energy_j is None
    assert energies(plain, other) == (pytest.approx(by_power), pytest.approx(energies(other, plain).one), False)


def test_the_mouse_takes_a_column_of_the_run(plants):
    scene = scene_of(plants["before"], VIEW, 80, 22, plants["after"])
    view = compare.click(scene, 10, 18)
    assert view is not None and view.cursor is not None
    assert scene.frame.first <= view.cursor <= scene.frame.last
    assert compare.click(scene, 1, 18) is None and compare.click(scene, 10, 2) is None
