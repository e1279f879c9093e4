"""Films the live screen on a job that gets slower while one looks: ``python screenshots/film.py [FILE.gif]``.

The job is synthetic, and written by the same writer as a real one while it is filmed; what is filmed is what the screen
shows, in real time, after the keys listed here.
"""

import asyncio
import io
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from PIL import Image
from textual.pilot import Pilot

from gssr.backends.synthetic import MEASURES, SyntheticBackend
from gssr.commands.tui import watches_of
from gssr.metrics import NAMES
from gssr.render.glyphs import UTF8
from gssr.report.png.cells import Picture, to_png
from gssr.store.liveness import boot_id, process_start
from gssr.store.write.writer import Writer
from gssr.tui.app import LiveScreen
from gssr.tui.export import picture_of

SIZE = (100, 30)
FRAMES_PER_SECOND, PATIENCE = 2, 60.0
MOST_BYTES = 2_000_000
"""Of the file: it is shown on a page."""
KEYS = ((6.0, ""), (1.5, "2"), (3.0, "s"), (1.5, "3"), (4.0, ""), (1.5, "5"), (7.0, ""), (0.5, "1"), (3.0, ""))
"""What is pressed (Textual's names; empty: nothing), after so many seconds."""
NODE, GPUS, HERTZ = "node0000", 8, 2.0
SLOW_GPU = 5
GOOD_SECONDS, WORSE_SECONDS = 60.0, 45.0
"""For GOOD_SECONDS all GPUs run at full clocks. In the WORSE_SECONDS after that one of them gets too hot and lowers its
clock, down to LOWEST_CLOCK of what it was; from then on the others wait for it in each step."""
LOWEST_CLOCK, HOTTEST_CELSIUS = 0.55, 91.0
_SW_THERMAL = 0x020  # of clock_event_reasons: the driver lowers the clock to keep the temperature
_ACTIVITIES = [name.endswith("_active") or name in ("gpu_utilization", "sm_occupancy") for name in NAMES]
_CLOCK, _TEMPERATURE, _REASONS = (NAMES.index(name) for name in ("sm_clock", "temperature", "clock_event_reasons"))


class SlowingJob(threading.Thread):
    """Writes the recording at ``path``: GOOD_SECONDS and a half of WORSE_SECONDS of the past, then what comes now, until
    ``over`` is set."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self._backend = SyntheticBackend("stencil", GPUS, NODE, start=0.0)
        self._writer_path = path
        self.over = threading.Event()

    def run(self) -> None:
        """The thread itself."""
        past = GOOD_SECONDS + WORSE_SECONDS / 2
        begin, pid = time.time() - past, os.getpid()
        writer = Writer(self._writer_path)
        writer.begin(
            {"run_id": "film", "label": "stencil solver", "started_at": begin, "sampling_ms": 1000 / HERTZ,
             "state": "running", "world_size": 1},
            {"rank": 0, "node": NODE, "hostname": os.uname().nodename, "pid": pid, "pid_start": process_start(pid),
             "boot_id": boot_id(), "state": "running"},
        )  # fmt: skip
        writer.add_gpus([{"node": NODE, **gpu._asdict()} for gpu in self._backend.gpus], MEASURES, 1 / HERTZ)
        tick = 0
        while not self.over.wait(max(begin + tick / HERTZ - time.time(), 0.0)):
            elapsed = tick / HERTZ
            writer.add([(gpu, begin + elapsed, *self._values(gpu, elapsed)) for gpu in range(GPUS)])
            writer.tick(begin + elapsed)
            tick += 1

    def _values(self, gpu: int, elapsed: float) -> list[float | None]:
        values = list(self._backend.sample(elapsed)[gpu][2:])
        worse = min(max((elapsed - GOOD_SECONDS) / WORSE_SECONDS, 0.0), 1.0)
        clock = 1.0 - worse * (1.0 - LOWEST_CLOCK)
        if gpu != SLOW_GPU:  # done with its part of a step after this share of the step
            return [
                value * clock if active and value is not None else value
                for value, active in zip(values, _ACTIVITIES, strict=True)
            ]
        if worse:
            values[_CLOCK] = (values[_CLOCK] or 0.0) * clock
            values[_TEMPERATURE] = max(values[_TEMPERATURE] or 0.0, HOTTEST_CELSIUS * worse)
            values[_REASONS] = _SW_THERMAL
        return values


async def film(app: LiveScreen) -> list[Picture]:
    """What is seen while the keys are pressed, FRAMES_PER_SECOND times a second."""
    seen: list[Picture] = []

    async def watch_for(pilot: Pilot[int], seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            due = time.monotonic() + 1 / FRAMES_PER_SECOND
            seen.append(picture_of(app.export_screenshot()))
            await pilot.pause(max(due - time.monotonic(), 0.0))

    async with app.run_test(size=SIZE) as pilot:
        until = time.monotonic() + PATIENCE
        while not (app.results and app.results[0].judgement is not None) and time.monotonic() < until:
            await pilot.pause(0.1)
        for seconds, key in KEYS:
            if key:
                await pilot.press(key)
            await watch_for(pilot, seconds)
    return seen


def drawn(picture: Picture) -> Image.Image:
    """A picture as it is exported."""
    file = io.BytesIO()
    to_png(picture.rows, SIZE[0], file, scale=1)
    return Image.open(file)


def main(path: str) -> None:
    """Film the session into a GIF that begins anew at its end. Raises SystemExit where it is too large to be shown."""
    with tempfile.TemporaryDirectory() as folder:
        recording = os.path.join(folder, "solver.sql")
        job = SlowingJob(recording)
        job.start()
        while not os.path.exists(recording):
            time.sleep(0.05)
        seen = asyncio.run(film(LiveScreen(watches_of([recording]), UTF8, 2.0, 256)))
        job.over.set()
        job.join()
    frames = [drawn(picture) for picture in seen]
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=1000 // FRAMES_PER_SECOND, loop=0, optimize=True
    )
    size = os.path.getsize(path)
    print(f"{path}: {len(frames)} pictures, {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"more than {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).with_name("film.gif")))
