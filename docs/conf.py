"""How Sphinx makes a site of the pages: ``make docs``. The repository's root is its source, so that every link between pages
is the same on the code host and on the site; the pages stay plain Markdown, and the navigation stands here."""

import re
from itertools import groupby
from pathlib import Path
from typing import Any

from gssr.render.breakdown import LOOKS

NAVIGATION = {
    "Start": ("docs/start", "docs/install", "README"),
    "Tasks": ("docs/low-utilization", "docs/recipes", "docs/ci"),
    "Commands": (
        "docs/profile", "docs/top", "docs/tui", "docs/analyze", "docs/compare", "docs/fleet", "docs/export", "docs/import",
    ),
    "Reading in Python": ("docs/python", "docs/gssr", "docs/mcp"),
    "Traces": ("docs/traces",),
    "Sites": ("docs/sites", "docs/dashboards", "docs/security", "packaging/README"),
    "Reference": ("docs/metrics", "docs/verdicts", "docs/recording", "docs/amd"),
    "Inside": (
        "docs/architecture", "docs/style", "docs/reliability", "CONTRIBUTING", "RELEASING", "benchmarks/README",
        "tests/golden/foreign/README", "paper/paper", "CHANGELOG",
    ),
}  # fmt: skip
"""By what a reader wants: every page of docs/ once, and those of the root that are read."""

project = "GSSR"
root_doc = "docs/start"
include_patterns = [f"{page}.*" for pages in NAVIGATION.values() for page in pages]
exclude_patterns = [".*", "build", "dist", "gssr"]

extensions = ["myst_nb", "sphinx_copybutton"]
myst_heading_anchors = 6
myst_enable_extensions: list[str] = []
myst_title_to_header = True  # the paper has its title in its head
smartquotes_action = "qe"  # quotes and ellipses; two hyphens begin an option
nb_execution_mode = "off"  # what docs/make_notebook.py has put into it is shown
suppress_warnings = ["misc.highlighting_failure"]  # output with dots in it is no JSON
copybutton_prompt_text = "$ "
copybutton_line_continuation_character = "\\"
copybutton_here_doc_delimiter = "END"

html_theme = "furo"
html_title = "GSSR"
html_show_sphinx = html_show_copyright = html_show_sourcelink = html_copy_source = False
html_css_files = ["site.css"]
html_static_path = ["site.css"]

_COLOURS = {look.mark: look.colour for look in LOOKS.values()}
_MARK = f"[{re.escape(''.join(_COLOURS))}]"
_MARKED = re.compile(
    rf'(^(?:<div class="highlight"><pre><span></span>)?(?:<span class="go">)?|<td><p>)'
    rf"({_MARK}(?= [a-z].* %)|{_MARK}{{40,}}(?=$|</span>)|{_MARK}(?=</p></td>))",
    re.MULTILINE,
)


def _navigate(_app: Any, page: str, source: list[str]) -> None:
    """Add the navigation to the first page."""
    if page == root_doc:
        for caption, pages in NAVIGATION.items():
            listed = "\n".join("self" if each == root_doc else f"/{each}" for each in pages)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def _cite(app: Any, page: str, source: list[str]) -> None:
    """Number the paper's citations, list their sources at its end, and set its sections below its title, as pandoc does from
    the same two files."""
    if page == "paper/paper":
        bibliography = (Path(app.srcdir) / "paper" / "paper.bib").read_text(encoding="utf-8")
        sources = {
            key: _source(entry) for key, entry in re.findall(r"^@\w+\{(\w+),(.*?)^\}", bibliography, re.M | re.S)
        }
        cited = list(dict.fromkeys(re.findall(r"\[@(\w+)\]", source[0])))
        source[0] = re.sub(r"\[@(\w+)\]", lambda key: f"\\[[{cited.index(key[1]) + 1}](#references)\\]", source[0])
        source[0] = re.sub(r"^# ", "## ", source[0], flags=re.MULTILINE)
        source[0] += "\n" + "".join(f"{number}. {sources[key]}\n" for number, key in enumerate(cited, 1))


def _source(entry: str) -> str:
    """Write an entry of the bibliography as a link: its title, with the address that it gives."""
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, re.M))
    address = re.search(r"\\url\{(.*?)\}", fields.get("howpublished", ""))
    archived = (
        f"https://arxiv.org/abs/{fields['eprint']}" if "eprint" in fields else f"https://doi.org/{fields.get('doi')}"
    )
    return f"[{re.sub('[{}]', '', fields['title'])}]({address[1] if address else archived})"


def _colour(_app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Give the marks of categories their colours: those that begin a row, fill a bar or stand alone in a table's cell."""
    context["body"] = _MARKED.sub(
        lambda found: found[1] + "".join(
            f'<span style="color: {_COLOURS[mark]}">{"".join(same)}</span>' for mark, same in groupby(found[2])
        ),
        context.get("body", ""),
    )  # fmt: skip


def _first_page(app: Any, error: Exception | None) -> None:
    """Have the site's own address lead to the first page."""
    if error is None and app.builder.name == "html":
        head = '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>GSSR</title>'
        text = f'{head}<meta http-equiv="refresh" content="0; url={root_doc}.html">\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _navigate)
    app.connect("source-read", _cite)
    app.connect("html-page-context", _colour)
    app.connect("build-finished", _first_page)
