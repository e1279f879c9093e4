"""The HTML report: whole in itself, nothing from a recording becomes markup, every kind of run has one."""

import base64
import hashlib
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from analyses import START, analysis, one_sample, rejudged, run, without_counters, without_gpus, without_samples

from gssr.model.results import Analysis, Finding, Grid, Phase, Place, Verdict, over_space
from gssr.model.statistics.roofline import place_under_roofline
from gssr.peaks import peaks_of
from gssr.render.verdicts import verdict_rows
from gssr.report.html.html_document import html_report
from gssr.report.html.html_over_time import BLANK, STEPS, indices, png
from gssr.report.html.markup import data, tag
from gssr.report.over_time import MOST_ROWS, heat_map
from gssr.store.format.rows import GpuProcesses
from tests.html_page import Page

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x00\u202e"


def judged(**changes: object) -> Analysis:
    """An analysis with everything in it that a report shows."""
    found = analysis(**changes)  # type: ignore[arg-type]
    means = {name: statistics.mean for name, statistics in found.metrics.items()}
    straggler = Verdict(
        "straggler", "critical", "1 of 16 GPUs did 7 % of what the others did",
        (Finding("sm_active", 0.04, 0.5, "SM active 4 %, the median GPU 55 %"),), "Run once without the node.", "ours",
        START, START + 300, (5,), 1234.5,
    )  # fmt: skip
    dips = Verdict("dips", "info", "Work stops", (), "Stop less often.", "ours", START + 90, START + 270)
    peaks = peaks_of("NVIDIA H100 80GB HBM3")
    under, nowhere = place_under_roofline(means, peaks), "nothing was active"
    phases = (
        Phase("start-up", START, START + 12, 0.04, None, means, nowhere),
        Phase("steady", START + 12, START + 300, 0.96, 0.5, means, under, (straggler,)),
    )
    return rejudged(
        found, verdicts=(straggler, dips), phases=phases, peaks=peaks, place=under,
        abstentions={"nvlink_bound": "NVLink not measured"},
    )  # fmt: skip


