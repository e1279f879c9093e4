"""The page of dumps of NCCL's flight recorder: who waits for whom; its JSON object and its table.

The object's keys are a contract (docs/traces.md): they are only ever added to.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gssr.gpu_name import gpu_label
from gssr.model.results import Analysis, Finding, Verdict
from gssr.model.traces.hang import HangAnalysis, Member, Role, Transfer, Wait
from gssr.render.cells import clean, wrap
from gssr.render.glyphs import Glyphs, glyph_set
from gssr.render.roles import Row, Span
from gssr.render.scale import NONE, count
from gssr.render.table import Cell, TableColumn, table
from gssr.report.page import PageOptions, files_head, rest_rows, section
from gssr.traces.flight_recorder import Operation, ProcessGroup

SCHEMA = "gssr.hang/1"
_MOST = {"low": 3, "medium": 16, "high": 256}
_MOST_RANGES = 12
"""Of ranks that a sentence names."""
_ROLES: dict[Role, str] = {
    "waits": "waits in it", "finished": "has finished it", "missing": "did not come", "differs": "came with another",
    "went on": "is further", "unknown": "unknown: no longer in its buffer", "no dump": "unknown: no dump",
}  # fmt: skip
_ORDER: tuple[Role, ...] = ("differs", "missing", "waits", "finished", "went on", "unknown", "no dump")

TABLES = {
    "hang": (
        "group", "about", "number", "operation", "rank", "role", "brought", "types", "elements_in", "elements_out",
        "state", "last_finished_number", "last_finished", "elsewhere_group", "elsewhere_number", "elsewhere",
    )
}  # fmt: skip
"""The table that ``--csv`` prints: a row is a rank in a group that stands still."""


def ranks_text(ranks: Sequence[int]) -> str:
    """Name ranks in a sentence: ``rank 3``, ``ranks 0-2, 5``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:_MOST_RANGES]]
    more = f" and {sum(b - a + 1 for a, b in runs[_MOST_RANGES:])} more" if len(runs) > _MOST_RANGES else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(shown)}{more}"


def operation_text(operation: Operation, with_number: bool = True) -> str:
    """Write an operation: ``all_reduce #42 of 1,024 Float``."""
    number = f" #{operation.number}" if with_number else ""
    if operation.elements is None:
        return f"{clean(operation.name)}{number}"
    elements = max(operation.elements)
    kinds = "/".join(dict.fromkeys(clean(each) for each in operation.types))
    return f"{clean(operation.name)}{number} of {f'{elements:,} {kinds}'.rstrip()}"


def group_text(group: ProcessGroup) -> str:
    """Name a process group by its description, or its name where it has none or both differ."""
    named = clean(group.name)
    return f"{clean(group.about)} ({named})" if group.about and group.about != group.name else f"group {named}"


def hang_page(found: HangAnalysis, options: PageOptions) -> list[Row]:
    """Draw the page, at most ``options.width`` cells wide but for the closing line."""
    width, marks = options.width, glyph_set(options.ascii)
    rows = files_head([dump.path for dump in found.dumps], width, marks)
    versions = sorted({dump.version for dump in found.dumps if dump.version})
    about = [f"dumps of NCCL's flight recorder by {count(len(found.dumps), 'rank')}"]
    about += [f"version {clean(version)}" for version in versions[:1]]
    rows += wrap(", ".join(about), width)
    if found.waits or not found.transfers:
        rows += section("Who waits for whom?", width, marks)
    if not (found.waits or found.transfers):
        rows += wrap("Nobody: every operation in these dumps is over.", width)
    shown = found.waits[: _MOST[options.verbosity]]
    for number, wait in enumerate(shown):
        rows += [()] if number else []
        rows += _wait(wait, options, marks)
    rows += rest_rows(len(found.waits) - len(shown), "group", "-v high", width)
    if found.transfers:
        rows += _transfers(found.transfers, options, marks)
    if found.missing_dumps:
        text = f"There is no dump of {ranks_text(found.missing_dumps)}: what they did is unknown."
        rows += [(), *wrap(text, width, role="outlier")]
    return [*rows, (), (Span(_closing_line(found), "value"),)]


def _closing_line(found: HangAnalysis) -> str:
    """Return the line for programs: how many groups and transfers wait, and how many different ranks are missing from a
    group or came with something else."""
    absent = {rank for wait in found.waits for rank in wait.ranks("missing")}
    differ = {rank for wait in found.waits for rank in wait.ranks("differs")}
    return (
        f"GSSR groups_waiting={len(found.waits)} ranks_missing={len(absent)} ranks_different={len(differ)} "
        f"transfers_waiting={len(found.transfers)}"
    )


