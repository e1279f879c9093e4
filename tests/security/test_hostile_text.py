"""Text of recordings, of file names and of whoever prints is harmless wherever it comes out."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import hostile
import pytest
from hostile import ATTACKS, harmless, narrow
from rich.cells import cell_len
from textual.pilot import Pilot

import gssr as gssr_api
from gssr.cli import main
from gssr.convert import openmetrics
from gssr.metrics import METRICS
from gssr.model.live.judge import asked_of
from gssr.render.glyphs import ASCII, UTF8, Glyphs
from gssr.store.output_file import PRIVATE
from gssr.store.read.open import log_of
from gssr.tui.app import LiveScreen
from gssr.tui.export import export, picture_of
from gssr.tui.view import TITLES, View
from tests.html_page import Page
from tests.looking import live_screen, seen, until, work

FILE = "\x1b[31m\n<b>[red]$x^\u202e.sql"
"""What every recording here is called, but for its number."""


_BEGINNINGS = range(0, len(ATTACKS), 4)
"""The attacks that the fields of the recordings begin with."""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Recordings of which every text is an attack; each field begins with another one in each of them."""
    folder = tmp_path_factory.mktemp("hostile")
    paths = [folder / f"{number}{FILE}" for number in _BEGINNINGS]
    for number, path in zip(_BEGINNINGS, paths, strict=True):
        hostile.write(path, number)
    return [str(path) for path in paths]


