"""What a trace of 200,000 streams and 5 million intervals costs the screens to read: first look, waits, zooms."""

import gc
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.table import Figure
from gssr.model.live.live_result import Query
from gssr.model.live.watch import Watch
from gssr.model.live.watched_trace import FINEST, MOST_COUNTERS, WatchedTrace
from gssr.render.glyphs import UTF8
from gssr.traces.timeline import NO_LINK, Category, Clock, Intervals, Kind, Timeline, TraceSource, Track
from gssr.tui.moves import MOVES
from gssr.tui.time.timeline import columns_in
from gssr.tui.view import Scene, View

FIRST, WAIT, ZOOM = 2.0, 1.0, 0.1
"""Seconds."""
SIZE = (160, 48)
_SECONDS = 600
_KINDS = ((Kind.KERNEL, Category.COMPUTE), (Kind.KERNEL, Category.COMMUNICATION), (Kind.MEMCPY, Category.COPY))


def many_streams(n_gpus: int, streams: int, n: int) -> Timeline:
    """``n`` intervals at random on so many GPUs of four to a node, each with as many ``streams``."""
    rng = np.random.default_rng(7)
    start = np.sort(rng.integers(0, _SECONDS * 10**9, n))
    which = rng.choice(3, n, p=(0.7, 0.2, 0.1))
    kind, category = (np.array([pair[side] for pair in _KINDS], np.int8)[which] for side in (0, 1))
    tracks = tuple(
        Track("gpu_stream", f"stream {k}", gpu, f"nid{gpu // 4:06d}", device=gpu % 4, stream=k)
        for gpu in range(n_gpus)
        for k in range(streams)
    )
    length = rng.exponential(1e9, n).astype(np.int64)
    track, name = rng.integers(0, len(tracks), n, np.int32), which.astype(np.int32)
    none = np.full(n, -1, np.int64)
    intervals = Intervals(start, length, track, name, kind, category, np.full(n, NO_LINK), none, none.astype(np.int8))
    names = ("gemm", "ncclDevKernel_AllReduce", "Memcpy HtoD")
    return Timeline((TraceSource("made", "nsys"),), tracks=tracks, names=names, intervals=intervals, clock=Clock())


def many_threads(n_threads: int, n: int) -> Timeline:
    """The same on threads, a rank each: intervals that overlap nest, as far as they can."""
    made = many_streams(n_threads, 1, n)
    tracks = tuple(Track("cpu_thread", "Master thread", track.rank, track.node, tid=0) for track in made.tracks)
    calls = replace(made.intervals, kind=np.full(n, Kind.CPU_OP, np.int8))
    return replace(made, tracks=tracks, intervals=calls)


def measure(n: int = 5_000_000) -> Iterator[Figure]:
    """Once each for streams on few and on many GPUs, and for threads."""
    gc.set_threshold(20_000, 10, 10)  # as gssr does
    for n_gpus, streams in ((25_000, 8), (200_000, 1), (0, 0)):
        trace = many_streams(n_gpus, streams, n) if n_gpus else many_threads(200_000, n)
        watch = WatchedTrace("made", lambda trace=trace: trace)  # type: ignore[misc]
        rows = f"{n_gpus:,} GPUs x {streams} streams" if n_gpus else "200,000 threads"
        about = f"{rows}, {n / 1e6:g} M intervals"
        begun = time.process_time()
        scene = _looked(watch, View(screen="time"), quick=False)
        taken = time.process_time() - begun
        yield Figure(f"first look, {about}", taken, "CPU s", FIRST)
        longest, refined = 0.0, False
        while not refined:  # what the thread that reads does next
            begun = time.process_time()
            refined = watch.look(_asked(View(screen="time"))).refined
            longest = max(longest, time.process_time() - begun)
        yield Figure(f"longest wait for the thread that reads, {about}", longest, "CPU s", WAIT)
        for steps in range(1, 9):
            begun = time.process_time()
            scene = _looked(watch, MOVES["zoom_in"](scene))
            taken = time.process_time() - begun
            if steps in (1, 4, 8):
                width = scene.frame.grid.width if scene.frame.part is None else scene.frame.part.columns.width  # type: ignore[union-attr]
                yield Figure(f"zoom to columns of {width:g} s, {about}", taken, "CPU s", ZOOM)


def _asked(view: View) -> Query:
    """As Time asks."""
    columns = columns_in(SIZE[0])
    width = None if view.span is None else max(view.span / columns, FINEST)
    return replace(view.query(columns), rows=SIZE[1] + MOST_COUNTERS, width=width)


def _looked(watch: Watch, view: View, quick: bool = True) -> Scene:
    return Scene(watch.look(_asked(view), quick), None, view, *SIZE, UTF8)
