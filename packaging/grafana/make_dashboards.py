"""Makes the dashboards beside it: ``python packaging/grafana/make_dashboards.py``. Change this file, not the JSON.

Series of metrics say which GPU they are of; whose it was then is in gssr_run_info (docs/export.md). In queries a variable
of Grafana stands only within ``=~"$variable"``, so that "All" (.*) also finds series without that label. What is left of
runs that have ended is taken out by without_ended.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
WIDTH = 24
"""Columns of Grafana's grid."""
GPU = "node, gpu, uuid, mig, overlap"
"""Labels by which a series and gssr_run_info are about the same GPU."""
RUN_END = "gssr_run_end_timestamp_seconds"
"""When the last of the exported runs on a GPU ended; a run that is published while it goes on has none."""
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
SCHEMA_VERSION = 39
"""Grafana 10.3 and newer read it, and bring it up to their own."""
JOB_RUNS = 'gssr_run_info{cluster=~"$cluster", job_id=~"$job_id", run=~"$run"}'
NODE_RUNS = 'gssr_run_info{node=~"$node"}'
FLEET_RUNS = 'gssr_run_info{cluster=~"$cluster", model=~"$model"}'
IDLE = 0.02
"""SM active below this is idle, as in gssr fleet."""
HELD_DOWN_BITS = (8, 32, 64, 128)
"""Bits of gssr_clock_event_reasons: hw_slowdown, sw_thermal, hw_thermal, power_brake."""


class Query(NamedTuple):
    """A query of a panel. ``legend`` names its lines; "" leaves that to Grafana."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """A panel. ``kind``: timeseries, stat or table; ``width`` and ``height`` in the grid's units; ``calc``: how a stat
    sums up its time ("mean", "max", "lastNotNull"); ``most``: the axis' upper end, None for any."""

    title: str
    kind: str
    description: str
    queries: Sequence[Query]
    unit: str = "none"
    width: int = 12
    height: int = 8
    calc: str = "mean"
    most: float | None = None


class Variable(NamedTuple):
    """A variable with the values of a label of the series that ``selector`` finds."""

    name: str
    selector: str
    label: str


def without_ended(selector: str) -> str:
    """Select series without the values that Prometheus repeats, for minutes, after the run that they are of has ended."""
    return f"({selector} unless timestamp({selector}) <= on ({GPU}) group_left {RUN_END})"


def of_job(metric: str, condition: str = "") -> str:
    """Select a metric on the GPUs that the job has at the time, and where ``condition`` (such as " < 0.5") holds."""
    return f"{without_ended(metric)}{condition} and on ({GPU}) {without_ended(JOB_RUNS)}"


def with_run(values: str, runs: str, names: str) -> str:
    """Return one series of values for each GPU that one of ``runs`` has, with the run's labels ``names``."""
    return f"max by ({GPU}) ({values}) * on ({GPU}) group_left ({names}) topk by ({GPU}) (1, {without_ended(runs)})"


def ratio(title: str, description: str, queries: Sequence[Query], **more: Any) -> Panel:
    """A panel of shares over time, from 0 to 100 %."""
    return Panel(title, "timeseries", description, queries, "percentunit", most=1.0, **more)


def lines(title: str, unit: str, description: str, queries: Sequence[Query], **more: Any) -> Panel:
    """A panel of lines over time, from 0 on."""
    return Panel(title, "timeseries", description, queries, unit, **more)


def stat(title: str, unit: str, description: str, expr: str, calc: str = "mean", width: int = 4) -> Panel:
    """A panel of one number."""
    return Panel(title, "stat", description, [Query(expr)], unit, width, 4, calc)


def table(title: str, description: str, expr: str, unit: str = "none") -> Panel:
    """A panel of rows, as they are at the end of the time that is shown."""
    return Panel(title, "table", description, [Query(expr)], unit, WIDTH, 9)


def exchanged(select: Any) -> list[Query]:
    """Queries of what GPUs send and receive; ``select`` makes a query of a metric's name."""
    return [
        Query(
            f"sum({select(f'gssr_{link}_{way}_bytes_per_second')})", f"{name} {'sent' if way == 'tx' else 'received'}"
        )
        for link, name in (("pcie", "PCIe"), ("nvlink", "NVLink"))
        for way in ("tx", "rx")
    ]


