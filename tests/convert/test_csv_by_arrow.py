"""pyarrow writes the same CSV as Python does."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from gssr.arrays import Floats
from gssr.cli import main
from gssr.convert import text_files
from gssr.convert.csv_by_arrow import csv_rows
from gssr.convert.tables import plain
from gssr.render.csv_cells import cell
from gssr.store.format.schema import Column

N = 3000
EDGES = (
    0.0, -0.0, 1e-4, 9.999999999999999e-5, 1e-5, 1e10, 9999999999.999998, 1e15, 1e16, 9999999999999998.0, 1e22, 2.0**53,
    5e-324, 1.7976931348623157e308, 0.1, 123456.0, 2.0**63, -(2.0**63), np.nan, np.inf, -np.inf,
)  # fmt: skip


def _columns(seed: int) -> dict[str, Floats]:
    chance = np.random.default_rng(seed)
    wide = chance.choice([-1, 1], N) * chance.random(N) * 10.0 ** chance.integers(-20, 20, N)
    share = chance.random(N)
    with np.errstate(invalid="ignore"):
        any_bits = chance.integers(0, 2**64, N, dtype=np.uint64).view(np.float64) * 1.0
    return {
        "any bits": any_bits,
        "of any size": wide,
        "whole, of any size": np.trunc(wide),
        "beside powers of ten": np.nextafter(10.0 ** chance.integers(-6, 18, N), chance.choice([0, 1e30], N)),
        "edges": np.resize(np.array(EDGES), N),
        "shares": share,
        "two decimals": np.round(100 * share, 2),
        "often zero": np.where(share < 0.5, 0.0, share),
        "zero or unknown": np.where(share < 0.5, 0.0, np.where(share < 0.6, np.nan, share)),
        "often whole": np.round(100 * share, 1) // 0.5 / 2,
        "times": 1.7e9 + np.arange(N) / 10,
        "all zero": np.zeros(N),
        "all minus zero": -np.zeros(N),
        "all unknown": np.full(N, np.nan),
    }


@pytest.mark.parametrize("kind", ["REAL", "INTEGER"])
@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_and_texts_are_written_as_by_python(kind: str, seed: int) -> None:
    numbers = _columns(seed) | {"int64": np.random.default_rng(seed).integers(-(2**62), 2**62, N)}
    texts = {"same": ["a,b"] * N, "differ": [("=f", 'x"y', "nö\nde", None, "")[row % 5] for row in range(N)]}
    columns = [Column(name, "TEXT", "") for name in texts] + [Column(name, kind, "") for name in numbers]
    values = [*texts.values(), *numbers.values()]
    written = csv_rows(values, [column.type == "INTEGER" for column in columns]).to_pybytes().decode()
    by_python = io.StringIO()
    rows = zip(
        *(plain(np.array(each, object).tolist(), column) for each, column in zip(values, columns, strict=True)),
        strict=True,
    )
    csv.writer(by_python, lineterminator="\n").writerows([cell(value) for value in row] for row in rows)
    pairs = zip(written.split("\n"), by_python.getvalue().split("\n"), strict=True)
    assert next((pair for pair in pairs if pair[0] != pair[1]), None) is None


def test_a_table_in_which_all_rows_are_alike() -> None:
    assert csv_rows([["a"] * 3, np.ones(3)], [False, False]).to_pybytes() == b"a,1.0\na,1.0\na,1.0\n"


def test_an_export_is_the_same_with_and_without_pyarrow(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "_MANY_ROWS", 1)
    assert main(["export", str(recording), "--format", "csv", "-o", str(tmp_path / "by_arrow")]) == 0
    monkeypatch.setattr(text_files, "_csv_by_arrow", lambda: None)
    assert main(["export", str(recording), "--format", "csv", "-o", str(tmp_path / "by_python")]) == 0
    by_arrow, by_python = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("by_arrow", "by_python")
    )
    assert by_arrow == by_python and b"synthetic" in by_arrow["samples.csv"]
