"""Stand-ins for what dcgm-exporter and Prometheus give: scrapes as text, OpenMetrics, and the answers to range queries."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .case import Card, Case, Column, Row, column

BEGIN = 1763828881.0
FIELDS: dict[str, tuple[str, Column]] = {
    "DCGM_FI_DEV_SM_CLOCK": ("gauge", column("sm_clock")),
    "DCGM_FI_DEV_MEMORY_TEMP": ("gauge", column("memory_temperature")),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", column("temperature")), "DCGM_FI_DEV_POWER_USAGE": ("gauge", column("power_usage")),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", column("energy")),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", column("gpu_utilization")),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("gauge", column("memory_copy_utilization")),
    "DCGM_FI_DEV_FB_FREE": ("gauge", Column(None)), "DCGM_FI_DEV_FB_USED": ("gauge", column("memory_used")),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", Column(None)), "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", Column(None)),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("gauge", column("clock_event_reasons")),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", column("gr_engine_active")),
    "DCGM_FI_PROF_SM_ACTIVE": ("gauge", column("sm_active")), "DCGM_FI_PROF_SM_OCCUPANCY": ("gauge", column("sm_occupancy")),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", column("tensor_active")),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", column("dram_active")),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("gauge", column("pcie_tx_bytes")),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("counter", column("pcie_rx_bytes")),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("gauge", column("nvlink_tx_bytes")),
}  # fmt: skip
SHORT = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_POWER_USAGE")
BLANKS = ("9223372036854775794", "9.223372036854775794e+18", "NaN", "1.40737488355328e+14")
NEWER = {"DCGM_FI_PROF_SM_ACTIVE": "DCGM_FI_PROF_SM_UTIL_RATIO", "DCGM_FI_DEV_POWER_USAGE": "DCGM_FI_DEV_BOARD_POWER_WATTS",
         "DCGM_FI_DEV_GPU_TEMP": "DCGM_FI_DEV_GPU_TEMP_CELSIUS"}  # fmt: skip
MODEL, VERSION = "NVIDIA H100 80GB HBM3", "535.129.03"
Labels = dict[str, str]


class Source(NamedTuple):
    """What has series: its labels, what a recording must say of it, and the fields it lacks."""

    labels: Labels
    told: dict[str, object]
    lacks: tuple[str, ...] = ()


def _uuid(gpu: int) -> str:
    return f"GPU-1f027ee8-6e1e-2b8c-0108-3d370e5f04{gpu:02d}"


def _gpu(gpu: int, host: str = "n1", **more: str) -> Source:
    labels = {"gpu": str(gpu), "UUID": _uuid(gpu), "device": f"nvidia{gpu}", "modelName": MODEL, "Hostname": host,
              "DCGM_FI_DRIVER_VERSION": VERSION, **more}  # fmt: skip
    told: dict[str, object] = {
        "device_index": gpu,
        "uuid": _uuid(gpu),
        "name": MODEL,
        "node": host,
        "driver_version": VERSION,
    }
    return Source(labels, told | {"mig": None})


def _instance(gpu: int, number: int) -> Source:
    whole = _gpu(gpu, GPU_I_ID=str(number), GPU_I_PROFILE="3g.40gb")
    return whole._replace(told={"uuid": ..., "mig": ...}, lacks=("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP"))


def _escaped(labels: Labels, space: bool) -> str:
    quoted = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in labels.values())
    return (", " if space else ",").join(f'{key}="{value}"' for key, value in zip(labels, quoted, strict=True))


class Values(NamedTuple):
    """Printed values by (field, source) of one moment, and what they mean by source."""

    texts: dict[tuple[str, int], str]
    means: list[dict[str, float]]


def _draw(fields: Sequence[str], sources: Sequence[Source], chance: random.Random, blanks: bool) -> Values:
    found = Values({}, [{} for _ in sources])
    for field in fields:
        for number, source in enumerate(sources):
            if field in source.lacks:
                continue
            one = FIELDS[field][1]
            text, value = one.draw(chance)
            if blanks and chance.random() < 0.2:
                text = chance.choice(BLANKS)
            elif one.metric is not None:
                found.means[number][one.metric] = value
            found.texts[field, number] = text
    return found


def _scrape(
    fields: Sequence[str], sources: Sequence[Source], values: Values, space: bool = False, stamp: str = ""
) -> str:
    lines = []
    for field in fields:
        lines += [f"# HELP {field} Something (in %).", f"# TYPE {field} {FIELDS[field][0]}"]
        for number, source in enumerate(sources):
            if (field, number) in values.texts:
                lines.append(f"{field}{{{_escaped(source.labels, space)}}} {values.texts[field, number]}{stamp}")
    lines += [
        'DCGM_FI_DEV_NVLINK_CRC_ERROR_COUNT_TOTAL{gpu="0",gpu_uuid="x",nvlink="1"} 4',
        'go_gc_seconds{quantile="0.5"} 0.001',
    ]
    return "\n".join(lines) + "\n"


def _text(
    name: str, sources: Sequence[Source], n: int = 5, fields: Sequence[str] = tuple(FIELDS), interval: float = 15.0,
    stamps: bool = False, blanks: bool = False, space: bool = False, options: tuple[str, ...] | None = None, **more: Any,
) -> Case:  # fmt: skip
    chance, texts = random.Random(name), []
    rows: list[list[Row]] = [[] for _ in sources]
    for tick in range(n):
        time = BEGIN + tick * interval
        values = _draw(fields, sources, chance, blanks)
        texts.append(_scrape(fields, sources, values, space, f" {round(time * 1000)}" if stamps else ""))
        for number, means in enumerate(values.means):
            rows[number].append(Row(time, means))
    split = any("GPU_I_ID" in source.labels for source in sources)
    cards = [
        Card(one.told, of, whole=split and "GPU_I_ID" not in one.labels) for one, of in zip(sources, rows, strict=True)
    ]
    given = () if stamps else ("--start", str(BEGIN), "--interval", str(interval))
    return Case(
        f"prom-{name}", {"m.prom": "".join(texts).encode()}, cards, given if options is None else options, **more
    )


TWO = (_gpu(0), _gpu(1))


def _newer() -> Case:
    case = _text("newer-names", TWO, 3, (*SHORT, "DCGM_FI_DEV_GPU_TEMP"))
    data = case.files["m.prom"]
    for old, new in NEWER.items():
        data = data.replace(old.encode(), new.encode())
    return case._replace(files={"m.prom": data})


def _shared() -> Case:
    """Two pods share a GPU: every series is there twice, with the same value."""
    case = _text("shared", (_gpu(0, pod="a", namespace="x"), _gpu(1, pod="b", namespace="x")), 3, SHORT)
    lines = []
    for line in case.files["m.prom"].decode().splitlines():
        lines += [line, line.replace('pod="a"', 'pod="c"')] if 'pod="a"' in line else [line]
    return case._replace(files={"m.prom": "\n".join(lines).encode() + b"\n"})


def _twice() -> Case:
    """Two exporters on one node: one knows the pod, its values count."""
    case = _text("two-exporters", (_gpu(0, job="a", pod="train-0"), _gpu(1, job="a", pod="train-1")), 3, SHORT)
    lines = []
    for line in case.files["m.prom"].decode().splitlines():
        if 'job="a"' in line:
            other = line.replace('job="a"', 'job="b"').replace(',pod="train-0"', "").replace(',pod="train-1"', "")
            lines.append(other.rpartition(" ")[0] + " 0")
        lines.append(line)
    return case._replace(files={"m.prom": "\n".join(lines).encode() + b"\n"})


def _silent_pcie() -> Case:
    """An L40S: PCIe is 0 throughout, while the memory is busy."""
    fields = ("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES")
    case = _text("silent-pcie", (_gpu(0),), 30, fields, interval=1.0)
    lines = [line.rpartition(" ")[0] + " 0" if line.startswith("DCGM_FI_PROF_PCIE") else line
             for line in case.files["m.prom"].decode().splitlines()]  # fmt: skip
    (card,) = case.cards
    rows = [Row(row.time, {"dram_active": row.values["dram_active"]}) for row in card.rows]
    return case._replace(
        files={"m.prom": "\n".join(lines).encode() + b"\n"}, cards=[card._replace(rows=rows)], said=("PCIe|pcie",)
    )


def _openmetrics() -> Case:
    """Seconds, not ms; ``_total``, ``_created``, exemplars and units; names that are escaped; an end that is marked."""
    chance = random.Random(5)
    hard = 'tr"ain\\1\nx}'
    source = _gpu(0, pod=hard)
    families: list[str] = []
    rows = [Row(BEGIN + tick + 0.125, {}) for tick in range(4)]
    labels = _escaped(source.labels, False)
    for field, (kind, one) in FIELDS.items():
        if one.metric is None:
            continue
        families.append(f"# TYPE {field} {kind}\n# HELP {field} x\n")
        for row in rows:
            text, value = one.draw(chance)
            row.values[one.metric] = value
            total, extra = ("_total", ' # {trace_id="a b"} 1 1.5') if kind == "counter" else ("", "")
            families.append(f"{field}{total}{{{labels}}} {text} {row.time:.3f}{extra}\n")
        if kind == "counter":
            families.append(f"{field}_created{{{labels}}} {BEGIN - 100:.3f}\n")
    text = "".join(families) + "# EOF\n"
    return Case("prom-openmetrics", {"m.prom": text.encode()}, [Card(source.told, rows)])


def _matrix(name: str, sources: Sequence[Source], named: bool = True, step: float = 30.0, **more: Any) -> Case:
    """Series that begin at different steps; one with NaN; values as text."""
    chance, result = random.Random(name), []
    fields = SHORT if named else SHORT[2:3]
    rows: list[dict[float, dict[str, float]]] = [{} for _ in sources]
    for order, field in enumerate(fields):
        for number, source in enumerate(sources):
            values: list[list[object]] = []
            for tick in range(order, 12):
                time, one = BEGIN + tick * step, FIELDS[field][1]
                text, value = one.draw(chance)
                values.append([time, "NaN" if tick == 7 and number else text])
                mine = rows[number].setdefault(time, {})
                if not (tick == 7 and number) and one.metric is not None:
                    mine[one.metric] = value
            labels: Labels = {"job": "dcgm", "instance": "n1:9400"} | source.labels
            if named:
                labels["__name__"] = field
            result.append({"metric": labels, "values": values})
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}, "warnings": ["slow"]}
    cards = [
        Card(source.told, [Row(time, mine[time]) for time in sorted(mine)])
        for source, mine in zip(sources, rows, strict=True)
    ]
    return Case(f"range-{name}", {"r.json": json.dumps(answer).encode()}, cards, **more)


def _vector() -> Case:
    result, rows = [], [{"gpu_utilization": 0.42}, {"gpu_utilization": 0.87}]
    for source, text in zip(TWO, ("42", "87"), strict=True):
        labels: Labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL"} | source.labels
        result.append({"metric": labels, "value": [1743982065.253, text]})
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    cards = [Card(source.told, [Row(1743982065.253, values)]) for source, values in zip(TWO, rows, strict=True)]
    return Case("range-vector", {"r.json": json.dumps(answer).encode()}, cards)


def cases() -> Iterator[Case]:
    yield _text("one", TWO, 1, options=("--start", str(BEGIN)))
    yield _text("one-mtime", TWO, 1, SHORT, options=(), mtime=BEGIN, said=(r"moment|time",))
    yield _text("many", TWO, 6, blanks=True, sampling_ms=15_000)
    yield _text("stamps", TWO, 6, stamps=True, blanks=True)
    yield _text("old-spaces", TWO, 3, SHORT, space=True)
    yield _text("nodes", (_gpu(0, "n1"), _gpu(0, "n2")._replace(labels=_gpu(1, "n2").labels | {"gpu": "0"},
                told={"node": "n2", "device_index": 0})), 3, SHORT)  # fmt: skip
    yield _text("mig", (_gpu(0), _instance(0, 1), _instance(0, 2)), 3)
    yield _newer()
    yield _shared()
    yield _twice()
    yield _silent_pcie()
    yield _openmetrics()
    yield _matrix("matrix", TWO, sampling_ms=30_000)
    yield _matrix("metric", TWO, named=False, options=("--metric", "DCGM_FI_PROF_SM_ACTIVE"))
    yield _matrix("our-metric", TWO, named=False, options=("--metric", "sm_active"))
    yield _matrix("nameless", TWO, named=False)._replace(refused="--metric", cards=[])
    yield _vector()
    error = {"status": "error", "errorType": "bad_data", "error": 'invalid parameter "query"'}
    yield Case("range-error", {"r.json": json.dumps(error).encode()}, [], refused="invalid parameter|bad_data|error")
    yield Case(
        "range-empty",
        {"r.json": b'{"status":"success","data":{"resultType":"matrix","result":[]}}'},
        [],
        refused="r.json",
    )