def job_panels() -> list[Panel]:
    """What one job does."""
    place = "{{node}}:{{gpu}} {{mig}}"
    sm = "gssr_sm_active_ratio"
    idle = f"count({of_job(sm, f' < {IDLE}')}) or 0 * count({of_job(sm)})"
    pipes = [
        Query(f"avg({of_job(f'gssr_{name}_active_ratio')})", legend)
        for name, legend in (
            ("tensor", "tensor pipe"), ("fp64", "FP64 pipe"), ("fp32", "FP32 pipe"), ("fp16", "FP16 pipe"),
            ("dram", "device memory"),
        )
    ]  # fmt: skip
    return [
        stat("GPUs", "none", "The most GPUs that the job had at one time.",
             f"count(count by (node, gpu, uuid, mig) ({without_ended(JOB_RUNS)}))", "max"),
        stat("SM active", "percentunit", "Mean over the time shown of the mean over the job's GPUs.", f"avg({of_job(sm)})"),
        stat("SM occupancy", "percentunit", "Mean over the time shown of the mean over the job's GPUs.",
             f"avg({of_job('gssr_sm_occupancy_ratio')})"),
        stat("Tensor pipe", "percentunit", "Share of cycles in which a tensor pipe was active: mean over the time shown of "
             "the mean over the job's GPUs.", f"avg({of_job('gssr_tensor_active_ratio')})"),
        stat("Idle GPUs", "none", "GPUs of the job with SM active below 2 %: mean over the time shown.", idle),
        stat("Power", "watt", "Of all GPUs of the job together: mean over the time shown.",
             f"sum({of_job('gssr_power_usage_watts')})"),
        ratio("SM active, each GPU", "Share of cycles in which an SM had work. A GPU far below the others is what the "
              "others wait for, or has nothing to do.", [Query(of_job(sm), place)], width=WIDTH),
        ratio("SM active: lowest, mean and highest GPU", "How unevenly the GPUs are used at each time.",
              [Query(f"{name}({of_job(sm)})", legend)
               for name, legend in (("min", "lowest"), ("avg", "mean"), ("max", "highest"))]),
        ratio("What the GPUs do", "Means over the job's GPUs: shares of cycles in which each pipe, and the device memory, "
              "was active.", pipes),
        ratio("GPU utilization, each GPU", "Share of time in which any kernel ran. It says nothing about how much of the "
              "GPU that used; it is known also where SM active is not.",
              [Query(of_job("gssr_gpu_utilization_ratio"), place)]),
        lines("Power, each GPU", "watt", "What each board draws.", [Query(of_job("gssr_power_usage_watts"), place)]),
        lines("Device memory, each GPU", "bytes", "Device memory in use by all processes.",
              [Query(of_job("gssr_memory_used_bytes"), place)]),
        lines("Between GPUs and hosts", "Bps", "Sums over the job's GPUs, seen from the GPU: PCIe received is from the "
              "host.", exchanged(of_job)),
        table("The job's GPUs", "Each GPU that the job had in the time shown, with its rank and, where they were "
              "exported, the run, user and label.",
              "max by (cluster, job_id, run, user, label, node, gpu, mig, rank, model) "
              f"(last_over_time({JOB_RUNS}[$__range]))"),
    ]  # fmt: skip