def sentences(wait: Wait) -> list[str]:
    """Say where a group stands still, and what each kind of its ranks does there."""
    waiting, absent, differ = (wait.ranks(role) for role in ("waits", "missing", "differs"))
    head = f"{group_text(wait.group)}: {operation_text(wait.operation)}"
    pieces = []
    if waiting:
        who = f"{ranks_text(waiting)} {'wait' if len(waiting) > 1 else 'waits'}"
        pieces.append(f"{who} for {ranks_text(absent)}, which did not come" if absent else f"{who} in it")
    elif absent:
        pieces.append(f"{ranks_text(absent)} did not come")
    if differ:
        pieces.append(f"{ranks_text(differ)} came with something else")
    if done := wait.ranks("finished", "went on"):
        pieces.append(f"{ranks_text(done)} {'have' if len(done) > 1 else 'has'} been through it")
    if unknown := wait.ranks("unknown"):
        pieces.append(f"the buffer of {ranks_text(unknown)} no longer tells")
    found = [f"{head}: {'; '.join(pieces)}."]
    if not absent and not differ and not wait.ranks("unknown", "no dump") and wait.is_sure:
        found.append(
            "All its ranks came to it, with the same operation, data type and (where it must be the same) size. What "
            "stops it is not in the dumps: the network, a GPU, or work before it on a stream."
        )
    found += [_absence(member) for member in wait.members if member.role == "missing"][:_MOST_RANGES]
    found += [
        f"Rank {member.rank} came with {operation_text(member.brought)}, {_state(member.brought)}."
        for member in wait.members
        if member.role == "differs" and member.brought is not None
    ][:_MOST_RANGES]
    if not wait.is_sure:
        found.append("The dumps do not tell who belongs to this group: only ranks that used it are looked at.")
    return found


def explain_hang(analysis: Analysis, found: HangAnalysis, gpus: Mapping[int, Sequence[int]]) -> Analysis:
    """Add to the verdict that the job hangs who waits for whom in NCCL, and which GPUs the ranks have that did not come.
    Without that verdict a note says that there are dumps. ``gpus``: of each rank, places in the analysis."""
    verdicts = analysis.judgement.verdicts
    at = next((at for at, verdict in enumerate(verdicts) if verdict.code == "hang"), None)
    if at is None:
        text = f"{found.dumps[0].path}: the samples show no hang: gssr analyze of the dumps alone says what they hold"
        return replace(analysis, notes=(*analysis.notes, text))
    told = []
    for wait in found.waits[: _MOST["low"]]:
        text = _beside_samples(wait, verdicts[at], analysis, gpus)
        told.append(Finding("ranks_missing", float(len(wait.ranks("missing"))), None, text))
    if not told:
        n = len(found.transfers)
        text = f"{count(n, 'send or receive')} not over" if n else "every operation in the dumps is over"
        told = [Finding("ranks_missing", 0.0, None, f"NCCL's flight recorder: {text}")]
    explained = replace(verdicts[at], evidence=(*verdicts[at].evidence, *told))
    judgement = replace(analysis.judgement, verdicts=(*verdicts[:at], explained, *verdicts[at + 1 :]))
    return replace(analysis, judgement=judgement)


def _beside_samples(wait: Wait, hang: Verdict, analysis: Analysis, gpus: Mapping[int, Sequence[int]]) -> str:
    """Say where a group stands still, which GPUs the missing ranks have, and whether these idle in the samples, too."""
    places = sorted({place for rank in wait.ranks("missing") for place in gpus.get(rank, ())})
    if not places:
        return f"NCCL's flight recorder: {sentences(wait)[0].rstrip('.')}"
    named = ", ".join(clean(gpu_label(analysis.gpus[place])) for place in places[:_MOST_RANGES])
    idle = set(hang.gpus) & set(places)
    too = ": idle, too" if len(idle) == len(places) else ": not idle in the samples" if hang.gpus and not idle else ""
    more = f" and {len(places) - _MOST_RANGES} more" if len(places) > _MOST_RANGES else ""
    return f"NCCL's flight recorder: {sentences(wait)[0].rstrip('.')} ({named}{more}{too})"


def _state(operation: Operation) -> str:
    return "which is over" if operation.is_over else f"which is {operation.state}"


def _absence(member: Member) -> str:
    """Say what a rank did that did not come."""
    last = member.last_over
    newest = "has finished nothing in this group that its buffer holds"
    if last is not None:
        newest = f"last finished {operation_text(last)} in this group"
    if member.elsewhere is None:
        return (
            f"Rank {member.rank} {newest}; its dump holds nothing unfinished: what it does is not in NCCL, or not yet."
        )
    where = clean(member.elsewhere.group)
    return (
        f"Rank {member.rank} {newest}; in group {where} it has not finished {operation_text(member.elsewhere)}, which is "
        f"{member.elsewhere.state}."
    )


