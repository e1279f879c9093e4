"""torch.profiler as its documentation describes it: a schedule says of each step what to do, ``step()`` goes to the next
one, and ``on_trace_ready`` is called when a cycle has been recorded. A trace holds a range for each recorded step and
whatever ``record_function`` was given; it is written as Kineto writes. ``FAKE_TORCH=fail`` makes writing fail, as on
a full disk."""

import gzip
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any


class ProfilerAction(Enum):
    """What is done at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class ProfilerActivity(Enum):
    """What can be recorded."""

    CPU = 0
    XPU = 1
    CUDA = 2


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """``wait`` steps of nothing, ``warmup`` to get warm, ``active`` recorded; ``repeat`` times, 0: for ever."""
    assert wait >= 0 and warmup >= 0 and active > 0 and repeat >= 0 and skip_first >= 0, (
        "Invalid profiler schedule arguments"
    )

    def action(step: int) -> ProfilerAction:
        assert step >= 0
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle, at = divmod(step, wait + warmup + active)
        if (repeat and cycle >= repeat) or at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < wait + warmup + active - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> "Callable[[profile], None]":
    """Writes each trace into a folder, under the worker's name and the time."""

    def handler(prof: "profile") -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


def supported_activities() -> set[ProfilerActivity]:
    """What this machine can record."""
    cuda = {ProfilerActivity.CUDA} if os.environ.get("FAKE_TORCH_CUDA") == "1" else set()
    return {ProfilerActivity.CPU} | cuda


KEYWORDS = {
    "record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "experimental_config",
    "execution_trace_observer", "acc_events", "use_cuda", "custom_trace_id_callback",
}  # fmt: skip


class profile:
    """Records the steps that the schedule chooses; only one can record at a time."""

    recording: "profile | None" = None

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: "Callable[[profile], Any] | None" = None,
        **others: object,
    ) -> None:
        assert set(others) <= KEYWORDS, others
        self.activities = set(activities) if activities is not None else supported_activities()
        assert self.activities, "No valid profiler activities found"
        self.schedule = schedule or (lambda _: ProfilerAction.RECORD)
        self.stepping = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.events: list[dict[str, Any]] = []
        self.began = 0
        self.running = False

    def __enter__(self) -> "profile":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Begins with the first step."""
        assert not self.running, "the profiler was started already"
        self.running = True
        self._go(ProfilerAction.NONE, self.current_action)
        self.began = time.time_ns()

    def step(self) -> None:
        """The next step begins."""
        assert self.running, "the profiler was not started"
        self._close_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        self._go(before, self.current_action)
        self.began = time.time_ns()

    def stop(self) -> None:
        """The end; what is being recorded is handed over."""
        assert self.running, "the profiler was not started"
        self._close_step()
        self.running = False
        before, self.current_action = self.current_action, ProfilerAction.NONE
        if before is ProfilerAction.RECORD:
            before = ProfilerAction.RECORD_AND_SAVE
        self._go(before, ProfilerAction.NONE)

    def _close_step(self) -> None:
        if self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE) and self.stepping:
            self.add("user_annotation", f"ProfilerStep#{self.step_num}", self.began, time.time_ns())

    def _go(self, before: ProfilerAction, after: ProfilerAction) -> None:
        records = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if before is ProfilerAction.RECORD_AND_SAVE:
            profile.recording = None
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
            self.events = []
        if after in records and profile.recording is not self:
            if profile.recording is not None:
                raise RuntimeError("Profiler is already enabled on this thread")
            profile.recording = self
        elif after not in records and profile.recording is self:
            profile.recording = None

    def add(self, category: str, name: str, begin: int, end: int) -> None:
        """A range on this thread."""
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": os.getpid(), "tid": os.getpid(), "ts": (begin - BASE) / 1000,
             "dur": (end - begin) / 1000, "args": {"External id": len(self.events)}}
        )  # fmt: skip

    def add_metadata_json(self, key: str, value: str) -> None:
        """A key of the file."""

    def key_averages(self) -> list[object]:
        """Nothing."""
        return []

    def export_chrome_trace(self, path: str) -> None:
        """Writes what was recorded; packed where the name ends so."""
        if os.environ.get("FAKE_TORCH") == "fail":
            raise OSError(28, "No space left on device", path)
        head: dict[str, Any] = {"schemaVersion": 1}
        if "RANK" in os.environ:
            head["distributedInfo"] = {
                "backend": "gloo",
                "rank": int(os.environ["RANK"]),
                "world_size": int(os.environ["WORLD_SIZE"]),
            }
        text = json.dumps(
            {
                **head,
                "displayTimeUnit": "ms",
                "baseTimeNanoseconds": BASE,
                "traceEvents": self.events,
                "traceName": path,
            },
            indent=2,
        )
        if path.endswith(".gz"):
            Path(path).write_bytes(gzip.compress(text.encode()))
        else:
            Path(path).write_text(text)


BASE = 1_759_300_000_000_000_000


class record_function:
    """A range of the program's own."""

    def __init__(self, name: str, args: str | None = None) -> None:
        del args
        self.name, self.began = name, 0

    def __enter__(self) -> "record_function":
        self.began = time.time_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if profile.recording is not None:
            profile.recording.add("user_annotation", self.name, self.began, time.time_ns())
