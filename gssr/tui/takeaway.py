"""Taking away what is on screen: as text, as a picture, as numbers."""

import csv
import io
from collections.abc import Sequence

from gssr.model.live.frame import Frame
from gssr.render.cells import clean
from gssr.render.roles import Row, text_of
from gssr.store.output_file import Access, output_file
from gssr.tui.picture import to_png, to_svg

ENDINGS = (".txt", ".png", ".svg", ".csv")


def to_text(rows: Sequence[Row]) -> str:
    """The rows as plain text, a newline after each."""
    return "".join(text_of(row).rstrip() + "\n" for row in rows)


def export(rows: Sequence[Row], width: int, frame: Frame, path: str, access: Access) -> None:
    """Write what is on screen to a new file, as what its name ends in: ``.txt``, ``.png``, ``.svg``, or ``.csv`` for the
    numbers behind it (see ``to_csv``). Raises ValueError, with a sentence, for another ending; OSError."""
    ending = next((ending for ending in ENDINGS if path.endswith(ending)), None)
    if ending is None:
        raise ValueError(f"{path}: the name must end in {', '.join(ENDINGS)}")
    with output_file(path, access, new=True) as file:  # what is there is never overwritten
        if ending == ".png":
            to_png(rows, width, file)
        else:
            text = to_svg(rows, width) if ending == ".svg" else to_text(rows) if ending == ".txt" else to_csv(frame)
            file.write(text.encode())


def to_csv(frame: Frame) -> str:
    """The window's columns of time, one line each: unix time and seconds since the run's start of the column's left edge,
    then each GPU's mean of the metric there, in the metric's stored unit; empty where there is no sample."""
    grid, lines = frame.grid, io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["time", "seconds", *(f"{grid.metric} {clean(frame.place(gpu))}" for gpu in range(frame.n_gpus))])
    for column in range(grid.n):
        at = grid.start + column * grid.width
        values = grid.values[:, column].tolist()
        writer.writerow([f"{at:.3f}", f"{at - frame.first:.3f}", *("" if v != v else repr(v) for v in values)])
    return lines.getvalue()
