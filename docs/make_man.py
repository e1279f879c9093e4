"""Writes gssr's manual, a page a command, and the completions of the shells into a folder, as they are installed below a
prefix: share/man, share/bash-completion, share/zsh, share/fish. They are made from the commands' options and from the pages
beside this file; a build of the package makes them anew."""

import argparse
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap

from gssr.commands import NAMES, Command, command_called
from gssr.commands.completion import script
from gssr.version import __version__

DOCS = Path(__file__).parent
COMPLETIONS = {
    "bash": "share/bash-completion/completions/gssr",
    "zsh": "share/zsh/site-functions/_gssr",
    "fish": "share/fish/vendor_completions.d/gssr.fish",
}
ENVIRONMENT = {
    "GSSR_RULES": (
        "A file that changes the rules of the notes, as --rules does.",
        ("analyze", "compare", "fleet", "export", "tui", "top"),
    ),
    "GSSR_HISTORY": ("A folder of earlier recordings, as --history names one.", ("analyze",)),
    "GSSR_PROMETHEUS_TOKEN": ("The token that a server asks for.", ("import",)),
    "GSSR_MARKS": ("Set for the command that is recorded: where its marks go.", ("profile", "mark")),
    "GSSR_TRACES": (
        "Set for the command that is recorded: a folder. Traces that it puts there belong to the recording.",
        ("profile",),
    ),
    "GSSR_AMD_ROOT": (
        "For tests: the folder that stands for / where AMD's files are looked for.",
        ("profile", "top", "doctor"),
    ),
    "GSSR_DEBUG": ("Shows where an error came from, as --debug does.", ()),
    "DCGM_HOST": ("The hostengine of DCGM that is asked.", ("profile", "top", "doctor")),
    "DCGM_BINDINGS": ("The folder of DCGM's bindings for Python.", ("profile", "top", "doctor")),
    "NO_COLOR": ("Whatever is in it: nothing is printed in colour.", ("analyze", "compare", "fleet", "tui", "top")),
    "XDG_CONFIG_HOME": ("Where gssr/config.toml is looked for, if not in ~/.config.", ("tui", "top")),
    "XDG_CACHE_HOME": ("Where gssr/fleet.index is kept, if not in ~/.cache.", ("fleet",)),
}
FILES = {
    "NAME.sql": ("A recording: an SQLite file.", ("profile", "tui", "analyze", "compare", "merge", "export", "import")),
    "NAME.sql.d": ("The recordings of a run's ranks, until they are merged.", ("profile", "tui", "analyze", "merge")),
    "NAME.log": ("What the command printed, with --live.", ("profile", "tui")),
    "NAME.traces": ("The traces attached to a recording.", ("profile", "merge", "analyze", "tui")),
    "~/.config/gssr/config.toml": ("What the live screen begins with.", ("tui", "top")),
    "~/.cache/gssr/fleet.index": ("What was read of many recordings.", ("fleet",)),
}
_EXAMPLES = 6
"""Of a page that are shown."""
_FENCE = re.compile(r"^```(?:console|sh|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def roff(text: str) -> str:
    """A text in which nothing means anything to troff."""
    for char, means in (("\\", "\\e"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti")):
        text = text.replace(char, means)
    return text.replace('"', "\\(dq")


def filled(text: str) -> str:
    """A paragraph in lines, each sentence on a new one; troff makes its own of them. None is a request."""
    lines = [
        line for part in re.split(r"(?<=[.:]) +(?=[A-Z])", text) for line in wrap(part, 78, break_on_hyphens=False)
    ]
    return "\n".join("\\&" * line.startswith(".") + line for line in lines)


def sentence(text: str) -> str:
    """A help as a paragraph."""
    return filled(roff(f"{text[0].upper()}{text[1:]}" + "." * (not text.endswith("."))))


def inline(text: str) -> str:
    """A paragraph of Markdown: code and strong words in bold, links as their texts."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    pieces = re.split(r"`([^`]+)`|\*\*([^*]+)\*\*", text)
    out = ""
    for at in range(0, len(pieces), 3):
        out += roff(pieces[at])
        if at + 1 < len(pieces):
            out += f"\\fB{roff(pieces[at + 1] or pieces[at + 2])}\\fR"
    return filled(out)


def description(command: Command) -> Iterator[str]:
    """What the command does, in its own words and in those of its page up to the first heading, list or example."""
    page = DOCS / f"{command.name}.md"
    text = page.read_text(encoding="utf-8").partition("\n")[2].lstrip("\n") if page.exists() else ""
    first = re.split(r"^(?:```|#|- |\||!\[|<)", text, maxsplit=1, flags=re.MULTILINE)[0].split("\n\n")
    told = [inline(paragraph) for paragraph in first if paragraph.strip() and not paragraph.startswith("    ")]
    yield "\n.PP\n".join(told or [sentence(command.help)])


def examples(name: str) -> list[str]:
    """Commands of the pages that begin with this one: those for real GPUs first, and those of its own page."""
    found: dict[str, None] = {}
    pages = sorted([DOCS.parent / "README.md", *DOCS.glob("*.md")], key=lambda page: (page.stem != name, page.stem))
    for block in (block for page in pages for block in _FENCE.findall(page.read_text(encoding="utf-8"))):
        for line in re.findall(rf"^(?:\$ )?(gssr {name}\b[^\n]*)$", block, re.MULTILINE):
            line = re.sub(r"\s+#.*", "", line)
            if line.count("'") % 2 == 0 and not line.endswith(("\\", "|", "--")):
                found[line] = None
    return sorted(found, key=lambda line: "synthetic" in line)[:_EXAMPLES]


def exit_status(command: Command) -> str:
    """What its handler says of it."""
    text = " ".join((command.handle.__doc__ or "").split()).replace("``", "")
    return sentence(re.sub(r"^Exit code:? ", "", text))


def options(command: Command) -> Iterator[str]:
    """What it takes, each with its help."""
    for each in command.options:
        if not each.flags[0].startswith("-"):
            yield from (".TP", f"\\fI{roff(each.settings['metavar'])}\\fR", sentence(each.settings["help"]))
    yield from _option(("-h", "--help"), "", "say how the command is used")
    for each in command.options:
        settings = each.settings
        if not each.flags[0].startswith("-") or settings["help"] == argparse.SUPPRESS:
            continue
        metavar = settings.get("metavar") or "|".join(settings.get("choices") or ()) or "VALUE"
        value = f" \\fI{roff(metavar)}\\fR" if each.takes_value else ""
        value += " ..." * (settings.get("nargs") == "+")
        value = f" [{value.strip()}]" if settings.get("nargs") == "?" else value
        yield from _option(each.flags, value, settings["help"].replace("%%", "%"))
        if settings.get("action") is argparse.BooleanOptionalAction:
            yield from _option((f"--no-{each.flags[-1][2:]}",), "", "leave it out")


def _option(flags: Sequence[str], value: str, about: str) -> Iterator[str]:
    yield ".TP"
    yield ", ".join(f"\\fB{roff(flag)}\\fR" for flag in flags) + value
    yield sentence(about)


def page(command: Command) -> str:
    """The manual's page of a command."""
    name = command.name
    lines = [*_head(f"gssr-{name}", command.help), ".SH SYNOPSIS", f"\\fB{roff(command.usage)}\\fR"]
    lines += [".SH DESCRIPTION", *description(command), ".SH OPTIONS", *options(command)]
    lines += [".SH EXIT STATUS", exit_status(command)]
    lines += _told("FILES", FILES, name) + _told("ENVIRONMENT", ENVIRONMENT, name)
    if shown := examples(name):
        lines += [".SH EXAMPLES", *"\n.PP\n".join(f".nf\n{roff(each)}\n.fi" for each in shown).split("\n")]
    others = ["gssr", *sorted(f"gssr-{other}" for other in NAMES if other != name)]
    return "\n".join([*lines, *_see_also(others), ""])


_FIRST = r"""
.SH SYNOPSIS
\fBgssr\fR [\fB\-\-debug\fR] \fICOMMAND\fR [\fIARGUMENT\fR ...]
.br
\fBgssr\fR \fIFILE\fR
.SH DESCRIPTION
\fBgssr profile\fR runs a command and records the GPUs and the host beside it.
The other commands say what recordings, and traces of other tools, show.
.PP
\fBgssr\fR \fIFILE\fR is \fBgssr tui\fR on a terminal, else \fBgssr analyze\fR.
.SH OPTIONS
.TP
\fB\-h\fR, \fB\-\-help\fR
Say how gssr is used.
.TP
\fB\-\-version\fR
Say which version this is.
.TP
\fB\-\-debug\fR
Show where an error came from.
.SH EXIT STATUS
Of \fBgssr profile\fR that of the command it ran.
Else 0, 1 for bad input, 2 for wrong usage, and what a command's page says.
.SH COMMANDS
""".strip()


def first_page() -> str:
    """gssr(1), which names the others."""
    lines = [*_head("gssr", "how well a job uses its GPUs, when and where it does not, and why"), _FIRST]
    for command in map(command_called, NAMES):
        lines += [".TP", f"\\fBgssr\\-{command.name}\\fR(1)", sentence(command.help)]
    lines += _told("FILES", FILES, "") + _told("ENVIRONMENT", ENVIRONMENT, "")
    return "\n".join([*lines, *_see_also([f"gssr-{name}" for name in sorted(NAMES)]), ""])


def _head(name: str, about: str) -> list[str]:
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())))
    title = f'.TH {roff(name.upper())} 1 {date} "GSSR {__version__}" "GSSR manual"'
    return [title, ".nh", ".ad l", ".SH NAME", filled(f"{roff(name)} \\- {roff(about)}")]


