"""What a notebook shows of a recording. Labels and commands are users' text: everything is escaped."""

import shlex
from collections.abc import Iterable, Sequence
from html import escape

from gssr.model.results import Analysis
from gssr.render.cells import clean
from gssr.render.clock import duration
from gssr.render.scale import count, energy, fixed, percent
from gssr.score import CAVEAT

_MOST = 6


def run_html(analysis: Analysis) -> str:
    """A run: what it was, its score, and what stands out."""
    run = analysis.run
    ended = analysis.state if run.exit_code is None else f"{analysis.state}, exit code {run.exit_code}"
    facts = [
        ("run", run.label or run.run_id),
        ("command", shlex.join(run.command)),
        ("state", ended),
        ("GPUs", f"{count(len(analysis.gpus), 'GPU')} on {count(analysis.n_nodes, 'node')}"),
        ("duration", duration(analysis.window.duration)),
        ("score", f"{fixed(analysis.score, 3, 'unknown')} ({CAVEAT})"),
        ("imbalance", f"{percent(analysis.imbalance)} of SM active"),
        ("energy", energy(analysis.energy_j)),
    ]
    told = [f"{verdict.severity}: {verdict.title}" for verdict in analysis.verdicts[:_MOST]]
    return _html_table(facts) + _list(told)


def recording_html(path: str, analyses: Sequence[Analysis]) -> str:
    """A recording: one line for each run."""
    head = ("", "run", "state", "GPUs", "duration", "score")
    rows = [
        (
            str(number),
            own.run.label or own.run.run_id,
            own.state,
            str(len(own.gpus)),
            duration(own.window.duration),
            fixed(own.score, 3, "unknown"),
        )
        for number, own in enumerate(analyses)
    ]
    body = "".join(map(_row, rows))
    return f"<p><b>{_text(path)}</b></p><table><thead>{_row(head, 'th')}</thead><tbody>{body}</tbody></table>"


def _html_table(rows: Iterable[Sequence[str]]) -> str:
    return f"<table><tbody>{''.join(map(_row, rows))}</tbody></table>"


def _row(cells: Sequence[str], tag: str = "td") -> str:
    style = ' style="text-align:left"'
    return "<tr>" + "".join(f"<{tag}{style}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _list(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{_text(text)}</li>" for text in texts) + "</ul>" if texts else ""


def _text(text: str) -> str:
    return escape(clean(text))