def gssr(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of ``gssr`` in a UTF-8 terminal."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
        out.flush()
        err.flush()
    return code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()  # type: ignore[attr-defined]


def test_pages_hold_nothing_that_steers_a_terminal_and_no_line_is_too_long(recordings: list[str]) -> None:
    for path in recordings:
        for width, color in ((40, "never"), (133, "always")):
            code, out, err = gssr(
                "analyze", "--terminal", "-mtd", "-v", "high", "--color", color, "--width", str(width), path
            )
            assert code == 0 and not err
            assert "word!" in out and "name!" in out and "uuid!" in out
            harmless(out, sgr=color == "always")
            narrow(out, width, but_last=True)


def test_ascii_pages_are_ascii(recordings: list[str]) -> None:
    for path in recordings:
        code, out, _ = gssr("analyze", "--terminal", "-mtd", "-v", "high", "--ascii", path)
        assert code == 0 and out.isascii()
        harmless(out)


def test_json_is_ascii_and_holds_the_texts_as_they_were_written(recordings: list[str]) -> None:
    for number, path in enumerate(recordings):
        code, out, _ = gssr("analyze", "--json", path)
        assert code == 0 and out.isascii()
        harmless(out)
        (run,) = json.loads(out)["runs"]
        assert run["label"] == hostile.attack("label", 4 * number)


def test_comparisons_are_harmless(recordings: list[str]) -> None:
    first, second, *_ = recordings
    code, out, err = gssr("compare", first, second)
    assert code == 0 and not err and "label!" in out
    harmless(out)
    narrow(out, 80, but_last=True)
    code, out, _ = gssr("compare", "--json", first, second)
    assert code == 0 and out.isascii()
    harmless(out)
    code, out, err = gssr("compare", first, f"{second}@none such")
    assert code == 2 and not out and err.count("\n") == 1
    harmless(err)


def test_pages_on_many_recordings_and_exports_are_harmless(
    recordings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openmetrics, "METRICS", METRICS[:1])  # the labels are in every line
    for by in ("user", "job", "node"):
        code, out, err = gssr("fleet", "--by", by, *recordings)
        assert code == 0 and "!" in out
        harmless(out)
        harmless(err)
        narrow(out, 80, but_last=True)
    code, out, _ = gssr("fleet", "--json", *recordings)
    assert code == 0 and out.isascii()
    harmless(out)
    code, out, _ = gssr("fleet", "--csv", *recordings)
    assert code == 0 and out.count("\n") == 1 + len(recordings)
    harmless(out)
    for kind in ("csv", "json", "openmetrics", "prometheus", "perfetto"):
        code, out, err = gssr("export", "--format", kind, "-o", str(tmp_path / f"{kind}{FILE}"), recordings[0])
        assert code == 0 and out.count("\n") == 1, err
        harmless(out)
    for kind in ("openmetrics", "prometheus"):
        metrics = (tmp_path / f"{kind}{FILE}").read_text(encoding="utf-8")
        assert {char for char in metrics if unicodedata.category(char) == "Cc"} == {"\n"}
    json.loads((tmp_path / f"perfetto{FILE}").read_text(encoding="ascii"))


def test_a_dry_run_is_harmless(tmp_path: Path) -> None:
    output = str(tmp_path / f"run{FILE}")
    command = ["profile", "--dry-run", "--backend", "synthetic:train:1", "-o", output, "--"]
    code, out, err = gssr(*command, *(attack.replace("\0", "") for attack in ATTACKS))
    assert code == 0 and not err and "command" in out, err
    harmless(out)


def test_errors_are_one_harmless_line_whatever_the_file_is_called(recordings: list[str], tmp_path: Path) -> None:
    names = [
        tmp_path / f"{number}{attack.replace('/', '')}".replace("\0", "")[:80] for number, attack in enumerate(ATTACKS)
    ]
    for name in [*names[:-1], tmp_path / os.fsdecode(b"undecodable\xff\xfe\x9b31m.sql")]:
        for words in (["analyze"], ["compare", recordings[0]], ["merge"], ["analyze", "--report", "x.html"]):
            code, out, err = gssr(*words, str(name))
            assert code in (1, 2) and not out and err.startswith("gssr: ") and err.count("\n") == 1
            harmless(err)


@pytest.mark.parametrize("words", [["analyze", "--no-such\x1b[31m"], ["\x1b]0;x\x07"], ["tui", "--hz", "\x9b31m\n"]])
def test_wrong_usage_is_said_in_one_harmless_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        raise SystemExit(main(words))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    harmless(said)


def kinds(page: Page) -> set[tuple[str, str]]:
    """Its elements, and each with the attributes that it has somewhere."""
    return {(tag, name) for tag, own in page.elements for name in ("", *own)}


def test_html_reports_hold_texts_as_text(recordings: list[str], tmp_path: Path) -> None:
    plain = tmp_path / "plain.sql"
    hostile.write(plain, texts=False)
    pages = []
    for at, path in enumerate([str(plain), *recordings]):
        code, _, said = gssr("analyze", "--report", str(tmp_path / f"{at}.html"), path)
        assert code == 0
        harmless(said)
        pages.append(Page((tmp_path / f"{at}.html").read_text(encoding="utf-8")))
    benign, *found = pages
    for page in found:
        assert kinds(page) <= kinds(benign), "an element, or an attribute of one, came out of a text"
        scripts, expected = page.inside["script"], benign.inside["script"]
        assert scripts[-1] == expected[-1] and len(scripts) == len(expected)
        assert "label!" in page.text and "message!" in page.text and "<script>alert(1)" in page.text
        harmless(page.text)
        for name, value in ((name, value or "") for _, own in page.elements for name, value in own.items()):
            harmless(value)
            assert not name.startswith("on") and (
                name not in ("href", "src") or value.startswith(("#", "data:image/png"))
            )
        for script in scripts[:-1]:
            assert script.isascii() and not set(script) & set("<>&")
            harmless(json.loads(script)["ranks"]["names"][0])
            for row in json.loads(script)["map"]["rows"]:
                harmless(row)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Every text drawn on pictures and pages of paper, and whether a formula is looked for in it. Pictures are laid out,
    but not painted: that takes long."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    found: list[tuple[str, bool]] = []
    draw, save = Text.draw, Figure.savefig

    def kept(text: Text, *rest: Any) -> None:
        if text.get_visible() and text.get_text():
            found.append((text.get_text(), text.get_parse_math()))
        draw(text, *rest)

    def laid_out(figure: Figure, *rest: Any, **named: Any) -> None:
        figure.draw_without_rendering() if named.get("format") == "png" else save(figure, *rest, **named)

    monkeypatch.setattr(Text, "draw", kept)
    monkeypatch.setattr(Figure, "savefig", laid_out)
    return found


def test_pictures_and_pdf_reports_hold_texts_as_text(
    recordings: list[str], tmp_path: Path, drawn: list[tuple[str, bool]]
) -> None:
    path = recordings[1]
    code, out, said = gssr("analyze", "--png", str(tmp_path), path)
    assert code == 0 and said.count("\n") == 6
    harmless(out)
    harmless(said)
    n = len(drawn)
    assert gssr("analyze", "--report", str(tmp_path / "x.pdf"), path)[0] == 0
    assert n > 100 and len(drawn) > n + 100
    assert any("label!" in text for text, _ in drawn) and any("node!" in text for text, _ in drawn)
    for text, is_formula in drawn:
        harmless(text)
        assert "\n" not in text and len(text) < 250 and not is_formula
    data = (tmp_path / "x.pdf").read_bytes()
    assert not re.search(rb"/(JavaScript|JS|Launch|URI|OpenAction|AA|EmbeddedFile)\b", data)


def _is_shown(app: LiveScreen, screen: str) -> bool:
    """Whether the screen is there with the metric that is looked at, as far as it shows any."""
    is_there = app.results[0].query.metric == app.view.metric or screen == "compare"
    return is_there and app.view.screen == screen


def _seen(
    paths: list[str], sizes: Iterable[tuple[int, int]], glyphs: Glyphs = UTF8, message: str = ""
) -> Iterator[str]:
    """Every screen of recordings, of a metric of GPUs and of nodes, with what may lie over it: the terminal's lines."""
    app, texts = live_screen(*paths, glyphs=glyphs), []

    async def steps(pilot: Pilot[int]) -> None:
        app.action_output()
        await until(pilot, lambda: app.results[0].judgement is not None or asked_of(app.results[0]) is None)
        for number, size in enumerate(sizes):  # one after another: laying out anew takes longer than another tab
            await pilot.resize_terminal(*size)
            for screen in TITLES:
                if screen == "calls":  # of traces
                    continue
                for metric in ("", "host:cpu_utilization") if number == 0 else ("",):
                    app.go_to_screen(replace(app.view, screen=screen, metric=metric))
                    await until(pilot, partial(_is_shown, app, screen))
                    texts.append((size[0], seen(app)))
        for key in ("e", "escape", "question_mark", "question_mark", "m", "escape"):
            app.show_notice(message)
            await pilot.press(key)
            await pilot.pause(0.2)
            texts.append((pilot.app.size.width, seen(app)))

    work(app, steps, (100, 40))
    for width, text in texts:
        for line in text.splitlines():
            harmless(line)
            assert cell_len(line) <= width, line
        yield text


@pytest.mark.parametrize(
    ("number", "glyphs", "sizes"),
    [
        (0, UTF8, [(120, 40), (30, 8)]),
        pytest.param(1, ASCII, [(120, 40), (80, 24)], marks=pytest.mark.slow),
        pytest.param(2, UTF8, [(160, 40)], marks=pytest.mark.slow),
    ],
)
def test_screens_are_harmless_and_no_wider_than_the_terminal(
    recordings: list[str], number: int, glyphs: Glyphs, sizes: list[tuple[int, int]]
) -> None:
    path = recordings[number]
    Path(log_of(path)).write_bytes("\n".join(ATTACKS).encode("utf-8", "backslashreplace") + bytes(range(256)))
    seen = "".join(_seen([path, path], sizes, glyphs, ATTACKS[number]))
    assert "label!" in seen and "message!" in seen and "node!" in seen


def test_what_is_taken_away_from_the_screen_is_harmless(recordings: list[str], tmp_path: Path) -> None:
    for number, path in enumerate(recordings):
        app = live_screen(path, view=View(screen="gpus"))

        async def steps(_: Pilot[int], number: int = number, app: LiveScreen = app) -> None:
            for ending in ("txt", "svg", "csv"):
                picture = picture_of(app.export_screenshot())
                export(picture, app.results[0], str(tmp_path / f"{number}.{ending}"), PRIVATE)

        work(app, steps, (100, 30))
        harmless((tmp_path / f"{number}.txt").read_text(encoding="utf-8"))
        picture = ElementTree.parse(tmp_path / f"{number}.svg").getroot()
        assert {element.tag.partition("}")[2] for element in picture.iter()} <= {"svg", "rect", "path", "text"}
        assert not [name for element in picture.iter() for name in element.attrib if name.startswith(("on", "{"))]
        with open(tmp_path / f"{number}.csv", encoding="utf-8", newline="") as stream:
            head, *lines = csv.reader(stream)
        assert len(head) == 2 + 16 and {len(line) for line in lines} == {len(head)}
        for cell in head:
            harmless(cell)
            assert "\n" not in cell and cell[0] not in "=+-@"  # what spreadsheets take for a formula


def test_notebooks_show_texts_as_text(recordings: list[str]) -> None:
    for path in recordings:
        with gssr_api.open(path) as recording:
            for text in (recording._repr_html_(), recording.runs[0]._repr_html_()):
                page = Page(text)
                tables = {"p", "b", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "div", "span"}
                assert {tag for tag, _ in page.elements} <= tables | {"svg", "path"}
                drawn = {"viewbox", "preserveaspectratio", "role", "aria-label", "d", "vector-effect"}
                painted = {"fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width"}
                attributes = {name for _, own in page.elements for name in own}
                assert attributes <= {"style"} | drawn | painted and "label!" in page.text
                harmless(page.text)


def test_names_of_a_megabyte_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "huge.sql"
    hostile.write(path, huge=True)
    code, out, err = gssr("analyze", "--terminal", "-mtd", "-v", "high", str(path))
    assert code == 0 and not err and len(out) < 300_000
    narrow(out, 80, but_last=True)
    code, _, err = gssr("analyze", "--report", str(tmp_path / "x.html"), str(path))
    assert code == 0 and (tmp_path / "x.html").stat().st_size < 2_000_000
    code, out, err = gssr("analyze", "--run", "none such", str(path))
    assert code == 2 and not out and len(err) < 5_000


@pytest.mark.slow
def test_screens_cut_names_of_a_megabyte(tmp_path: Path) -> None:
    path = tmp_path / "huge.sql"
    hostile.write(path, huge=True)
    assert list(_seen([str(path)], [(100, 30)]))


def test_merging_and_recording_speak_of_files_in_harmless_lines(tmp_path: Path) -> None:
    folder = tmp_path / f"merged{FILE}.d"
    folder.mkdir()
    for number, attack in enumerate(ATTACKS[:-1]):
        name = f"{number}{attack}".replace("/", "").replace("\0", "")[:60]
        (folder / f"{name}.sql").write_text("no recording")
    code, out, err = gssr("merge", str(folder))
    assert code == 1 and not out and err.count("\n") == len(ATTACKS) - 1
    harmless(err)
    command = [sys.executable, "-m", "gssr", "profile", "--backend", "synthetic:train:1", "-l", ATTACKS[0], "-o"]
    output = os.fsencode(tmp_path / f"recorded{FILE}") + b"\xff\x9b31m.sql"
    done = subprocess.run([*command, output, "--", "true"], capture_output=True, timeout=60)
    assert done.returncode == 0 and done.stderr.count(b"\n") == 2
    harmless(done.stderr.decode())
