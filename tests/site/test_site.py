"""The site of the pages: whole in itself, every link leads somewhere, and it can be read and searched in a browser, on a
phone and in the dark."""

import base64
import re
import runpy
import subprocess
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urldefrag

import pytest
from browser import ROOT, Browser

from gssr.render.breakdown import LOOKS

pytestmark = [pytest.mark.site, pytest.mark.timeout(600), pytest.mark.xdist_group("site")]

CONF = runpy.run_path(str(ROOT / "docs" / "conf.py"))
PAGES = [page for pages in CONF["NAVIGATION"].values() for page in pages]
WIDTHS = (390, 1024, 1440)
_CUT_OFF = """[...document.querySelectorAll('article *')].filter(each => {
  if (each.getBoundingClientRect().right <= innerWidth + 1 || each.closest('.headerlink, .copybtn')) return false;
  for (let around = each.parentElement; around; around = around.parentElement)
    if (['auto', 'scroll'].includes(getComputedStyle(around).overflowX)) return false;
  return getComputedStyle(each).overflowX === 'visible';
}).map(each => each.outerHTML.slice(0, 90))"""
"""What lies beyond the right edge, and in nothing that scrolls."""


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        self.anchors |= {own[name] for name in ("id", "name") if name in own}
        if tag == "a" and "href" in own:
            self.links.append(own["href"])
        elif tag in ("link", "script", "img", "iframe", "source", "object", "video"):
            self.loads += [own[name] for name in ("href", "src", "data") if own.get(name)]


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {file: Page(file) for file in sorted(site.rglob("*.html"))}


def address(site: Path, page: str) -> str:
    return (site / f"{page}.html").as_uri()


def test_every_page_is_on_the_site(site: Path) -> None:
    assert [page for page in PAGES if not (site / f"{page}.html").exists()] == []
    assert 'url=docs/start.html"' in (site / "index.html").read_text()


def test_nothing_comes_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    loaded = {load for page in pages.values() for load in page.loads}
    assert loaded and [load for load in loaded if "//" in load] == []
    for style in site.rglob("*.css"):
        assert "//" not in style.read_text(encoding="utf-8").partition("@import")[2][:200], style
        assert "url(http" not in style.read_text(encoding="utf-8").replace('"', "").replace("'", ""), style


def test_every_link_leads_somewhere(pages: dict[Path, Page]) -> None:
    lost = []
    for file, page in pages.items():
        for link in [*page.links, *page.loads]:
            target, anchor = urldefrag(link)
            if target.startswith(("http://", "https://", "data:", "mailto:")):
                continue
            found = (file.parent / unquote(target.partition("?")[0])).resolve() if target else file
            known = pages[found].anchors if found in pages else set()
            if not found.exists() or (anchor and found in pages and unquote(anchor) not in known):
                lost.append(f"{file.name}: {link}")
    assert lost == []


def test_pictures_of_the_repository_are_shown(site: Path, browser: Browser) -> None:
    browser.view(1440)
    browser.open(address(site, "README"))
    widths = browser.evaluate("[...document.querySelectorAll('article img')].map(each => each.naturalWidth)")
    assert len(widths) >= 7 and min(widths) > 100


def test_the_papers_sources_and_figures_can_be_read(site: Path, browser: Browser) -> None:
    browser.view(1440)
    browser.open(address(site, "paper/paper"))
    text = browser.evaluate("document.querySelector('article').innerText")
    listed = re.findall(r"^@\w+\{", (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert "@" not in text and "nvitop [1] shows" in text
    assert browser.evaluate("document.querySelectorAll('#references li a[href^=https]').length") == len(listed)
    assert browser.evaluate("document.querySelectorAll('article table').length") == 2


@pytest.mark.parametrize("page", ["README", "docs/start", "docs/style"])
def test_marks_of_categories_have_their_colours(site: Path, browser: Browser, page: str) -> None:
    browser.view(1440)
    browser.open(address(site, page))
    spans = "[...document.querySelectorAll('article span[style*=color]')]"
    shown = browser.evaluate(f"{spans}.map(each => [each.textContent[0], getComputedStyle(each).color])")
    wanted = {
        (look.mark, f"rgb({', '.join(str(part) for part in bytes.fromhex(look.colour[1:]))})")
        for look in LOOKS.values()
    }
    found = {(mark, color) for mark, color in shown}
    assert len(found) >= 4 and found <= wanted
    assert page != "docs/style" or found == wanted


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """The address of the site as a web server has it."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("where", ["folder", "server"])
def test_search_finds_what_is_on_the_pages(site: Path, served: str, browser: Browser, where: str) -> None:
    home = site.as_uri() if where == "folder" else served
    browser.view(1440)
    browser.open(f"{home}/docs/start.html")
    browser.evaluate("document.querySelector('input[name=q]').value = 'straggler'")
    browser.evaluate("document.querySelector('input[name=q]').form.submit()")
    links = "[...document.querySelectorAll('#search-results li a')].map(each => each.href)"  # which come one by one
    found = browser.wait(f"{links}.some(each => each.includes('docs/verdicts.html')) && {links}")
    assert [each for each in browser.asked if not each.startswith((home, "data:"))] == []
    if where == "server":  # from a folder a page may not read others
        told = browser.wait("[...document.querySelectorAll('#search-results p.context')].map(each => each.innerText)")
        assert any("straggler" in text for text in told)
    browser.open(found[0])
    assert "straggler" in browser.evaluate("document.querySelector('article').innerText").lower()


def test_a_printed_page_has_all_of_each_line_and_nothing_of_the_screen(
    site: Path, browser: Browser, tmp_path: Path, requires
) -> None:
    requires("pdftotext", package="poppler-utils")
    browser.view(1000)
    browser.open(address(site, "docs/start"))
    browser.send("Emulation.setEmulatedMedia", media="print", features=[])
    paper = browser.send("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
    (tmp_path / "x.pdf").write_bytes(base64.b64decode(paper["data"]))
    words = ["pdftotext", "-layout", str(tmp_path / "x.pdf"), "-"]
    text = subprocess.run(words, capture_output=True, check=True, text=True).stdout
    assert "Skip to content" not in text
    lines = {" ".join(line.split()) for line in text.splitlines()}
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    code = re.findall(r"^```(?:sh|console)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    whole = {
        " ".join(line.split()) for block in code for line in block.splitlines() if len(line) > 60 and line.isascii()
    }
    assert len(whole) > 10 and whole <= lines


def test_printed_tables_have_all_of_their_columns(site: Path, browser: Browser) -> None:
    browser.view(700)  # of A4, without its margins
    browser.open(address(site, "docs/style"))
    browser.send("Emulation.setEmulatedMedia", media="print", features=[])
    wide = "[...document.querySelectorAll('.table-wrapper')].filter(each => each.scrollWidth > each.clientWidth).length"
    assert browser.evaluate(wide) == 0


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_phones_and_screens_and_nothing_goes_wrong_on_it(site: Path, browser: Browser, page: str) -> None:
    browser.view(WIDTHS[0])
    browser.open(address(site, page))
    for width in WIDTHS:
        browser.view(width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
        assert browser.evaluate(_CUT_OFF) == []
    assert browser.errors == []
    assert [each for each in browser.asked if not each.startswith(("file://", "data:"))] == []
