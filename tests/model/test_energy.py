"""The energy of a window is one number, wherever it is told: by counters, else by power, and unknown where a part is."""

import json
from typing import Any

import numpy as np
import pytest
from ticks import T0, Record, ticks

from gssr.cli import main
from gssr.model.analyze import Options, analyze
from gssr.model.fleet.figures import read_figures
from gssr.store.read.recording import RunReader

SECONDS = 200
COUNTED, BY_POWER, NEITHER = (0, 1), (2, 3), (4, 5)
WATTS = (300.0, 500.0, 200.0, 450.0)


def _measured(record: Record, *kinds: tuple[int, ...], **options: Any) -> RunReader:
    """A run with GPUs of these kinds, a sample a second. Those with a counter have power as well, which says less."""
    gpu, time = ticks(sum(map(len, kinds)), SECONDS, 1.0)
    kind = np.array([own for own in kinds for _ in own], object)
    of = np.array([member for own in kinds for member in own])[gpu]
    watts = np.array([*WATTS, np.nan, np.nan])[of]
    counter = np.where(of < 2, 1e9 + watts * (time - T0), np.nan)
    power = np.where(of < 2, watts - 100.0, watts)
    assert len(kind) == len(set(zip(of.tolist(), time.tolist(), strict=True))) / SECONDS
    values = {"sm_active": np.full(len(gpu), 0.5), "energy": counter, "power_usage": power}
    return record(gpu, time, values, sampling_ms=1000.0, **options)


def _everywhere(reader: RunReader, capsys: pytest.CaptureFixture[str]) -> list[float | None]:
    """What page (from rows, from rollups, exactly), JSON, fleet, comparison say; the screen asks the comparison."""
    path = reader.tails[0][0]
    told = [analyze(reader, Options(exact=exact)).energy_j for exact in (None, False, True)]
    assert main(["analyze", path, "--json"]) == 0
    told.append(json.loads(capsys.readouterr().out)["runs"][0]["energy_j"])
    figures = read_figures(reader, path)
    told.append(figures.energy_j)
    assert main(["compare", path, path, "--json"]) == 0
    told.append(json.loads(capsys.readouterr().out)["comparisons"][0]["energy_j"]["b"])
    return told


@pytest.mark.parametrize(
    ("kinds", "joules"),
    [
        ((COUNTED,), (300 + 500) * (SECONDS - 1.0)),
        ((BY_POWER,), (200 + 450) * (SECONDS - 1.0)),
        ((COUNTED, BY_POWER), (300 + 500 + 200 + 450) * (SECONDS - 1.0)),
        ((COUNTED, BY_POWER, NEITHER), None),
        ((NEITHER,), None),
    ],
)
def test_everything_that_tells_energy_tells_the_same(
    record: Record, capsys: pytest.CaptureFixture[str], kinds: tuple[tuple[int, ...], ...], joules: float | None
) -> None:
    told = _everywhere(_measured(record, *kinds), capsys)
    assert told == [None if joules is None else pytest.approx(joules)] * len(told)


def test_a_gpu_is_told_by_its_own_counter_or_power_and_missing_is_never_zero(record: Record) -> None:
    reader = _measured(record, COUNTED, BY_POWER, NEITHER)
    each = [gpu.energy_j for gpu in read_figures(reader, "a.sql").gpus]
    assert each == [*(pytest.approx(watts * (SECONDS - 1.0)) for watts in WATTS), None, None]
    part = analyze(reader, Options(gpus=("0", "1", "2", "3")))
    assert part.energy_j == pytest.approx(sum(WATTS) * (SECONDS - 1.0))


def test_what_the_number_rests_on_is_said(record: Record) -> None:
    def notes(*kinds: tuple[int, ...]) -> str:
        return " ".join(analyze(_measured(record, *kinds)).notes)

    assert "energy" not in notes(COUNTED)
    assert "the energy counter of 2 of 4 GPUs was not measured: their energy is mean power times" in notes(
        COUNTED, BY_POWER
    )
    assert "no energy counter was measured: energy is mean power times" in notes(BY_POWER)
    assert "energy is unknown: of 2 of 6 GPUs neither the counter nor power was measured" in notes(
        COUNTED, BY_POWER, NEITHER
    )


def test_the_second_die_of_a_card_is_told_by_the_first(record: Record) -> None:
    gpu, time = ticks(4, SECONDS, 1.0)
    counter = np.where(gpu % 2 == 0, 400.0 * (time - T0), np.nan)
    for name, joules in (("AMD Instinct MI250X", 2 * 400 * (SECONDS - 1.0)), ("AMD Instinct MI300X", None)):
        reader = record(gpu, time, {"energy": counter}, sampling_ms=1000.0, gpus={"name": name})
        assert analyze(reader).energy_j == (None if joules is None else pytest.approx(joules))
    second = record(gpu, time, {"energy": counter}, sampling_ms=1000.0, gpus={"name": "AMD Instinct MI250X"})
    assert analyze(second, Options(gpus=("0", "3"))).energy_j is None, "the card of the other is not among them"
