"""Reports in a browser: on a phone and on a wide screen, light, dark, printed, by keyboard, and to who hears them."""

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from browser import ROOT, Browser

from tests.fakes.traces.beside import Truth

pytestmark = [pytest.mark.site, pytest.mark.timeout(600), pytest.mark.xdist_group("site")]

LEAST_CONTRAST = 4.5
"""Of text with what is behind it. Source: WCAG 2.2, 1.4.3, for letters of any size."""
TOO_FAINT = """(() => {
  const parts = (text) => [...text.match(/[\\d.]+/g).map(Number), 1].slice(0, 4);
  const over = (top, under) => [0, 1, 2].map((i) => top[3] * top[i] + (1 - top[3]) * under[i]);
  const light = (color) => {
    const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = color.map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    const style = getComputedStyle(element), drawn = element instanceof SVGTextElement;
    if (!own.length || element.closest("script, title") || !element.getClientRects().length) continue;
    if (style.visibility === "hidden" || element.matches("span[aria-hidden]")) continue;
    let under = [255, 255, 255];
    const around = [];
    for (let each = element; each; each = each.parentElement) around.unshift(each);
    for (const each of around) under = over(parts(getComputedStyle(each).backgroundColor), under);
    let behind = null;
    for (let each = element.parentElement; drawn && !behind && each instanceof SVGElement; each = each.parentElement)
      behind = each.querySelector(":scope > rect");
    if (behind) under = parts(getComputedStyle(behind).fill).slice(0, 3);
    const color = over(parts(drawn ? style.fill : style.color), under);
    const [dark, bright] = [light(color), light(under)].sort((a, b) => a - b);
    const contrast = (bright + 0.05) / (dark + 0.05);
    if (contrast < LEAST) found.push([contrast.toFixed(2), own[0].data.trim().slice(0, 40)]);
  }
  return found;
})()""".replace("LEAST", str(LEAST_CONTRAST))
OVERLAPPING = """[...document.querySelectorAll("svg.x, svg.strip")].flatMap((axis) => {
  const boxes = [...axis.querySelectorAll("text")].map((text) => text.getBoundingClientRect()).filter((box) => box.width);
  boxes.sort((a, b) => a.left - b.left);
  return boxes.slice(1).filter((box, i) => box.left < boxes[i].right).map(() => axis.textContent);
})"""
CUT_OFF = """[...document.querySelectorAll("body *")].filter((each) => {
  if (each.getBoundingClientRect().right <= innerWidth + 1 || each.closest("svg")) return false;
  for (let around = each; around; around = around.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(around).overflowX)) return false;
  return true;
}).map((each) => each.outerHTML.slice(0, 90))"""
CROWDED = """[...document.querySelectorAll(".tile > *, header dl > div > *")].filter(
  (each) => each.scrollWidth > each.parentElement.clientWidth + 1).map((each) => each.textContent)"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of three jobs, many GPUs, a job with traces, and traces alone."""
    folder = tmp_path_factory.mktemp("reports")

    def gssr(*words: str) -> None:
        subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            check=True,
            capture_output=True,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )

    for job in ("train", "imbalanced", "idle", "gaps"):
        gssr("gssr.backends.synthetic", job, "--gpus", "8", "--hours", "0.1", "-t", "500", "--host", "-o", f"{job}.sql")
    gssr(
        "gssr.backends.synthetic",
        "train",
        "--gpus",
        "1024",
        "--hours",
        "0.167",
        "-t",
        "5000",
        "--host",
        "-o",
        "many.sql",
    )
    truth = Truth(ranks=2)
    truth.record(folder / "run.sql")
    (folder / "traces").mkdir()
    for rank in range(2):
        truth.trace(folder / "traces" / f"rank{rank}.json", rank)
    gssr("gssr", "merge", "run.sql", "--attach", "traces")
    found = {
        "gaps": ["gaps.sql"], "many": ["many.sql"], "joined": ["run.sql"], "trace": ["traces"],
        "several": ["train.sql", "imbalanced.sql", "idle.sql"],
    }  # fmt: skip
    for name, inputs in found.items():
        gssr("gssr", "analyze", "--report", f"{name}.html", *inputs)
    return {name: folder / f"{name}.html" for name in found}


