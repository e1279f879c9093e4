"""Why tells what the rules say of the window, all of it where there is room, and which metric differs."""

from dataclasses import replace

import numpy as np
import pytest
from frames import frame_of
from looking import SIZES, fits, scene_of, text, text_rows

from gssr.backends.synthetic.bulk import START
from gssr.model.analyze import analyze
from gssr.model.results import Finding, Judgement, Verdict
from gssr.model.verdicts.rules import load
from gssr.render.glyphs import UTF8
from gssr.render.verdicts import limits_of
from gssr.store.read.recording import open_recording
from gssr.tui import shell
from gssr.tui.judge import answer, asked_of
from gssr.tui.screens import why
from gssr.tui.view import Scene, View

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


@pytest.mark.parametrize("name", ["slow_node", "straggler", "late_start", "idle_gpus", "healthy", "rotating", "io_dip"])
def test_all_that_the_page_says_is_told_where_there_is_room(plants, name):
    analysis = analyze(open_recording(plants[name]).runs[0])
    drawn = text(scene_of(plants[name], VIEW, 300, 98))
    for verdict in analysis.verdicts:
        assert verdict.title in drawn and verdict.advice in drawn, verdict.code
        assert limits_of(verdict.source) in drawn, verdict.code
        assert all(finding.text in drawn for finding in verdict.evidence), verdict.code
    for abstention in analysis.abstentions:
        assert abstention.code in drawn and abstention.reason in drawn


@pytest.mark.parametrize("size", SIZES[1:])
def test_the_worst_and_what_to_do_come_first_where_there_is_little(plants, size):
    drawn = text(scene_of(plants["slow_node"], VIEW, *size))
    worst = analyze(open_recording(plants["slow_node"]).runs[0]).verdicts[0]
    begin = min(size[0] - 12, 30)
    assert worst.title[:begin] in drawn and worst.advice[:begin] in drawn and "all of nid000003" in drawn


def test_until_it_is_judged_it_says_so_and_nothing_else(plants):
    scene = scene_of(plants["slow_node"], VIEW, 80, 22)
    scene = scene._replace(frame=replace(scene.frame, judgement=None))
    assert "judging" in text(scene) and "against all" in text(scene) and "held" not in text(scene)
    assert "not judged while it plays" in text(scene._replace(view=replace(VIEW, speed=10.0)))


def test_what_nothing_is_found_in_says_so_and_an_old_judgement_its_age(plants):
    scene = scene_of(plants["healthy"], VIEW, 80, 22)
    frame = scene.frame
    nothing = Judgement((), (), frame.first, frame.last - 40)
    drawn = text(scene._replace(frame=replace(frame, judgement=nothing)))
    assert why.NOTHING in drawn and "as of 40s ago" in drawn


@pytest.mark.parametrize(
    ("name", "at", "metric"), [("io_dip", 260.0, "PCIe received"), ("checkpoint", 85.0, "PCIe sent")]
)
def test_a_moment_is_held_against_the_whole_run(plants, name, at, metric):
    drawn = text(scene_of(plants[name], replace(VIEW, cursor=START + at), 300, 46))
    assert "against the whole run" in drawn
    assert f"!{metric} GB/s" in drawn


def test_a_window_is_held_against_the_whole_run(plants):
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
    down = why.move(scene, 0, len(scene.frame.judgement.verdicts) + 2)  # after the note's temperature
    view = why.enter(scene._replace(view=down))
    assert view is not None and (view.screen, view.metric) == ("time", "sm_active")
    last = why.move(scene, 0, 10_000)
    assert why.enter(scene._replace(view=last)) is None  # a flag has no course
    assert why.move(scene._replace(view=last), 0, 1) == last and why.move(scene, 0, -5).row == 0


@pytest.mark.parametrize("size", [(80, 22), (80, 14), (200, 58)])
@pytest.mark.parametrize("name", ["slow_node", "late_start", "rotating", "io_dip", "before", "checkpoint"])
def test_every_note_can_be_reached_with_what_it_rests_on_and_what_to_do(plants, name, size):
    scene = scene_of(plants[name], VIEW, *size)
    for number, verdict in enumerate(scene.frame.judgement.verdicts):
        drawn = " ".join(text(scene._replace(view=why.move(scene, 0, number))).split())
        assert verdict.advice in drawn, verdict.code
        if size[1] > 14:
            assert all(finding.text in drawn for finding in verdict.evidence), verdict.code


