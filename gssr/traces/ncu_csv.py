"""CSV of Nsight Compute: ``ncu --csv``, with or without ``--page raw`` and ``--print-summary``.

Before the table, between its rows and behind it stand lines of the profiler (==PROF==) and what the program has printed.
A row is a metric of a launch, or a rule's remark on it; on the page "raw" it is a launch, below a row with the units of the
columns.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

from gssr.traces.kernel_profile import (
    MOST_LAUNCHES,
    AdviceKind,
    Dim3,
    ProfiledLaunch,
    RuleAdvice,
    dim3,
    is_known,
    make_launch,
    measured,
    number_of,
    plain_advice,
)
from gssr.traces.text_lines import LONGEST_LINE, text_lines
from gssr.traces.timeline import TraceError

_MOST_LINES = 200
"""Of a row: the text of a rule can have some."""
_HEAD = re.compile(r'"?(?:ID"?,"?)?Process ID"?,')
_ROW = re.compile(r'[",\d]')
_SIDES = re.compile(r"\(?(\d{1,10}), ?(\d{1,10}), ?(\d{1,10})\)?")
_KINDS: dict[str, AdviceKind] = {"OPT": "optimization", "WRN": "warning", "ERR": "error"}
"""By Rule Type; any other is information."""
_BEFORE_METRICS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream", "Block Size",
    "Grid Size", "Device", "CC", "Invocations",
)  # fmt: skip
_LAUNCH = ("ID", "Process ID", "Kernel Name", "Block Size", "Grid Size")
"""Which launch a row is about; where launches are summed up (--print-summary), there is no ID."""
_MOST_METRICS = 400
"""Of a launch that are kept: GPUs have some 20 reasons for stalls, and there are some 90 other metrics."""
_MOST_NAME = 20_000
"""Characters of a name or remark that are kept: with templates within templates a kernel's can have thousands."""
_MOST_ADVICE = 1000
"""Remarks on a launch that are kept: there are some 50 rules."""


class _Gathered:
    """What the rows of a launch say of it."""

    def __init__(self, row: Mapping[str, str]) -> None:
        self.row = row
        self.values: dict[str, float] = {}
        self.advice: list[RuleAdvice] = []

    def add(self, metric: str, text: str, unit: str) -> None:
        """Note the value of a metric, as text, with its unit, if figures are made of it. A metric that was noted before
        keeps its first value."""
        value = number_of(text) if len(self.values) < _MOST_METRICS else None
        if value is not None and (told := measured(metric, value, unit)) is not None:
            self.values.setdefault(*told)

    def launch(self, path: str) -> ProfiledLaunch:
        """Make the launch of all that was added. ``path``: of its file."""
        row = self.row
        invocations = number_of(row.get("Invocations", "")) or 1
        capability = row.get("CC", "")
        return make_launch(
            path, row.get("ID", ""), row.get("Kernel Name", ""), f"compute capability {capability}" if capability else "",
            self.values, self.advice, _sides(row.get("Grid Size", "")), _sides(row.get("Block Size", "")),
            max(int(invocations), 1),
        )  # fmt: skip


def read_ncu_csv(
    path: str, most_bytes: int | None = None, problems: list[str] | None = None
) -> list[ProfiledLaunch]:  # fmt: skip
    """Read the launches in a file, in its order. ``most_bytes``: how much it may unpack to, None for the usual. If the file
    ends within a row, a sentence is appended to ``problems``. Raises TraceError, also if a packed file is cut off."""
    found: dict[tuple[str, ...], _Gathered] = {}
    table: _Table | None = None
    n_tables = 0
    for line in _rows(path, most_bytes):
        fields = _fields(line, path)
        if not line.endswith("\n") and table is not None and len(fields) < len(table.head):
            if problems is not None:
                problems.append(f"{path}: ends in the middle of a row: what ncu wrote from there on is missing")
            break
        if _HEAD.match(line):
            table, n_tables = _Table(fields), n_tables + 1
            continue
        if table is None or table.takes_units(fields):
            continue
        row = table.row(fields)
        if not row.get("Process ID", "").isdigit():
            continue
        key = (str(n_tables), *(row.get(name, "") for name in _LAUNCH))
        own = found.get(key)
        if own is None:
            if len(found) == MOST_LAUNCHES:
                raise TraceError(f"{path}: names more than {MOST_LAUNCHES:,} launches: nobody profiles as many")
            own = found[key] = _Gathered({name: row[name][:_MOST_NAME] for name in _BEFORE_METRICS if name in row})
        if table.is_wide:
            for at in table.metrics:
                if at < len(fields):
                    own.add(table.head[at], fields[at], table.units[at] if at < len(table.units) else "")
        else:
            _add_row(own, row)
    if table is None:
        raise TraceError(f"{path}: holds no table of Nsight Compute: ncu prints one with --csv")
    if not found:
        raise TraceError(f"{path}: holds no launch that was profiled: ncu has printed no row of its table")
    return [own.launch(path) for own in found.values()]