def _told(title: str, table: Mapping[str, tuple[str, Sequence[str]]], name: str) -> list[str]:
    """What a table says of a command; "": of all of them."""
    rows = [(each, text) for each, (text, names) in table.items() if not name or name in names]
    return [f".SH {title}"] * bool(rows) + [
        line for each, text in rows for line in (".TP", f"\\fB{roff(each)}\\fR", sentence(text))
    ]


def _see_also(names: Sequence[str]) -> list[str]:
    return [".SH SEE ALSO", *(f".BR {roff(name)} (1)" + "," * (name != names[-1]) for name in names)]


def pages() -> dict[str, str]:
    """Make the manual: the text of each page, by its path below the prefix."""
    pages = {f"share/man/man1/gssr-{name}.1": page(command_called(name)) for name in NAMES}
    return {"share/man/man1/gssr.1": first_page()} | pages


def completions() -> dict[str, str]:
    """Make what the shells read, which takes argcomplete."""
    return {path: script(shell) for shell, path in COMPLETIONS.items()}


def write(prefix: Path, made: Mapping[str, str]) -> None:
    """Write these texts below a prefix."""
    for path, text in made.items():
        (prefix / path).parent.mkdir(parents=True, exist_ok=True)
        (prefix / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prefix", type=Path, help="the folder to write into")
    write(parser.parse_args().prefix, pages() | completions())
