"""What ``gssr analyze --json`` answers, computed in the usual way: ``python with_pandas.py FILE``."""

import json
import sqlite3
import sys

import pandas as pd

NOT_AVERAGED = {"gpu", "time", "energy", "clock_event_reasons", "c2c_tx_bytes", "c2c_rx_bytes"}

frame = pd.read_sql("SELECT * FROM samples", sqlite3.connect(sys.argv[1]))
frame["flop_active"] = frame.fp64_active + frame.fp32_active + frame.fp16_active + frame.tensor_active
metrics = [name for name in frame.columns if name not in NOT_AVERAGED]
overall = frame[metrics].agg(["mean", "min", "max"])
overall.loc["std"] = frame[metrics].std(ddof=0)
quantiles = frame[metrics].quantile([0.05, 0.5, 0.95])
quantiles.index = ["p05", "median", "p95"]
by_gpu = frame.groupby("gpu")[metrics].mean()
json.dump(
    {"metrics": pd.concat([overall, quantiles]).to_dict(), "gpus": by_gpu.to_dict(orient="index")},
    sys.stdout,
)