def node_panels() -> list[Panel]:
    """What the GPUs of one node do, and whose they are."""

    def here(metric: str) -> str:
        selector = f'{metric}{{node=~"$node"}}'
        return f"max by (node, gpu, mig) ({without_ended(selector)})"

    place = "{{node}}:{{gpu}} {{mig}}"
    bits = " + ".join(f"floor({here('gssr_clock_event_reasons')} / {bit}) % 2" for bit in HELD_DOWN_BITS)
    return [
        stat("GPUs", "none", "The most GPUs of the node that were recorded at one time.",
             f"count(count by (node, gpu, uuid, mig) ({without_ended(NODE_RUNS)}))", "max", 6),
        stat("SM active", "percentunit", "Mean over the time shown of the mean over the node's recorded GPUs.",
             f"avg({here('gssr_sm_active_ratio')})", width=6),
        stat("Hottest", "celsius", "The highest temperature of a GPU in the time shown.",
             f"max({here('gssr_temperature_celsius')})", "max", 6),
        stat("Power", "watt", "Of all recorded GPUs together: mean over the time shown.",
             f"sum({here('gssr_power_usage_watts')})", width=6),
        ratio("SM active, each GPU", "Share of cycles in which an SM had work.",
              [Query(here("gssr_sm_active_ratio"), place)]),
        ratio("GPU utilization, each GPU", "Share of time in which any kernel ran.",
              [Query(here("gssr_gpu_utilization_ratio"), place)]),
        lines("Power, each GPU", "watt", "What each board draws.", [Query(here("gssr_power_usage_watts"), place)]),
        lines("Temperature, each GPU", "celsius", "Of the die.", [Query(here("gssr_temperature_celsius"), place)]),
        lines("SM clock, each GPU", "hertz", "A low clock of an idle GPU is power saving, not a fault.",
              [Query(here("gssr_sm_clock_hertz"), place)]),
        lines("Clocks held down, each GPU", "none", "How many of four reasons hold a GPU's clocks down: heat (by the "
              "driver, by the hardware), a hardware slowdown, a power brake. 0: none.", [Query(bits, place)]),
        lines("Device memory, each GPU", "bytes", "Device memory in use by all processes.",
              [Query(here("gssr_memory_used_bytes"), place)]),
        lines("Between GPUs and hosts", "Bps", "Sums over the node's GPUs, seen from the GPU: PCIe received is from the "
              "host.", exchanged(here)),
        table("Who had the GPUs", "Each job or run on a GPU of the node in the time shown.",
              f"max by (node, gpu, mig, cluster, job_id, run, user, label, model) (last_over_time({NODE_RUNS}[$__range]))"),
    ]  # fmt: skip


def fleet_panels() -> list[Panel]:
    """How well all recorded GPUs are used, and where they are not."""
    sm = "gssr_sm_active_ratio"
    held = f"count(count by (node, gpu, uuid, mig) ({without_ended(FLEET_RUNS)}))"
    own = with_run(without_ended(sm), FLEET_RUNS, "cluster, job_id, run, user, label, model")
    idle = f"count(count by (node, gpu, uuid, mig) (({own}) < {IDLE})) or 0 * count({own})"
    by_model = with_run(without_ended("gssr_power_usage_watts"), FLEET_RUNS, "model")
    return [
        stat("GPUs with a job", "none", "GPUs that a recorded job or run has at the end of the time shown.", held,
             "lastNotNull", 6),
        stat("SM active", "percentunit", "Mean over the time shown of the mean over these GPUs.", f"avg({own})", width=6),
        stat("Idle GPUs", "none", "GPUs that a job has, with SM active below 2 %: mean over the time shown.", idle, width=6),
        stat("Power", "watt", "Of all these GPUs together: mean over the time shown.", f"sum({by_model})", width=6),
        lines("GPUs with a job, and idle ones", "none", "GPUs that recorded jobs have, and those of them with SM active "
              "below 2 %.", [Query(held, "with a job"), Query(idle, "idle")]),
        ratio("SM active by model", "Means over the GPUs of each model that jobs have.",
              [Query(f"avg by (model) ({own})", "{{model}}")]),
        lines("Power by model", "watt", "Sums over the GPUs of each model that jobs have.",
              [Query(f"sum by (model) ({by_model})", "{{model}}")]),
        ratio("The ten least used nodes", "Means of SM active over the GPUs of a node that jobs have.",
              [Query(f"bottomk(10, avg by (node) ({own}))", "{{node}}")]),
        table("The twenty least used jobs", "Mean of SM active over the time shown and over the job's GPUs, of values that "
              "are evenly spaced over that time.",
              f"sort(bottomk(20, avg by (cluster, job_id, run, user, label) "
              f"(avg_over_time(({own})[$__range:$__interval]))))",
              "percentunit"),
        table("GPUs idle for 15 min, or for all of a younger job", "GPUs that a job has at the end of the time shown, and "
              "whose SM active was below 2 % in each sample of the 15 min before: a job that began later may still be "
              "starting. The value is the highest of these samples.",
              f"max by (node, gpu, mig, cluster, job_id, run, user, label) "
              f"(({with_run(f'max_over_time({sm}[15m])', FLEET_RUNS, 'cluster, job_id, run, user, label')}) < {IDLE})",
              "percentunit"),
    ]  # fmt: skip


