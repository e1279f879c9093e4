"""The synthetic backend: believable, consistent, the same everywhere, and cheap to sample."""

import itertools
import math
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gssr.backends.base import BackendError
from gssr.backends.synthetic import MEASURES, SCENARIOS, SyntheticBackend, device, parse
from gssr.metrics import BY_NAME, METRICS, NAMES, PLACES

RATIOS = tuple(metric.name for metric in METRICS if metric.unit == "1")
PARTS = ("tensor_active", "fp64_active", "fp32_active", "fp16_active", "integer_active", "sm_occupancy")
START = 0.0
scenarios = st.sampled_from(sorted(SCENARIOS))
times = st.floats(0, 86400) | st.integers(0, 36000).map(lambda tick: tick * 0.1)


def run(scenario: str, gpus: int, seconds: float, interval: float = 0.1, seed: int = 0) -> list[list[dict]]:
    """Rows by GPU, each a dict by metric name and time."""
    backend = SyntheticBackend(scenario, gpus, "node", seed, start=START)
    rows: list[list[dict]] = [[] for _ in range(gpus)]
    for tick in range(round(seconds / interval)):
        for gpu, time, *values in backend.sample(START + tick * interval):
            rows[gpu].append({"time": time - START, **dict(zip(NAMES, values, strict=True))})
    return rows


def mean(rows: list[dict], metric: str) -> float:
    values = [row[metric] for row in rows if row[metric] is not None]
    return sum(values) / len(values)


@settings(max_examples=60, deadline=None)
@given(scenarios, times, st.integers(1, 9), st.integers(0, 3))
def test_every_sample_is_consistent(scenario: str, time: float, gpus: int, seed: int) -> None:
    for _, _, *row in SyntheticBackend(scenario, gpus, "node", seed, START).sample(START + time):
        values = dict(zip(NAMES, row, strict=True))
        known = {name: value for name, value in values.items() if value is not None}
        assert all(math.isfinite(value) for value in known.values())
        assert all(0 <= known[name] <= 1 for name in RATIOS if name in known)
        if "sm_active" in known:
            assert known["sm_active"] <= known["gr_engine_active"]
            assert all(known[part] <= known["sm_active"] for part in PARTS)
            pipes = ("tensor_hmma_active", "tensor_imma_active", "tensor_dfma_active")
            assert max(known[pipe] for pipe in pipes) <= known["tensor_active"]
            assert known["dram_active"] <= 0.85
        for name, value in known.items():
            if BY_NAME[name].kind == "rate":
                assert 0 <= value <= BY_NAME[name].full_scale
            if BY_NAME[name].integral:
                assert isinstance(value, int)
        assert 60 <= known["power_usage"] <= 700
        assert 25 <= known["temperature"] < 95
        assert known["temperature"] < known.get("memory_temperature", 200)
        assert 345 <= known["sm_clock"] <= 1980
        assert 0 <= known["memory_used"] <= 80 << 30
        assert known["clock_event_reasons"] in (0, 1, 4)
        assert bool(known["clock_event_reasons"] & 4) == (known["power_usage"] > 679)
        if known["clock_event_reasons"] & 1:
            assert known.get("gr_engine_active", 0) < 0.005
        assert not set(known) - set(MEASURES)


@pytest.mark.parametrize("name", SCENARIOS)
def test_energy_is_the_integral_of_power(name: str) -> None:
    for rows in run(name, 4, 60):
        by_tick = {round(row["time"] * 10): row for row in rows}
        for tick, row in by_tick.items():
            if tick - 10 in by_tick:
                used = row["energy"] - by_tick[tick - 10]["energy"]
                assert used == pytest.approx(row["power_usage"], rel=0.02)
            assert row["energy"] * 1000 == pytest.approx(round(row["energy"] * 1000), abs=1e-3)


def test_training_has_its_features_within_twenty_seconds() -> None:
    rows = run("train", 8, 20)
    everyone = [sum(gpu[tick]["sm_active"] for gpu in rows) / len(rows) for tick in range(200)]
    assert max(everyone[:25]) < 0.1  # start-up
    assert min(everyone[31:40]) > 0.7
    dips = [tick for tick in range(31, 120) if everyone[tick] < 0.5 <= everyone[tick - 1]]
    assert dips == [42, 85]
    assert max(everyone[137:152]) < 0.1  # checkpoint
    assert rows[0][143]["pcie_tx_bytes"] > 10e9
    assert mean(rows[0][31:40], "tensor_active") > 0.5
    assert mean(rows[0][31:40], "nvlink_tx_bytes") > 50e9


