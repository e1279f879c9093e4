"""Writes the tables of docs/recording.md from the schema: run it after every change to gssr/store/format/schema.py or
layout.py."""

from pathlib import Path

from marked_parts import table, with_parts

from gssr.metrics import FLOP_ACTIVE
from gssr.store.format.layout import FIELDS, HEAD
from gssr.store.format.schema import EVENT_KINDS, TABLES

PAGE = Path(__file__).with_name("recording.md")

ROWS = {
    "runs": "One row for each command that was recorded. A job with several ranks (processes) has one row.",
    "processes": "One row per rank.",
    "gpus": "One row per GPU and run.",
    "process_gpus": "One row for each rank and each GPU that the rank may use.",
    "samples": "One row per GPU and sample. Every metric is a column; what was not measured is NULL. What the metrics\n"
    "mean, and what they don't, is in [metrics.md](metrics.md).",
    "host_samples": "One row per node and second, written by one rank of the node. All values are for the whole node,\n"
    "other jobs included. RDMA traffic (what MPI or NCCL send past the operating system) is in the fabric columns, not in\n"
    "the network columns ([profile.md](profile.md#host-metrics)). Files of an earlier version lack the fabric columns.",
    "workload_samples": "One row per rank and second, for the command's own processes: those of its process group, and\n"
    "its descendants.",
    "gpu_processes": "Which processes were on a GPU, and what they used. By default these are the job's own alone:\n"
    "[profile.md](profile.md#processes-on-the-gpus). Each GPU is sampled once a second. All its processes are written,\n"
    "with one time, when something has changed, and every 10 s. A process that a later sample lacks has gone; from 12 s\n"
    "after the last sample on the state is unknown. Files of an earlier version lack this table.",
    "host_rollup": "What the rows of `host_samples` add up to, node by node, in buckets of 10, 60 and 600 s. A bucket is\n"
    "written when its time is over. If the `n_rows` of a level do not add up to all rows, the sampler was killed. Columns\n"
    "that came with a later version are NULL in what an earlier one wrote.",
    "workload_rollup": "The same for `workload_samples`, rank by rank.",
    "events": "What happened, and when.",
    "rollup": "What the rows of one GPU add up to in each bucket of 10, 60 and 600 s:\n"
    "see [Rollups and sketches](#rollups-and-sketches).",
    "sketch": "A histogram of each metric for each GPU and 600 s: see [Rollups and sketches](#rollups-and-sketches).",
    "sketch_minute": "The same for each minute. Files of an earlier version lack this table.",
    "merged": "Which ranks' files were merged into this one: see [Files](#files). The table is empty if one rank\n"
    "recorded alone.",
    "thinned": "One row per rank that was recorded with `--keep 10s` or `--keep none`:\n"
    "see [Thinned recordings](#thinned-recordings).",
    "traces": "One row per trace of another tool that lies in the folder `NAME.traces` beside `NAME.sql`. The trace was\n"
    "put there while the run was recorded, or by `gssr merge --attach`: see [traces.md](traces.md#recording-a-trace). If\n"
    "the file is gone, or has another size or time than its row says, GSSR reports that and does not read it; it does read\n"
    "the row's [digest](traces.md#many-ranks). Files of an earlier version lack this table.",
}


def sections() -> dict[str, str]:
    """The parts of the page that are made from the code, by the name of their marker."""
    return {"tables": tables(), "events": events(), "fields": fields()}


def tables() -> str:
    """Every table and column."""
    return "".join(
        f"\n### {name}\n\n{ROWS[name]}\n"
        + "\n"
        + table(
            ("Column", "Type", "Meaning"),
            [(f"`{column.name}`", column.type.removesuffix(" PRIMARY KEY"), column.meaning) for column in columns],
        )
        for name, columns in TABLES.items()
    ) + (
        "\n### gpu_samples\n\nA view for people: `samples` with the `run_id`, `node`, `rank`, `device_index` and `uuid` of "
        f"its GPU, and\n`{FLOP_ACTIVE.name}`, the sum of {', '.join(f'`{part}`' for part in FLOP_ACTIVE.parts)}.\n"
    )


def events() -> str:
    """Every kind of event."""
    return table(("Kind", "What happened"), [(f"`{kind}`", meaning) for kind, meaning in EVENT_KINDS.items()])


def fields() -> str:
    """What a rollup's vector holds."""
    rows = [("(head)", ", ".join(f"`{name}`" for name in HEAD))]
    rows += [(kind, ", ".join(f"`{name}`" for name in names)) for kind, names in FIELDS.items()]
    return table(("Kind of metric", "Its numbers"), rows)


def page(text: str) -> str:
    """The page with its made parts as the code has them now."""
    return with_parts(text, "make_recording.py", sections())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