DASHBOARDS = {
    "job": ("GSSR: a job", job_panels, (
        Variable("cluster", "gssr_run_info", "cluster"),
        Variable("job_id", 'gssr_run_info{cluster=~"$cluster"}', "job_id"),
        Variable("run", 'gssr_run_info{cluster=~"$cluster", job_id=~"$job_id"}', "run"),
    )),
    "node": ("GSSR: a node", node_panels, (Variable("node", "gssr_run_info", "node"),)),
    "fleet": ("GSSR: the fleet", fleet_panels, (
        Variable("cluster", "gssr_run_info", "cluster"),
        Variable("model", 'gssr_run_info{cluster=~"$cluster"}', "model"),
    )),
}  # fmt: skip
"""By name: title, panels and variables."""


def variable_json(variable: Variable) -> dict[str, Any]:
    """One variable as Grafana keeps it: several values can be chosen, and All is any value or none."""
    query = f"label_values({variable.selector},{variable.label})"
    return {
        "name": variable.name, "label": variable.name, "type": "query", "datasource": DATASOURCE, "definition": query,
        "query": {"qryType": 1, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]}, "includeAll": True, "allValue": ".*",
        "multi": True, "refresh": 2, "sort": 3, "hide": 0, "regex": "", "options": [], "skipUrlSync": False,
    }  # fmt: skip


def panel_json(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    """One panel as Grafana keeps it."""
    is_table = panel.kind == "table"
    targets = [
        {"refId": chr(ord("A") + at), "datasource": DATASOURCE, "editorMode": "code", "expr": query.expr,
         "legendFormat": query.legend or "__auto", "instant": is_table, "range": not is_table,
         "format": "table" if is_table else "time_series"}
        for at, query in enumerate(panel.queries)
    ]  # fmt: skip
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    options: dict[str, Any] = {"showHeader": True}
    if panel.most is not None:
        defaults["max"] = panel.most
    if panel.kind == "timeseries":
        defaults["custom"] = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 0, "spanNulls": False,
                              "showPoints": "auto"}  # fmt: skip
        options = {
            "legend": {"displayMode": "table", "placement": "right", "calcs": ["mean"], "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    elif panel.kind == "stat":
        options = {
            "reduceOptions": {"calcs": [panel.calc], "fields": "", "values": False},
            "colorMode": "none", "graphMode": "area", "textMode": "auto", "justifyMode": "auto",
            "orientation": "auto",
        }  # fmt: skip
    found: dict[str, Any] = {
        "id": number, "type": panel.kind, "title": panel.title, "description": panel.description, "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height}, "targets": targets,
        "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options,
    }  # fmt: skip
    if is_table:
        hidden = {"excludeByName": {"Time": True} | ({"Value": True} if panel.unit == "none" else {})}
        found["transformations"] = [{"id": "organize", "options": hidden}]
    return found


def dashboard_json(name: str) -> dict[str, Any]:
    """One dashboard as Grafana imports it: panels stand side by side as long as there is room."""
    title, panels, variables = DASHBOARDS[name]
    placed: list[dict[str, Any]] = []
    x = y = height = 0
    for number, panel in enumerate(panels(), 1):
        if x + panel.width > WIDTH:
            x, y, height = 0, y + height, 0
        placed.append(panel_json(panel, number, x, y))
        x, height = x + panel.width, max(height, panel.height)
    source = {
        "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "current": {},
        "hide": 0, "includeAll": False, "multi": False, "options": [], "refresh": 1, "regex": "", "skipUrlSync": False,
    }  # fmt: skip
    return {
        "uid": f"gssr-{name}", "title": title, "tags": ["gssr", "gpu"], "schemaVersion": SCHEMA_VERSION, "version": 1,
        "editable": True, "timezone": "browser", "refresh": "", "time": {"from": "now-6h", "to": "now"},
        "graphTooltip": 1, "annotations": {"list": []}, "links": [], "timepicker": {},
        "templating": {"list": [source, *map(variable_json, variables)]}, "panels": placed,
    }  # fmt: skip


def text_of(name: str) -> str:
    """The file of a dashboard."""
    return json.dumps(dashboard_json(name), indent=1) + "\n"


if __name__ == "__main__":
    for each in DASHBOARDS:
        (FOLDER / f"gssr-{each}.json").write_text(text_of(each), encoding="utf-8")