def test_after_the_notes_the_cursor_goes_through_the_metrics_and_a_click_goes_to_either(plants):
    scene = scene_of(plants["before"], VIEW, 80, 22)
    n = len(scene.frame.judgement.verdicts)
    rows = text(scene).splitlines()
    assert n > 1 and sum(row.startswith("! >") for row in rows) == 1
    under = text(scene._replace(view=replace(VIEW, row=n))).splitlines()
    assert not any(row.startswith("! >") for row in under) and sum(row.startswith(">") for row in under) == 1
    second = next(y for y, row in enumerate(rows) if row.startswith("i "))
    assert why.click(scene, 5, second) == replace(VIEW, row=1, note=1)
    metric = next(y for y, row in enumerate(rows) if row.lstrip(" !").startswith("gr %"))
    assert why.click(scene, 5, metric) == replace(VIEW, row=n)


@pytest.mark.parametrize("size", [(80, 22), (200, 58)])
def test_the_table_is_about_the_note_under_the_cursor_and_stays_so_when_the_cursor_goes_into_it(size):
    values = np.full((8, 40), 0.8)
    values[2] = 0.3
    frame = frame_of(values)
    findings = (Finding("power_usage", 180.0, None, "Power 180 W"), Finding("share", 0.4, None, "40 % of the time"))
    told = [
        ("straggler", (2,), ()),
        ("throttled", (4, 5, 6, 7), findings),
        ("low_use", (), (Finding("sm_active", 0.7, None, "SM active 70 %"),)),
    ]
    verdicts = tuple(
        Verdict(code, "warning", f"{code}.", evidence, "look", "ours", frame.first, frame.last, gpus)
        for code, gpus, evidence in told
    )
    judged = replace(frame, judgement=Judgement(verdicts, (), frame.first, frame.last))
    scene = Scene(judged, None, VIEW, *size, UTF8)

    def seen(scene: Scene) -> tuple[str, str]:
        """Of what the table is, and the metric it begins with."""
        rows = text(scene).splitlines()
        at = next(y for y, row in enumerate(rows) if " against " in row)
        return rows[at], rows[at + 2].lstrip(" >!").split("  ")[0]

    heads, metrics = zip(*(seen(scene._replace(view=why.move(scene, 0, note))) for note in range(3)), strict=True)
    for head, who in zip(heads, ("nid000001:2", "all of nid000002", "lowest GPU nid000001:2"), strict=True):
        assert who in head
    assert metrics[1].startswith("power" if size[0] < 120 else "Power") and metrics[0] == metrics[2] != metrics[1]
    second = scene._replace(view=why.move(scene, 0, 1))
    into = why.move(second, 0, 10_000)
    assert into.row >= 3 and "all of nid000002" in seen(second._replace(view=into))[0]
    chosen = replace(VIEW, selection=(0, 1), selected="mine", row=1)
    assert "mine (2 GPUs)" in seen(scene._replace(view=chosen))[0]


def test_the_footer_and_the_help_say_what_up_and_down_do(plants):
    scene = scene_of(plants["slow_node"], VIEW, 80, 24)
    assert "↑↓ notes" in text_rows(shell.draw(scene), 80).splitlines()[-1]
    assert "on Why: the note" in text_rows(
        shell.draw(scene._replace(view=replace(VIEW, overlay="help"), height=90)), 80
    )


def test_advice_that_is_cut_says_so(plants):
    scene = scene_of(plants["slow_node"], View(), 80, 18)
    advice = scene.frame.judgement.verdicts[0].advice
    row = next(row for row in text(scene).splitlines() if row.lstrip().startswith("> "))
    assert advice not in text(scene) and row.endswith("…")


def test_it_is_judged_by_the_rules_of_the_site(plants, tmp_path):
    path = tmp_path / "site.toml"
    path.write_text("[throttled_thermal]\nenabled = false\n")
    scene = scene_of(plants["slow_node"], VIEW, 300, 98)
    asked = asked_of(replace(scene.frame, query=replace(scene.frame.query, causes=load(str(path)))))
    assert asked is not None
    changed = scene._replace(frame=replace(scene.frame, judgement=answer(*asked)))
    title = next(each.title for each in scene.frame.judgement.verdicts if each.code == "throttled_thermal")
    assert title in text(scene) and title not in text(changed)
