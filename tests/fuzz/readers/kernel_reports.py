"""Hostile reports of Nsight Compute (.ncu-rep): damaged bytes, values of any other type, and what makes the package that
decodes them crash, never end, or tell without an end. The package is that of tests.fakes.traces.ncu."""

import json
import os
import random
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from gssr.traces import ncu_report
from gssr.traces.timeline import TraceError
from tests.fakes.traces import ncu
from tests.fuzz.readers import Parser, damage
from tests.fuzz.readers.dumps import changed, look_at_kernels

_NOT_ITS_OWN = tuple(
    json.dumps({"number": 0, "name": "a", "device": "", "metrics": [], "advice": []} | other).encode() + b"\n"
    for other in (
        {"name": None},
        {"device": [[]]},
        {"metrics": [["a", "b", "c"]]},
        {"metrics": 5},
        {"metrics": [[None, float("nan"), 0]]},
        {"metrics": [["gpu__time_duration.sum", 1e400, "ns"]]},
        {"advice": [["a", "b", None, "c", 0]]},
        {"advice": {"a": 1}},
        {"advice": [["a", 1, "b", float("inf"), 2]]},
        {"failed": ["a\nb"]},
        {"number": {}},
    )
)
_HARM = (
    "os.abort()", "os._exit(0)", "while True: pass", "[0] * (1 << 30)", "raise RecursionError", "raise SystemExit(5)",
    "os.write(1, b'{' * 5_000_000)", "os.write(1, b'[' * 100_000 + b'\\n')", "os.write(1, b'null\\n{}\\n')",
    *(f"os.write(1, {text!r})" for text in _NOT_ITS_OWN),
    "told['launches'] *= 1_000_000", "told['launches'][0]['name'] *= 100_000_000",
    "told['launches'][0]['rules'] *= 1_000_000", "told['launches'][0]['metrics'] = {f'm{n}': ('', n) for n in range(10**6)}",
    "told['launches'][0]['rules'][0]['rule_message']['message'] = '@a:b:' * 100_000",
    "told['launches'][0]['rules'] = [{'rule_message': {'message': 'x' * 20_000}}] * 100_000",
)  # fmt: skip


@cache
def _package() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="gssr-seed-")
    ncu.installed(Path(folder.name))
    return folder


def _report(rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return ncu.report(do=rng.choice(_HARM))
    sound = ncu.report()
    if kind == 1:
        return damage(sound, rng)
    if kind == 2:
        return sound[: rng.randrange(len(sound))]
    told: Any = changed(json.loads(sound[4:]), rng)
    try:
        return sound[:4] + json.dumps(told, default=str).encode()
    except (ValueError, RecursionError):  # it holds itself
        return sound[:4]


def _read(folder: Path, data: bytes) -> None:
    path = folder / "a.ncu-rep"
    path.write_bytes(data)
    with patch.object(ncu_report, "_SECONDS", 1), patch.object(sys, "path", [_package().name, *sys.path]):
        try:
            look_at_kernels(ncu_report.read_ncu_report(str(path)))
        except TraceError as error:
            assert "\n" not in str(error) and os.fspath(path) in str(error)


READERS = (Parser("ncu-report", _report, _read),)
