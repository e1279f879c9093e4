"""The whole report: its head with the rules of what it may load, and a part for every run."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from gssr.gpu_vendors import in_its_words
from gssr.model.results import Analysis, Verdict
from gssr.render.cells import clean
from gssr.render.scale import count
from gssr.render.verdicts import advice_parts, limits_of, texts_of
from gssr.report.content import (
    abstentions,
    beside_texts,
    definitions,
    facts,
    figures,
    metric_table,
    phase_table,
    process_table,
    title,
    where,
)
from gssr.report.html.html_balance import balance_part, meter, rank_data
from gssr.report.html.html_breakdown import breakdown_part
from gssr.report.html.html_over_time import chart_data, charts, charts_of_nodes, map_data
from gssr.report.html.html_roofline import roofline_part
from gssr.report.html.markup import Markup, data, drawn_table, fragment, scrolling, sentence, tag
from gssr.report.page import events, happened, time_axis
from gssr.report.summary import host_texts
from gssr.report.traced import traced_table, traced_texts
from gssr.score import CAVEAT

_MOST_EVENTS = 200
_BAD_STATES = ("failed", "timeout", "killed", "lost")


def html_report(analyses: Sequence[Analysis]) -> str:
    """Return the report of one or several runs as the text of one HTML file, whole in itself; the same analyses give
    the same text. Series of content.SERIES are drawn if the analyses have them."""
    name = title(analyses[0]) if len(analyses) == 1 else count(len(analyses), "run")
    runs = [_run(analysis, number, len(analyses)) for number, analysis in enumerate(analyses, 1)]
    contents = [_contents(analyses)] if len(analyses) > 1 else []
    return page_of(name, *contents, tag("main", *runs), Markup(f"<script>{_asset('report.js')}</script>"))


def page_of(name: str, *parts: str) -> str:
    """Return the text of an HTML file with these parts in its body. Its rules forbid it to load anything."""
    style, script = _asset("report.css"), _asset("report.js")
    rules = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; "
        "form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=rules),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"GSSR report: {name}"),
        Markup(f"<style>{style}</style>"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', *parts), lang='en')}\n"


def _asset(name: str) -> str:
    return resources.files("gssr.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return how the rules name a text that they allow. Source: W3C Content Security Policy Level 3, hash-source."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _contents(analyses: Sequence[Analysis]) -> Markup:
    links = [_link(analysis, number) for number, analysis in enumerate(analyses, 1)]
    return tag("nav", tag("ol", *links), aria_label="Runs")


@in_its_words
def _link(analysis: Analysis, number: int) -> Markup:
    """Draw the link to a run: what it is called, its leading number and the worst that was found."""
    leading, *_ = figures(analysis)
    worst = "".join(f"; {verdict.title}" for verdict in analysis.judgement.verdicts[:1])
    return tag("li", tag("a", title(analysis), href=f"#run{number}"), f": {leading.name} {leading.text}{worst}")


@in_its_words
def _run(analysis: Analysis, number: int, of: int) -> Markup:
    """Draw one run with its questions in order; questions without an answer are left out. It is the ``number``-th of
    ``of``."""
    axis = time_axis(analysis)
    script_data = data({
        "begin": round(axis.begin - axis.origin, 6), "end": round(axis.end - axis.origin, 6),
        "charts": chart_data(analysis), "map": map_data(analysis), "ranks": rank_data(analysis),
    })  # fmt: skip
    parts = [
        ("Where does the GPU time go?", breakdown_part(analysis)),
        ("Why?", _verdicts(analysis)),
        ("How well were the GPUs used?", _summary(analysis)),
        ("When were the GPUs not used?", fragment(_legend(analysis), charts(analysis), _events(analysis))),
        ("Which GPUs differ?", balance_part(analysis)),
        ("What did the nodes and the processes do?", _nodes(analysis)),
        ("What was traced?", _traced(analysis)),
        ("Phases", drawn_table(phase_table(analysis), "Phases") if analysis.judgement.phases else Markup()),
        ("What bounds the work?", roofline_part(analysis)),
        ("All metrics", drawn_table(metric_table(analysis), "All metrics") if analysis.gpus else Markup()),
        ("Notes on the data", _notes(analysis)),
        ("What the words mean", _definitions(analysis)),
    ]
    return tag(
        "article",
        _header(analysis, f"{number} of {of}" if of > 1 else ""),
        *(tag("section", tag("h2", question), body) for question, body in parts if body),
        script_data,
        class_="run", id=f"run{number}",
    )  # fmt: skip


def _traced(analysis: Analysis) -> Markup:
    """Draw what traces of the run say; empty without any."""
    found = traced_table(analysis)
    if not found:
        return Markup()
    said = dict.fromkeys(f"rank {trace.rank}: {text}" for trace in analysis.traces for text in trace.notes)
    return fragment(
        *(tag("p", sentence(text)) for text in traced_texts(analysis.traces)),
        drawn_table(found, "Traces"), *(tag("p", text, class_="dim") for text in said),
    )  # fmt: skip


def _nodes(analysis: Analysis) -> Markup:
    """Draw what was beside the GPUs: in words, along time, and process by process; empty if nothing is known."""
    found = process_table(analysis)
    told = host_texts(analysis)
    return fragment(
        tag("dl", *_pairs(told), class_="plain") if told else Markup(),
        charts_of_nodes(analysis),
        fragment(tag("h3", "On the GPUs"), drawn_table(found, "Processes on the GPUs")) if found else Markup(),
    )


def _pairs(told: list[tuple[str, str]]) -> list[Markup]:
    return [tag("div", tag("dt", label), tag("dd", sentence(text))) for label, text in told]


def _header(analysis: Analysis, which: str) -> Markup:
    """Draw who ran what, where, for how long and how it ended. ``which``: of several runs, which one this is; "" for a
    single one."""
    known = facts(analysis)
    state, rest = known[0][1], known[1:]
    rows = [
        tag("div", tag("dt", label), tag("dd", sentence(value)), class_="command" if label == "Command" else None)
        for label, value in rest
    ]
    bad = analysis.state in _BAD_STATES or bool(analysis.run.exit_code)
    return tag(
        "header",
        tag("p", "GSSR, GPU saturation report", f" ({which})" if which else "", class_="brand"),
        tag("h1", title(analysis), " ", tag("span", state, class_="state bad" if bad else "state")),
        tag("dl", *rows),
    )


def _summary(analysis: Analysis) -> Markup:
    """Draw the numbers that stand out as tiles, and how the run stands."""
    tiles = [
        tag("div", tag("dt", figure.name), tag("dd", figure.text, class_="big"),
            tag("dd", meter(figure.share), figure.about, class_="dim"), class_="tile score" if i == 0 else "tile")
        for i, figure in enumerate(figures(analysis))
    ]  # fmt: skip
    told = _pairs(beside_texts(analysis))
    return fragment(
        tag("dl", *tiles, class_="tiles"),
        tag("p", f"The score is {CAVEAT}.", class_="dim"),
        tag("dl", *told, class_="plain") if told else Markup(),
    )


def _verdicts(analysis: Analysis) -> Markup:
    """Draw the verdicts as cards, and the rules that could not be judged with their reasons; empty if there are
    neither."""
    cards = [_card(analysis, verdict) for verdict in analysis.judgement.verdicts]
    if not cards and analysis.judgement.abstentions:
        cards = [tag("p", "None of the rules that could be judged found a cause.")]
    reasons = [tag("li", f"{', '.join(codes)}: {reason}") for reason, codes in abstentions(analysis)]
    if reasons:
        summary = tag("summary", f"{count(len(analysis.judgement.abstentions), 'rule')} could not be judged")
        cards.append(tag("details", summary, tag("ul", *reasons)))
    return fragment(*cards)


def _card(analysis: Analysis, verdict: Verdict) -> Markup:
    """Return a verdict as an article: title, where it holds, its sentences, the advice and the rule."""
    return tag(
        "article",
        tag("h3", tag("span", verdict.severity, class_="severity"), " ", sentence(verdict.title)),
        tag("p", where(analysis, verdict), class_="dim"),
        tag("ul", *(tag("li", sentence(text)) for text in texts_of(verdict))),
        *_advice(verdict),
        tag("p", f"Rule {verdict.code}. {limits_of(verdict.source)}", class_="dim source"),
        class_=f"verdict {verdict.severity}",
    )


def _advice(verdict: Verdict) -> list[Markup]:
    """Return what to do about a verdict: paragraphs, and each command in a block that is not broken."""
    found = []
    for number, (is_command, text) in enumerate(advice_parts(clean(verdict.advice))):
        begin = tag("b", "What to do: ") if number == 0 else Markup()
        found.append(tag("pre", tag("code", text)) if is_command else tag("p", begin, sentence(text)))
    return found


def _legend(analysis: Analysis) -> Markup:
    """Draw what lines and bands of the charts mean; empty for fewer than two GPUs."""
    if len(analysis.gpus) < 2:
        return Markup()
    entries = [("line", "mean over the GPUs"), ("inner", "middle 90 % of the GPUs"), ("band", "lowest to highest GPU")]
    if len(analysis.gpus) == 2:
        entries.pop(1)
    keys = [tag("span", tag("span", class_=f"swatch {class_}", aria_hidden="true"), text) for class_, text in entries]
    return tag(
        "p", *keys, tag("span", "Point at a chart to read all of them at that time.", class_="hint"), class_="legend"
    )


def _events(analysis: Analysis) -> Markup:
    """Draw a table of the events, at most _MOST_EVENTS; empty if there are none."""
    n, told = len(events(analysis)), happened(analysis, _MOST_EVENTS)
    if not told:
        return Markup()
    rows = [tag("tr", tag("td", at, class_="n"), tag("td", text)) for at, text in told]
    if n > len(told):
        rows.append(tag("tr", tag("td"), tag("td", f"and {count(n - len(told), 'more event')}")))
    head = tag("thead", tag("tr", tag("th", "At", scope="col", class_="n"), tag("th", "What happened", scope="col")))
    return fragment(tag("h3", "Events"), scrolling(tag("table", head, tag("tbody", *rows), class_="events"), "Events"))


def _notes(analysis: Analysis) -> Markup:
    lines = [tag("li", sentence(note)) for note in analysis.notes]
    return tag("ul", *lines) if lines else Markup()


def _definitions(analysis: Analysis) -> Markup:
    return tag("dl", *(
        tag("div", tag("dt", term), tag("dd", text)) for term, text in definitions(analysis)
    ), class_="plain words")  # fmt: skip
