"""What a benchmark yields, and how it is shown: a Markdown table, row by row as it is measured."""

import os
import platform
import sqlite3
from typing import NamedTuple

_WHAT, _NUMBER, _UNIT = 66, 9, 12


class Figure(NamedTuple):
    """One measured value; ``limit`` is what it must not exceed (``at_least``: not fall below), None where nothing was
    promised."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False

    @property
    def missed(self) -> bool:
        """True beyond the limit."""
        if self.limit is None:
            return False
        return self.value < self.limit if self.at_least else self.value > self.limit


def machine() -> str:
    """The machine in one line: cores, processor, load, system, Python, SQLite."""
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores of {_processor()}, load {os.getloadavg()[0]:.1f}, Linux {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    )


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
            names = (line.partition(":")[2].strip() for line in stream if line.startswith("model name"))
            return next(names, platform.machine())
    except OSError:
        return platform.machine()


def head() -> str:
    """The first two lines of the table."""
    titles = f"| {'what':<{_WHAT}} | {'value':>{_NUMBER}} | {'limit':>{_NUMBER}} | {'unit':<{_UNIT}} |"
    rule = f"|-{'-' * _WHAT}-|-{'-' * (_NUMBER - 1)}:-|-{'-' * (_NUMBER - 1)}:-|-{'-' * _UNIT}-|"
    return f"{titles}\n{rule}"


def line(figure: Figure) -> str:
    """One row; a value beyond its limit is marked."""
    limit = "" if figure.limit is None else f"{'! ' * figure.missed}{figure.limit:g}"
    return f"| {figure.what:<{_WHAT}} | {_rounded(figure.value):>{_NUMBER}} | {limit:>{_NUMBER}} | {figure.unit:<{_UNIT}} |"


def _rounded(value: float) -> str:
    """Three significant digits, or all before the point."""
    for bound, decimals in ((0.995, 3), (9.995, 2), (99.95, 1)):
        if abs(value) < bound:
            return f"{value:.{decimals}f}"
    return f"{value:,.0f}"
