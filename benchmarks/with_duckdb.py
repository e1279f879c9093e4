"""What ``gssr analyze --json`` answers, by DuckDB from exported samples: ``python with_duckdb.py FOLDER``."""

import json
import sys

import duckdb

NOT_AVERAGED = {"gpu", "time", "energy", "clock_event_reasons", "c2c_tx_bytes", "c2c_rx_bytes"}
FLOP = "fp64_active + fp32_active + fp16_active + tensor_active"
STATISTICS = {
    "mean": "avg({0})", "min": "min({0})", "max": "max({0})", "std": "stddev_pop({0})",
    "p05": "quantile_cont({0}, 0.05)", "median": "quantile_cont({0}, 0.5)", "p95": "quantile_cont({0}, 0.95)",
}  # fmt: skip

connection = duckdb.connect()
connection.execute(
    f"CREATE VIEW samples AS SELECT *, {FLOP} AS flop_active FROM read_parquet('{sys.argv[1]}/samples/**/*.parquet')"
)
columns = connection.execute("DESCRIBE samples").fetchall()
metrics = [name for name, kind, *_ in columns if kind in ("FLOAT", "DOUBLE", "BIGINT") and name not in NOT_AVERAGED]
wanted = [how.format(name) for name in metrics for how in STATISTICS.values()]
values = iter(connection.execute(f"SELECT {', '.join(wanted)} FROM samples").fetchone() or ())
found = {name: {key: next(values) for key in STATISTICS} for name in metrics}
means = ", ".join(f"avg({name})" for name in metrics)
by_gpu = connection.execute(f"SELECT gpu, {means} FROM samples GROUP BY gpu").fetchall()
json.dump({"metrics": found, "gpus": {gpu: dict(zip(metrics, row, strict=True)) for gpu, *row in by_gpu}}, sys.stdout)