class _Table:
    """The header of a table. ``is_wide``: a row is a launch, and ``metrics`` are the places of columns that count, whose
    units are in ``units`` once their row has come."""

    def __init__(self, head: Sequence[str]) -> None:
        self.head = head
        self.is_wide = "Metric Name" not in head
        self.metrics = [at for at, name in enumerate(head) if self.is_wide and is_known(name)]
        self.units: Sequence[str] = ()
        self._known = [at for at, name in enumerate(head) if not self.is_wide or name in _BEFORE_METRICS]

    def takes_units(self, fields: Sequence[str]) -> bool:
        """Take a row as that of the units; False if it is none."""
        is_it = self.is_wide and not self.units and not self.row(fields).get("Process ID")
        if is_it:
            self.units = fields
        return is_it

    def row(self, fields: Sequence[str]) -> dict[str, str]:
        """Return the fields of a row by their columns, of a wide one those before the metrics."""
        return {self.head[at]: fields[at] for at in self._known if at < len(fields)}


def _add_row(own: _Gathered, row: Mapping[str, str]) -> None:
    """Note what a row of the page "details" says: a metric, or a rule's remark."""
    metric, unit = row.get("Metric Name", ""), row.get("Metric Unit", "")
    if metric:
        text = row.get("Metric Value", row.get("Average", ""))
        part = row.get("Body Item Label", "")
        own.add(f"{part}: {metric}" if part else metric, text, unit)
        own.add(metric, text, unit)
    text = row.get("Rule Description", "")[:_MOST_NAME]
    if text and len(own.advice) < _MOST_ADVICE:
        kind = _KINDS.get(row.get("Rule Type", ""), "information")
        speedup = number_of(row.get("Estimated Speedup", ""))
        is_global = row.get("Estimated Speedup Type", "") == "global"
        own.advice.append(RuleAdvice(row.get("Rule Name", ""), kind, plain_advice(text), speedup, is_global))


def _sides(text: str) -> Dim3 | None:
    found = _SIDES.fullmatch(text)
    return dim3(int(side) for side in found.groups()) if found else None


def _fields(line: str, path: str) -> list[str]:
    """Split a row of CSV, which may have several lines, into its fields. Raises TraceError, naming ``path``, if it is
    no CSV."""
    try:
        return next(csv.reader([line]), [])
    except csv.Error as error:
        raise TraceError(f"{path}: is damaged: a row of it is no CSV ({error})") from None


def _rows(path: str, most_bytes: int | None) -> Iterator[str]:
    """Yield the lines of a file that may be of a table: its header and then rows, those lines together that quotes hold
    together. One that the file ends in has no line's end, and lacks at least its last field. Raises TraceError."""
    held: list[str] = []
    has_head, n_quotes, size = False, 0, 0
    for line in text_lines(path, most_bytes, "ncu"):
        if not held and not _HEAD.match(line) and not (has_head and _ROW.match(line)):
            continue
        has_head = True
        held.append(line)
        n_quotes, size = n_quotes + line.count('"'), size + len(line)
        if size > LONGEST_LINE or len(held) > _MOST_LINES:
            raise TraceError(f"{path}: is damaged: a row of it is longer than any that ncu prints")
        if n_quotes % 2 == 0:
            yield "".join(held)
            held, n_quotes, size = [], 0, 0
    if held:
        yield "".join(held).rpartition(',"')[0]
