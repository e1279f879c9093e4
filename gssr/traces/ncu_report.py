"""Reports of Nsight Compute (.ncu-rep), read by NVIDIA's package ncu-report in a process of its own
(gssr.traces.confined)."""

import json
import os
from collections.abc import Iterator
from itertools import chain
from typing import Any

from gssr.traces.confined import Limits, confined_arguments, written_by
from gssr.traces.kernel_profile import (
    MOST_LAUNCHES,
    AdviceKind,
    ProfiledLaunch,
    RuleAdvice,
    is_known,
    make_launch,
    measured,
    plain_advice,
)
from gssr.traces.timeline import TraceError

_MEMORY, _MEMORY_BY_SIZE = 420 << 20, 8
"""Bytes of addresses that it may take, of which Python and the package take 320 MB (half of it never touched), and how many
more for each byte of the file."""
_SECONDS, _BYTES_PER_SECOND = 10, 2 << 20
"""s that it may compute, and one more for so many bytes of the file."""
_MOST_WRITTEN = 256 << 20
"""Bytes that it may write: 100,000 launches take 200 MB."""
_KINDS: tuple[AdviceKind, ...] = ("information", "information", "optimization", "warning", "error")
"""By the number of a message's type (MsgType)."""
_GLOBAL = 2
"""The number of the type of an estimate that is of the whole launch (SpeedupType)."""
_DURATION = "gpu__time_duration.sum"
_MOST_TEXT = 20_000
_FINITE = 1e300
"""From here on a number was not measured."""
_MOST_SPEEDUP = 1e9


def read_ncu_report(path: str) -> list[ProfiledLaunch]:
    """Read the launches in a report, in its order. Raises TraceError, also if the report is cut off, or the package
    ncu-report is missing."""
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise TraceError(f"{path}: can't be read: {error.strerror}") from None
    limits = Limits(_MEMORY + _MEMORY_BY_SIZE * size, _MOST_WRITTEN, _SECONDS + size // _BYTES_PER_SECOND)
    with written_by(send_report, path, (), limits, "ncu-report", {}) as (written, exit_code):
        try:
            found = [_launch(path, told) for told in _told(written, path)]
        except (TypeError, ValueError, KeyError, OverflowError):  # not what send_report writes
            found, exit_code = [], -1
    if exit_code != 0:
        raise TraceError(f"{path}: can't be read: ncu-report crashed on it, or it takes too much memory or time")
    if not found:
        raise TraceError(f"{path}: holds no launch that was profiled, or is damaged")
    return found


def _told(written: Any, path: str) -> Iterator[dict[str, Any]]:
    """Yield what the process has written of each launch. Raises TraceError if it says that it could not read the file."""
    for n, line in enumerate(written):
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            return  # it has ended in the middle of it
        if "failed" in told:
            raise TraceError(f"{path}: can't be read: {told['failed']}")
        if n == MOST_LAUNCHES:
            raise TraceError(f"{path}: names more than {MOST_LAUNCHES:,} launches: nobody profiles as many")
        yield told


def _launch(path: str, told: dict[str, Any]) -> ProfiledLaunch:
    """Make a launch of what the process has written of it. Raises TypeError, ValueError, KeyError or OverflowError where
    that is of another form."""
    known = ((str(key), float(value), str(unit)) for key, value, unit in told["metrics"] if abs(value) < _FINITE)
    values = dict(filter(None, (measured(*each) for each in known)))
    advice = [
        RuleAdvice(
            str(rule), _KINDS[kind] if 0 <= kind < len(_KINDS) else "information", plain_advice(str(text)),
            float(speedup) if speedup is not None and 0 < speedup < _MOST_SPEEDUP else None, of == _GLOBAL,
        )
        for rule, kind, text, speedup, of in told["advice"]
    ]  # fmt: skip
    return make_launch(path, str(told["number"]), str(told["name"]), str(told["device"]), values, advice)


def send_report() -> None:
    """Run in the process of its own: read the report, its only argument, and write a line of JSON for each launch."""
    (path,) = confined_arguments()
    with open(1, "w", encoding="ascii", closefd=False) as out:
        number, failed = 0, ""
        try:
            import ncu_report

            for action in chain.from_iterable(ncu_report.load_report(path)):
                told = _described(ncu_report, action)
                if told is None:
                    failed = f"it is cut off behind {number:,} launch{'' if number == 1 else 'es'}"
                    break
                out.write(json.dumps(told | {"number": number}) + "\n")
                number += 1
        except ImportError:
            failed = "reading it needs the package ncu-report: pip install 'ncu-report>=2025.3,<2027'"
        except Exception as error:  # whatever the package raises
            failed = f"ncu-report says {type(error).__name__}"
        if failed:
            out.write(json.dumps({"failed": failed}) + "\n")


def _described(package: Any, action: Any) -> dict[str, Any] | None:
    """Describe a launch by values that JSON can hold: its name, the GPU, known metrics with their units, and what NVIDIA's
    rules say. ``package``: the module ncu_report; ``action``: the launch, an IAction of that module. None for a launch
    without a name, as where the report ends too early."""
    name = action.name(package.IAction.NameBase_DEMANGLED)
    if not isinstance(name, str):
        return None
    metrics = []
    for each in filter(is_known, action.metric_names()):
        metric = action.metric_by_name(each)
        value = None if metric is None else metric.value()
        if isinstance(value, int | float) and abs(value) < _FINITE:
            metrics.append((each, float(value), str(metric.unit() or "")))
            if each == _DURATION and not metric.unit():  # so it is where the package could not load its library
                raise MemoryError
    device = action.metric_by_name("device__attribute_display_name")
    device = None if device is None else device.value()
    advice = []
    for rule in action.rule_results_as_dicts():
        message, speedup = rule.get("rule_message") or {}, rule.get("speedup_estimation") or {}
        if text := str(message.get("message") or ""):
            title = str(message.get("title") or rule.get("rule_identifier") or "")
            gain = speedup.get("speedup")
            advice.append(
                (title[:_MOST_TEXT], int(message.get("type") or 0), text[:_MOST_TEXT],
                 float(gain) if isinstance(gain, int | float) else None, int(speedup.get("type") or 0))
            )  # fmt: skip
    named = device if isinstance(device, str) else ""
    return {"name": name[:_MOST_TEXT], "device": named[:_MOST_TEXT], "metrics": metrics, "advice": advice}
