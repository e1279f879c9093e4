"""The one table of foreign names: complete, and right in its units."""

import re

import numpy as np
import pytest

from gssr.foreign import names
from gssr.metrics import METRICS

TABLES = {"query": names.QUERY, "smi": names.SMI_DMON, "pulse": names.KEMPNERPULSE, "dmon": names.DCGMI_DMON}


def test_every_metric_of_dcgm_has_its_row_and_the_catalogues_id() -> None:
    rows = {row.name: row for row in names.ROWS}
    of_dcgm = [metric for metric in METRICS if metric.dcgm is not None]
    assert set(rows) == {metric.name for metric in of_dcgm} | set(names.OF_GPUS) and len(rows) == len(names.ROWS)
    for metric in of_dcgm:
        row = rows[metric.name]
        assert row.id == metric.dcgm and row.dcgm and row.tag and row.dmon
        for word in (str(row.id), row.tag, f"dcgm_{row.tag}", *row.dcgm.split()):
            assert names.of_dcgm(word) == (metric.name, metric.dcgm_factor)
        assert all(names.of_dcgm(f"DCGM_FI_{macro}") == names.of_dcgm(macro) for macro in row.dcgm.split())


@pytest.mark.parametrize("column", TABLES)
def test_no_name_of_a_tool_stands_for_two_metrics(column: str) -> None:
    words = [word for row in names.ROWS for word in getattr(row, column).split()]
    assert len(words) == len(set(words)) == len(TABLES[column])


def test_units_are_those_of_the_field_whatever_the_value() -> None:
    of = [
        names.of_dcgm(word) for word in ("GPU_UTIL", "DEV_GPU_UTIL_RATIO", "PROF_SM_ACTIVE", "fb_used", "156", "what")
    ]
    mib = float(1 << 20)
    assert of == [None, ("gpu_utilization", 0.01), ("sm_active", 1.0), ("memory_used", mib), ("energy", 0.001), None]
    assert names.SMI_DMON["sm"] == ("gpu_utilization", 0.01) and names.SMI_DMON["rxpci"] == ("pcie_rx_bytes", 1e6)
    assert names.SMI_DMON["pwr"].factor == names.SMI_DMON["gtemp"].factor == names.KEMPNERPULSE["energy_j"].factor == 1
    assert names.SMI_DMON["fb"].factor == names.QUERY["memory.total"].factor == names.DCGMI_DMON["FBTTL"].factor == mib
    assert names.QUERY["power.limit"].factor == 1 and names.KEMPNERPULSE["sm_active_pct"].factor == 0.01
    assert all(re.fullmatch("[A-Z0-9]+", word) for word in names.DCGMI_DMON)


def test_blanks_are_unknown_and_large_values_are_not() -> None:
    blank = [float(0x7FFFFFF0 + n) for n in range(4)] + [float(0x7FFFFFFFFFFFFFF0 + n) for n in range(4)]
    blank += [140737488355328.0 + n for n in range(4)] + [np.inf, -np.inf, np.nan, 1e300]
    assert np.isnan(names.blanks_to_nan(np.array(blank))).all()
    real = np.array([0.0, -1.0, 0.9, float(0x7FFFFFEF), 2147483700.0, 9e11, 140737488355327.0])
    assert (names.blanks_to_nan(real) == real).all()