RUNS: dict[str, Callable[[], Analysis]] = {
    "judged": judged,
    "16_gpus": analysis,
    "4_gpus": lambda: analysis(4, 1),
    "2_gpus": lambda: analysis(2, 1),
    "no_gpus": without_gpus,
    "no_samples": without_samples,
    "one_sample": one_sample,
    "no_counters": without_counters,
    "no_series": lambda: analysis(series={}, gpu_series={}),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_run_has_a_well_formed_report_that_loads_nothing(name: str) -> None:
    text = html_report([RUNS[name]()])
    page = Page(text)
    for tag_name, attributes in page.elements:
        for key, value in attributes.items():
            assert not key.startswith("on"), (tag_name, key)
            if key in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                assert value is not None and value.startswith(("data:image/png;base64,", "#")), value
        assert tag_name not in ("link", "iframe", "object", "embed", "base", "form")
        assert "style" not in attributes
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "@import" not in text and "url(" not in text
    assert "nan" not in re.sub(r"[a-z]*nan[a-z]+|[a-z]+nan", "", text.lower()).split()


def test_only_its_own_style_and_script_may_run() -> None:
    page = Page(html_report([analysis()]))
    rules = next(a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy") or ""

    def named(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    for what in ("default-src 'none'", "base-uri 'none'", "form-action 'none'", "img-src data:"):
        assert f"{what};" in f"{rules};"
    assert "unsafe" not in rules and len(rules.split(";")) == 6
    assert not re.search(r"innerHTML|document\.write|eval\(|insertAdjacent|new Function", page.inside["script"][-1])
    assert f"style-src {named(page.inside['style'][0])};" in rules
    assert f"script-src {named(page.inside['script'][-1])};" in rules
    first = [element for element, _ in page.elements].index("style")
    assert any(a.get("http-equiv") for _, a in page.elements[:first])


def test_tags_escape_what_is_not_markup() -> None:
    assert tag("p", "<b>&", tag("b", "x"), title='"<') == '<p title="&quot;&lt;">&lt;b&gt;&amp;<b>x</b></p>'
    assert "<" not in data({"x": "</script>"}).removeprefix("<script").removesuffix("</script>")


def test_the_same_analysis_gives_the_same_text() -> None:
    assert html_report([judged()]) == html_report([judged()])


def test_the_words_of_the_report(golden: Callable[[str, str], None]) -> None:
    golden("html_report.txt", Page(html_report([judged()])).text + "\n")


def test_a_straggler_has_its_colour_in_every_picture() -> None:
    page = Page(html_report([judged()]))
    classes = [(name, attributes.get("class") or "") for name, attributes in page.elements]
    assert classes.count(("path", "bars apart")) == 2, "in the bars and in the histogram"
    assert ("text", "apart") in classes and ("tr", "apart") in classes, "in the map and in the table"
    even = Page(html_report([analysis(4, 1)]))
    assert not [name for name, attributes in even.elements if "apart" in (attributes.get("class") or "")]


def test_the_roofline_lies_where_its_numbers_say() -> None:
    page = Page(html_report([judged()]))
    at = [float((a["cx"] or "").rstrip("%")) / 100 for name, a in page.elements if name == "circle"]
    found = judged().judgement.place
    assert isinstance(found, Place) and len(at) == 2
    assert 10 ** (-2 + 6 * at[-1]) == pytest.approx(found.intensity, rel=0.01)


def test_why_there_is_no_roofline_is_said() -> None:
    page = Page(html_report([rejudged(judged(), place="unknown peaks", peaks=None)]))
    assert "Unknown peaks." in page.text and not any(name == "circle" for name, _ in page.elements)


def test_several_runs_are_in_one_file() -> None:
    page = Page(html_report([analysis(), analysis(4, 1, run=run(label="second"))]))
    assert [a["href"] for name, a in page.elements if name == "a"] == ["#run1", "#run2"]
    assert {a["id"] for name, a in page.elements if name == "article" and "id" in a} == {"run1", "run2"}


def test_what_the_script_reads_is_what_was_measured() -> None:
    found = analysis()
    read = Page(html_report([found])).data()
    chart, series = read["charts"]["sm_active"], found.series["sm_active"]
    for shown, value in zip(chart["mean"], series.mean.tolist(), strict=True):
        assert (shown is None) == (value != value)
        assert shown is None or shown == pytest.approx(100 * value, abs=0.06)
    assert read["begin"] == 0 and read["end"] == 300 and chart["width"] == series.width
    assert read["ranks"]["values"] == sorted(read["ranks"]["values"])


def unpacked(picture: bytes) -> np.ndarray:
    """The cells of a palette PNG."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    at, chunks = 8, {}
    while at < len(picture):
        size, kind = int.from_bytes(picture[at : at + 4], "big"), picture[at + 4 : at + 8]
        chunks[kind] = picture[at + 8 : at + 8 + size]
        assert zlib.crc32(kind + chunks[kind]).to_bytes(4, "big") == picture[at + 8 + size : at + 12 + size]
        at += 12 + size
    columns, rows = (int.from_bytes(chunks[b"IHDR"][i : i + 4], "big") for i in (0, 4))
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, columns + 1)
    assert (lines[:, 0] == 0).all() and len(chunks[b"PLTE"]) == 768 and chunks[b"tRNS"][BLANK] == 0
    return lines[:, 1:]


def test_a_map_holds_every_cell_and_missing_is_blank() -> None:
    values = np.array([[0.0, 0.5, 1.0], [np.nan, 0.02, 1.7]])
    cells = unpacked(png(indices(values, 1.0)))
    assert cells.tolist() == [[0, round(0.5 * (STEPS - 1)), STEPS - 1], [BLANK, 5, STEPS - 1]]


@pytest.mark.parametrize("n_gpus", [16, 1024, 1025, 10_000])
def test_no_minimum_is_lost_however_many_gpus(n_gpus: int) -> None:
    base = np.full((n_gpus, 12), 0.8)
    base[n_gpus // 2, 3:5] = 0.03
    base[:, 7] = np.nan
    found = heat_map(analysis(n_gpus, n_gpus // 4, 12, base=base).gpu_series["sm_active"], n_gpus // 4)
    assert len(found.values) <= MOST_ROWS and len(found.first) == len(found.values)
    assert found.values[np.searchsorted(found.first, n_gpus // 2, side="right") - 1, 3] == 0.03
    assert np.isnan(found.values[:, 7]).all() and np.nanmin(found.values[:, 0]) == 0.8


def test_many_gpus_stay_small() -> None:
    rng = np.random.default_rng(1)
    text = html_report([with_nodes(analysis(1024, 128, 360, seconds=3600.0, base=rng.random((1024, 360))))])
    assert len(text) <= 600_000
    Page(text)


def with_nodes(found: Analysis) -> Analysis:
    """With what its nodes did along time, and processes on its GPUs."""
    time = np.arange(30) / 30
    series = {
        name: over_space(Grid(name, START, 10.0, scale * np.array([time, time / 2, time, 1.5 * time])))
        for name, scale in (("host:cpu_utilization", 0.5), ("host:read_bytes", 2e9), ("host:write_bytes", 0.0))
    }
    seen = (
        GpuProcesses("python3", "ada", 16, 16, 70 << 30, START, START + 299),
        GpuProcesses(None, None, 1, 1, None, START + 1, START + 2),
    )
    return replace(found, node_series=series, processes=seen)


def test_why_comes_first_and_nodes_and_processes_are_in_it() -> None:
    page = Page(html_report([with_nodes(judged())]))
    words = page.text.split("\n")
    assert words.index("Why?") < words.index("When were the GPUs not used?") < words.index("Which GPUs differ?")
    for word in ("What did the nodes and the processes do?", "Node CPU", "Disk read", "On the GPUs", "python3", "70.0"):
        assert word in words, word
    assert "Disk written" not in words, "it wrote nothing"
    assert {"host:cpu_utilization", "host:read_bytes"} < page.data()["charts"].keys()


@pytest.mark.parametrize("name", ["judged", "no_gpus", "no_samples", "one_sample", "no_counters", "several"])
def test_who_hears_the_report_is_told_what_it_shows(name: str) -> None:
    runs = [with_nodes(judged()), analysis(4, 1, run=run(label="second"))] if name == "several" else [RUNS[name]()]
    page = Page(html_report(runs))
    names = [element for element, _ in page.elements]
    assert dict(page.elements)["html"] == {"lang": "en"} and names.count("main") == 1
    levels = [int(element[1]) for element in names if re.fullmatch("h[1-6]", element)]
    assert levels[0] == 1 and levels.count(1) == len(runs)
    assert all(after <= before + 1 for before, after in pairwise(levels))
    for at, (element, attributes) in enumerate(page.elements):
        if element == "th":
            assert attributes["scope"] in ("col", "row") and at not in page.empty, "an empty cell heads nothing"
        if attributes.get("role") in ("img", "region"):
            assert attributes["aria-label"], attributes
        if element == "img":
            assert attributes["alt"] is not None
        if element == "svg" and at not in page.hidden:
            assert attributes.get("role") == "img", attributes
        if "scroll" in (attributes.get("class") or "").split():
            assert attributes["tabindex"] == "0" and attributes["role"] == "region", "who has no mouse scrolls too"
    charts = sum("chart" in (attributes.get("class") or "").split() for _, attributes in page.elements)
    assert charts == sum(attributes.get("role") == "img" for _, attributes in page.elements) - sum(
        attributes.get("class") == "strip" for _, attributes in page.elements
    ), "a text for each chart"


def test_what_charts_say_in_words_is_what_was_measured() -> None:
    found = judged()
    told = [
        attributes["aria-label"] or ""
        for _, attributes in Page(html_report([found])).elements
        if "aria-label" in attributes
    ]
    active = found.series["sm_active"]
    (course,) = [text for text in told if text.startswith("SM active over time, mean over 16 GPUs")]
    assert f"highest {100 * np.nanmax(active.mean):.1f} %" in course and "no samples in 2.9 % of the time" in course
    (order,) = [text for text in told if text.startswith("Mean SM active of 16 GPUs: lowest nid000002:1 4.2 %")]
    assert order.endswith("1 GPU unlike the rest")
    assert "Phases in order: A start-up for 12.0 s, B steady for 4 min 48 s" in told
    (means,) = [text for text in told if text.startswith("Means of SM active: 1 GPU from 0 to 10 %")]
    assert sum(int(n) for n in re.findall(r"(\d+) GPU", means)) == 16
    assert any(text.startswith("Roofline of H100 SXM5") and "all: " in text for text in told)


def test_the_script_is_what_a_browser_accepts() -> None:
    script = (Path(sys.modules["gssr.report.html"].__file__ or "").parent / "assets" / "report.js").read_text()
    assert "</" not in script and script.isascii()
    style = (Path(sys.modules["gssr.report.html"].__file__ or "").parent / "assets" / "report.css").read_text()
    assert style.count("{") == style.count("}") and "</" not in style


def test_matplotlib_is_not_needed() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from analyses import analysis\n"
        "from gssr.report.html.html_document import html_report; html_report([analysis(4, 1)])\n"
        "print([name for name in ('matplotlib', 'plotext', 'textual') if name in sys.modules])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).parent)], stdout=subprocess.PIPE, check=True, text=True
    )
    assert found.stdout == "[]\n"


def test_a_page_and_a_report_say_what_a_cure_would_win() -> None:
    found = judged()
    won = "would save about 1,200 GPU-hours"
    assert Page(html_report([found])).text.count(won) == 1  # and not of what is not known
    assert won in " ".join(
        "".join(span.text for span in row) for row in verdict_rows(found.judgement.verdicts[0], 300, True)
    )
