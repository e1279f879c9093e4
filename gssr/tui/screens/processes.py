"""Which processes are on some GPUs: a part of a screen."""

from collections.abc import Sequence

from gssr.makers import say, spoken
from gssr.render.roles import Row, Span
from gssr.render.scale import count, metric_of, percent, quantity
from gssr.render.table import Column, rule, table
from gssr.store.format.rows import GpuProcess
from gssr.tui.order import processes_on
from gssr.tui.view import Scene

NONE = "–"
_COLUMNS = (
    Column("GPU", keep="end"),
    Column("pid", "right"),
    Column("user", drop=2),
    Column("process", drop=1),
    Column("memory", "right"),
    Column("SM", "right"),
)


def process_rows(scene: Scene, gpus: Sequence[int], height: int) -> list[Row]:
    """What is on these GPUs (positions) at the window's right edge, as far as it passes the filter, GPU by GPU in this order
    or sorted: a title and a table, at most ``height`` rows of the scene's width. What is not known is a dash."""
    frame, view = scene.frame, scene.view
    try:
        found = processes_on(frame, gpus, view.filter, view.sort, view.reverse)
    except ValueError:  # told elsewhere
        found = processes_on(frame, gpus, "", view.sort, view.reverse)
    known = count(len(found), "process") if found or frame.without_process.intersection(gpus) else ""
    about = (Span(known or "not known", "value" if known else "dim"),)
    where = frame.place(gpus[0]) if len(gpus) == 1 else count(len(gpus), "GPU")
    rows = [rule(f"Processes on {where}", scene.width, scene.glyphs, about)]
    room = height - 2
    if not found or room < 1:
        return rows[: max(height, 0)]
    shown = found if len(found) <= room else found[: room - 1]
    columns = [column._replace(title=say(spoken(), column.title)) for column in _COLUMNS]
    rows += table(
        columns, [[frame.place(process.gpu), *_cells(process)] for process in shown], scene.width, scene.glyphs, gap=2
    )
    if len(shown) < len(found):
        rows.append((Span(f"+{len(found) - len(shown):,} more", "dim"),))
    return rows


def _cells(process: GpuProcess) -> list[str]:
    memory = NONE if process.memory_used is None else quantity(process.memory_used, metric_of("memory_used"))
    sm = NONE if process.sm_utilization is None else percent(process.sm_utilization)
    pid = NONE if process.pid is None else str(process.pid)
    return [pid, process.user or NONE, process.name or NONE, memory, sm]
