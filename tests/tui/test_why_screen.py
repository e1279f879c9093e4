"""Why says which metric differs, and reads the planted causes as what they are."""

from dataclasses import replace

import pytest
from looking import SIZES, fits, scene_of, text

from gssr.backends.synthetic.bulk import START
from gssr.model.verdicts.site import load
from gssr.tui.screens import why
from gssr.tui.view import View

VIEW = View(screen="why")


@pytest.mark.parametrize(("width", "height"), [(40, 8), (80, 22), (160, 46)])
def test_why_looks_as_it_did(plants, golden, width, height):
    golden(f"why_{width}x{height + 2}.txt", text(scene_of(plants["slow_node"], VIEW, width, height)))


def test_why_in_ascii_looks_as_it_did(plants, golden):
    golden("why_ascii_80x24.txt", text(scene_of(plants["late_start"], VIEW, 80, 22, ascii_only=True)))


@pytest.mark.parametrize("ascii_only", [False, True])
def test_nothing_is_outside_its_box(plants, ascii_only):
    views = (
        VIEW,
        replace(VIEW, selection=(8, 9, 10, 11), selected="nid000003", row=3),
        replace(VIEW, cursor=START + 260, metric="pcie_rx_bytes"),
        replace(VIEW, span=60.0, end=START + 280),
    )
    for width, height in SIZES:
        for view in views:
            fits(scene_of(plants["io_dip"], view, width, height, ascii_only=ascii_only))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("slow_node", "throttled: too hot, the hardware lowers its clocks (hw_thermal 100.0 %"),
        ("straggler", "less work, or waiting for others"),
        ("late_start", "starts late"),
        ("idle_gpus", "unused: nothing runs here"),
        ("healthy", "like what it is compared with"),
        ("rotating", "like what it is compared with"),
    ],
)
def test_without_a_selection_the_lowest_gpu_is_read(plants, name, says):
    assert says in text(scene_of(plants[name], VIEW, 300, 46)), name


@pytest.mark.parametrize(
    ("name", "at", "says"),
    [("io_dip", 260.0, "waiting for data from the host"), ("checkpoint", 85.0, "a checkpoint?")],
)
def test_a_moment_is_read_against_the_whole_run(plants, name, at, says):
    drawn = text(scene_of(plants[name], replace(VIEW, cursor=START + at), 300, 46))
    assert says in drawn and "against  the whole run" in drawn.replace("against the", "against  the")


def test_a_window_is_read_against_the_whole_run(plants):
    drawn = text(scene_of(plants["io_dip"], replace(VIEW, span=20.0, end=START + 272), 60, 22))
    assert "against the whole run" in drawn


def test_numbers_are_those_of_the_selection_and_of_all(plants):
    scene = scene_of(plants["slow_node"], replace(VIEW, selection=(8, 9, 10, 11), selected="nid000003"), 80, 22)
    lines = text(scene).splitlines()
    clock = next(line for line in lines if "clock MHz" in line).split()
    assert (clock[2], clock[4], clock[-1]) == ("1140", "1875", "-735")
    assert "nid000003 (4 GPUs)" in lines[0]


def test_what_does_not_fit_differs_least(plants):
    drawn = text(scene_of(plants["slow_node"], VIEW, 80, 12))
    assert "hw_thermal" in drawn and "mem GiB" not in drawn and "hidden" in drawn


def test_enter_shows_the_metric_over_time_and_the_cursor_stays_inside(plants):
    scene = scene_of(plants["slow_node"], VIEW, 80, 22)
    down = why.move(scene, 0, 1)
    view = why.enter(scene._replace(view=down))
    assert view is not None and (view.screen, view.metric) == ("time", "sm_active")
    last = why.move(scene, 0, 10_000)
    assert why.enter(scene._replace(view=last)) is None  # a flag has no course
    assert why.move(scene._replace(view=last), 0, 1) == last and why.move(scene, 0, -5).row == 0


def test_why_reads_by_the_numbers_of_the_site(plants, tmp_path):
    path = tmp_path / "site.toml"
    path.write_text("[throttled_thermal]\nenabled = false\n")
    scene = scene_of(plants["slow_node"], VIEW, 300, 46)
    assert "throttled: too hot" in text(scene)
    assert "throttled: too hot" not in text(scene._replace(table=load(str(path))))