@pytest.mark.parametrize("name", ["gaps", "many", "joined", "trace", "several"])
def test_all_is_seen_at_every_width_and_in_the_dark(name: str, reports: dict[str, Path], browser: Browser) -> None:
    assert name == "several" or reports[name].stat().st_size <= 600_000
    for width in (390, 500, 1600):
        for dark in (False, True):
            browser.view(width, dark=dark)
            browser.open(reports[name].as_uri())
            browser.wait(
                "document.querySelectorAll('.cells').length === document.querySelectorAll('.cells canvas').length"
            )
            assert browser.errors == [] and [at for at in browser.asked[1:] if not at.startswith("data:")] == []
            assert browser.evaluate("document.documentElement.scrollWidth") == width
            for wrong in (TOO_FAINT, OVERLAPPING, CUT_OFF, CROWDED):
                assert browser.evaluate(wrong) == [], (width, dark)


@pytest.mark.parametrize("name", ["gaps", "several", "trace"])
def test_printed_pages_end_with_no_title(
    name: str, reports: dict[str, Path], browser: Browser, tmp_path: Path, requires
) -> None:
    requires("pdftotext", package="poppler-utils")
    browser.view(1000)
    browser.send("Emulation.setEmulatedMedia", media="print", features=[])
    browser.open(reports[name].as_uri())
    titles = set(
        browser.evaluate("[...document.querySelectorAll('h1, h2, h3')].map((each) => each.textContent.trim())")
    )
    paper = browser.send("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
    assert browser.evaluate("matchMedia('print').matches") and browser.evaluate(TOO_FAINT) == []
    (tmp_path / "x.pdf").write_bytes(base64.b64decode(paper["data"]))
    words = ["pdftotext", "-layout", str(tmp_path / "x.pdf"), "-"]
    pages = subprocess.run(words, capture_output=True, check=True, text=True).stdout.split("\f")
    assert len(pages) > 1
    for page in pages[:-1]:
        lines = [" ".join(line.split()) for line in page.split("\n") if line.strip()]
        assert lines and lines[-1] not in titles, lines[-3:]


def test_who_hears_it_gets_a_text_for_each_picture(reports: dict[str, Path], browser: Browser) -> None:
    browser.view(1600)
    browser.open(reports["several"].as_uri())
    nodes = [node for node in browser.send("Accessibility.getFullAXTree")["nodes"] if not node.get("ignored")]
    pictures = [node for node in nodes if node["role"]["value"] in ("img", "image", "graphics-document", "SvgRoot")]
    assert len(pictures) > 30 and all(node["name"]["value"] for node in pictures)
    regions = [node for node in nodes if node["role"]["value"] in ("region", "navigation")]
    assert regions and all(node["name"]["value"] for node in regions)


def press(browser: Browser, key: str) -> None:
    code = {"Tab": 9, "Enter": 13, "ArrowRight": 39}[key]
    text = {"text": "\r"} if key == "Enter" else {}
    for kind in ("keyDown", "keyUp"):
        browser.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)


def focus(browser: Browser, selector: str) -> None:
    """Press the tab key until this has the keys."""
    for _ in range(60):
        press(browser, "Tab")
        if browser.evaluate(f"document.activeElement.matches({selector!r})"):
            return
    raise AssertionError(f"no way to {selector}")


def test_keys_read_a_chart(reports: dict[str, Path], browser: Browser) -> None:
    browser.view(1600)
    browser.open(reports["gaps"].as_uri())
    focus(browser, "figure svg.area")
    said = "document.activeElement.closest('figure').querySelector('output')"
    still = browser.evaluate(f"{said}.textContent")
    press(browser, "ArrowRight")
    assert browser.evaluate(f"{said}.textContent").startswith("3:0") and still.startswith("mean ")
    assert (
        browser.evaluate("[...document.querySelectorAll('output')].filter((each) => each.ariaLive === 'polite').length")
        == 1
    )


def test_without_scripts_nothing_is_out_of_reach(reports: dict[str, Path], browser: Browser) -> None:
    browser.view(500)
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(reports["joined"].as_uri())
        assert browser.evaluate("document.querySelectorAll('.live').length") == 0
        focus(browser, "summary")
        assert not browser.evaluate("document.querySelector('details').open")
        press(browser, "Enter")
        assert browser.evaluate("document.querySelector('details').open")
        focus(browser, ".scroll")
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
