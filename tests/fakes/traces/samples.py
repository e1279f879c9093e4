"""The small traces of tests/traces/samples: ``python -m tests.fakes.traces.samples FOLDER`` writes them."""

import sys
from pathlib import Path
from typing import NamedTuple

from . import kineto, nsys
from .kineto import Style
from .loop import Label, ail

SOUND_EVILS = ("graph", "experts", "sync", "stacks")
"""Those that are sound JSON, and that every tool reads."""


class Sample(NamedTuple):
    """A loop, and how its files are written."""

    name: str
    label: Label
    style: Style
    ranks: int = 2
    seed: int = 0


SAMPLES = (
    Sample("communication", "communication", Style()),
    Sample("straggler", "straggler", Style(clock="integer", old=False, layout="compact"), ranks=4),
    Sample("decimal", "loader", Style(clock="decimal", layout="four", tail=False)),
    Sample("launch", "launch", Style(layout="compact"), ranks=1),
    Sample("rocm", "pageable", Style(rocm=True, layout="tabs")),
    Sample("graphs", "healthy", Style(evils=SOUND_EVILS)),
    Sample("boot", "sync", Style(clock="boot", layout="lines"), ranks=1),
    Sample("gaps", "checkpoint", Style(tail=False)),
)
REPORTS = (("pageable", "2022.2"), ("straggler", "2025.6"))


def paths(folder: Path, sample: Sample) -> list[Path]:
    """The files of a sample, by rank."""
    return [folder / f"{sample.name}-rank{rank}.json.gz" for rank in range(sample.ranks)]


def write(folder: Path) -> None:
    """Write all of them."""
    for sample in SAMPLES:
        loop = ail(sample.label, sample.seed, sample.ranks, 2 if sample.label == "launch" else 4)
        for path, content in zip(paths(folder, sample), loop, strict=True):
            kineto.write(path, content, sample.style)


def write_reports(folder: Path) -> None:
    """Write the reports."""
    for label, version in REPORTS:
        nsys.write(folder / f"{label}-{version}.sqlite", ail(label, 0, 2, 2), version, ("unified", "ranges"))  # type: ignore[arg-type]


def labelled(folder: Path, label: Label) -> tuple[list[Path], Path]:
    """A loop's Kineto files of two ranks, and its one report."""
    loop = ail(label, 0, 2)
    files = [
        kineto.write(folder / f"rank{content.rank}.pt.trace.json.gz", content, Style(layout="compact"))
        for content in loop
    ]
    return files, nsys.write(folder / "report.sqlite", loop, "2022.2")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    write_reports(Path(sys.argv[1]))