def _wait(wait: Wait, options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw a group that stands still: its sentences, and the table of its ranks."""
    first, *others = sentences(wait)
    rows = wrap(first, options.width, "!! ", "   ", role="bad")
    for sentence in others:
        rows += wrap(sentence, options.width, "   ", "   ")
    if options.verbosity == "low":
        return rows
    head = (
        TableColumn("rank"), TableColumn(f"at #{wait.operation.number}"), TableColumn("brought", drop=1),
        TableColumn("last finished", drop=2), TableColumn("unfinished elsewhere", drop=3),
    )  # fmt: skip
    ordered = sorted(wait.members, key=lambda member: (_ORDER.index(member.role), member.rank))
    lines: list[list[Cell]] = [
        [str(member.rank), _ROLES[member.role],
         NONE if member.brought is None else f"{operation_text(member.brought, False)}, {member.brought.state}",
         NONE if member.last_over is None else operation_text(member.last_over), _elsewhere(member.elsewhere)]
        for member in ordered[: _MOST[options.verbosity]]
    ]  # fmt: skip
    rows += table(head, lines, options.width, marks, 2)
    return rows + rest_rows(len(ordered) - len(lines), "rank", "--csv hang", options.width)


def _elsewhere(operation: Operation | None) -> str:
    return NONE if operation is None else f"{clean(operation.group)}: {operation_text(operation)}"


def _transfers(found: Sequence[Transfer], options: PageOptions, marks: Glyphs) -> list[Row]:
    """Draw the sends and receives that are not over, those first whose other end is not there."""
    rows = section("Sends and receives", options.width, marks, f"{count(len(found), 'unfinished one')}")
    ordered = sorted(found, key=lambda each: each.has_come is not False)
    shown = ordered[: _MOST[options.verbosity]]
    head = (
        TableColumn("rank"), TableColumn("operation"), TableColumn("peer"), TableColumn("other end"),
        TableColumn("peer has unfinished", drop=1), TableColumn("group", drop=2),
    )  # fmt: skip
    words = {True: "has come", False: "has not come", None: "unknown: no dump"}
    lines: list[list[Cell]] = [
        [str(each.rank), operation_text(each.operation), str(each.peer), words[each.has_come], _elsewhere(each.elsewhere),
         group_text(each.group)]
        for each in shown
    ]  # fmt: skip
    rows += table(head, lines, options.width, marks, 2)
    if len(shown) < len(found):
        rows += wrap(f"and {len(found) - len(shown):,} more: -v high, or --json", options.width, role="dim")
    return rows


def hang_document(found: HangAnalysis) -> dict[str, Any]:
    """Return the JSON object; None is unknown."""
    return {
        "schema": SCHEMA,
        "dumps": [
            {"path": dump.path, "rank": dump.rank, "version": dump.version, "operations": len(dump.operations)}
            for dump in found.dumps
        ],
        "missing_dumps": list(found.missing_dumps),
        "waits": [
            {"group": wait.group.name, "about": wait.group.about, "operation": _make_operation_object(wait.operation),
             "members_known": wait.is_sure, "sentences": sentences(wait),
             "ranks": [
                 {"rank": member.rank, "role": member.role, "brought": _make_operation_object(member.brought),
                  "last_finished": _make_operation_object(member.last_over),
                  "elsewhere": _make_operation_object(member.elsewhere)}
                 for member in wait.members
             ]}
            for wait in found.waits
        ],
        "transfers": [
            {"group": each.group.name, "rank": each.rank, "peer": each.peer,
             "operation": _make_operation_object(each.operation),
             "other_end_has_come": each.has_come, "peer_unfinished": _make_operation_object(each.elsewhere)}
            for each in found.transfers
        ],
    }  # fmt: skip


def _make_operation_object(operation: Operation | None) -> dict[str, Any] | None:
    """Return the JSON object of an operation, None if there is none. Values that are unknown are None."""
    if operation is None:
        return None
    elements = operation.elements or (None, None)
    return {
        "group": operation.group, "number": operation.number, "name": operation.name, "is_p2p": operation.is_p2p,
        "state": operation.state, "types": list(operation.types), "elements_in": elements[0],
        "elements_out": elements[1], "created_unix_ns": operation.created_ns,
        "finished_unix_ns": operation.completed_ns,
    }  # fmt: skip


def hang_rows(_name: str, found: HangAnalysis) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the table."""
    for wait in found.waits:
        head = (wait.group.name, wait.group.about, wait.operation.number, wait.operation.name)
        for member in wait.members:
            own, last, other = member.brought, member.last_over, member.elsewhere
            sizes = (own.elements if own is not None else None) or (None, None)
            yield (
                *head, member.rank, member.role,
                *((None, None) if own is None else (own.name, "/".join(own.types))), *sizes,
                None if own is None else own.state, *((None, None) if last is None else (last.number, last.name)),
                *((None, None, None) if other is None else (other.group, other.number, other.name)),
            )  # fmt: skip