def test_training_has_one_straggler() -> None:
    means = sorted(mean(gpu, "sm_active") for gpu in run("train", 8, 20))
    assert means[0] < 0.85 * means[1]
    assert means[1] > 0.95 * means[-1]


def test_stencil_is_memory_bound() -> None:
    rows = run("stencil", 2, 20)[0]
    assert 0.7 < mean(rows[30:90], "dram_active") < 0.82
    assert mean(rows, "tensor_active") == 0
    assert mean(rows[30:90], "sm_occupancy") > 0.6


def test_startup_begins_and_ends_idle() -> None:
    (rows,) = run("startup", 1, 20)
    assert mean(rows[:39], "sm_active") < 0.1
    assert mean(rows[45:155], "sm_active") > 0.7
    assert mean(rows[165:], "sm_active") == 0
    assert rows[-1]["memory_used"] < rows[100]["memory_used"]


def test_gaps_has_missing_rows_values_and_gpus() -> None:
    backend = SyntheticBackend("gaps", 4, "node", start=START)
    rows: dict[int, list[tuple]] = {gpu: [] for gpu in range(4)}
    changes = []
    for tick in range(200):
        for row in backend.sample(START + tick * 0.1):
            rows[row[0]].append(row)
        changes += [(tick, change.kind, change.gpu) for change in backend.changes()]
    longest = {gpu: max(b[1] - a[1] for a, b in itertools.pairwise(mine)) for gpu, mine in rows.items()}
    assert longest[0] == longest[2] == pytest.approx(1.6)
    assert longest[1] == pytest.approx(4.1)
    assert longest[3] == pytest.approx(0.1)
    assert changes == [(110, "gpu_lost", 1), (150, "gpu_back", 1)]
    sm, heat = PLACES["sm_active"], PLACES["memory_temperature"]
    assert all(mine[0][sm] is None for mine in rows.values())
    assert sum(row[sm] is None for row in rows[0]) > sum(row[sm] is None for row in rows[2]) > 0
    assert all(row[PLACES["power_usage"]] is not None for mine in rows.values() for row in mine)
    assert all(row[heat] is None for row in rows[3])
    assert not any(row[heat] is None for row in rows[0])


@settings(max_examples=30, deadline=None)
@given(scenarios, times)
def test_a_moment_does_not_depend_on_those_before(scenario: str, time: float) -> None:
    fresh = SyntheticBackend(scenario, 3, "node", start=START).sample(START + time)
    used = SyntheticBackend(scenario, 3, "node", start=START)
    for before in (0.0, 5.3, 12.0):
        used.sample(START + before)
    assert used.sample(START + time) == fresh


def test_starts_with_the_first_sample_when_no_start_is_given() -> None:
    assert (
        SyntheticBackend("train", 2, "node").sample(1.7e9)[0][2:]
        == (SyntheticBackend("train", 2, "node", start=5.0).sample(5.0)[0][2:])
    )


def test_uuids_look_real_and_differ() -> None:
    uuids = {device(node, index).uuid for node in ("nid001", "nid002", "nid01") for index in range(2000)}
    assert len(uuids) == 6000
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in uuids)
    assert len({uuid[:12] for uuid in uuids}) == 6000


def test_uuids_are_the_same_in_every_process() -> None:
    code = "from gssr.backends.synthetic import device; print(device('nid001', 3).uuid)"
    printed = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    }
    assert printed == {device("nid001", 3).uuid}


@pytest.mark.parametrize(
    ("spec", "meaning"),
    [
        ("synthetic", ("train", None)),
        ("synthetic:idle", ("idle", None)),
        ("synthetic:train:8", ("train", 8)),
        ("synthetic::10000", ("train", 10000)),
    ],
)
def test_specs(spec: str, meaning: tuple[str, int | None]) -> None:
    assert parse(spec) == meaning


@pytest.mark.parametrize("spec", ["synthetic:trian", "synthetic:train:0", "synthetic:train:many", "synthetic:train:-1"])
def test_bad_specs_get_one_sentence(spec: str) -> None:
    with pytest.raises(BackendError) as caught:
        parse(spec)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("unknown synthetic scenario 'trian': choose one of train, ") or spec in text


def test_sampling_imports_no_numpy() -> None:
    code = (
        "import sys\n"
        "from gssr.backends.synthetic import SyntheticBackend, SCENARIOS\n"
        "for name in SCENARIOS:\n"
        "    backend = SyntheticBackend(name, 8, 'node')\n"
        "    for tick in range(10): backend.sample(1e9 + tick)\n"
        "heavy = {'numpy', 'dataclasses', 'logging', 'subprocess', 'hashlib', 'random'} & set(sys.modules)\n"
        "sys.exit(' '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
