"""Writes the tables of docs/export.md from gssr/convert/: run it after every change there, or to the schema."""

from pathlib import Path

from marked_parts import with_parts

from gssr.convert.tables import EXPORTED, ExportTable
from gssr.convert.traces import TRACE_TABLES
from gssr.metrics import BY_NAME
from gssr.store.format.schema import Column

PAGE = Path(__file__).with_name("export.md")


def tables() -> str:
    """Every table with its columns; metrics are in metrics.md."""
    return (
        "".join(
            f"\n### {table.name}\n\n{_about(table)}\n\n{_columns(table)}"
            for table in (*EXPORTED.values(), *TRACE_TABLES.values())
        )
        + "\n"
    )


def _about(table: ExportTable) -> str:
    about = f"A row is {table.about}."
    return about + " Split by node." if table.per_node else about


def _columns(table: ExportTable) -> str:
    lines = ["| Column | Type | Meaning |", "| --- | --- | --- |"]
    lines += [_line(column) for column in table.columns if column.name not in BY_NAME or table.name != "samples"]
    if table.name == "samples":
        lines.append("| all metrics | REAL | under their names, in the units of the [catalogue](metrics.md) |")
    return "\n".join(lines) + "\n"


def _line(column: Column) -> str:
    kind = column.type.removesuffix(" PRIMARY KEY").removesuffix(" NOT NULL")
    return f"| `{column.name}` | {kind} | {column.meaning} |"


def page(text: str) -> str:
    """The page with its tables as the code has them now."""
    return with_parts(text, "make_export.py", {"tables": tables()})


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
