"""Hostile traces in files of other tools that are no Chrome traces: databases of rocprofv3 and its JSON and CSV, profiles in
CUBE4, archives of OTF2, profiles of XLA, traces of Perfetto. Each is a sound one that was damaged; it is read, or refused in
one sentence that names it."""

import gzip
import json
import random
import shutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gssr.model.traces.analyze_trace import analyze_timeline
from gssr.traces.open import open_traces
from gssr.traces.timeline import Timeline, TraceError
from tests.fakes.rocpd.files import Process, trained
from tests.fakes.rocpd.files import write as write_rocpd
from tests.fakes.rocpd.other_formats import as_csv, as_json
from tests.fakes.traces.cube import write_solver
from tests.fakes.traces.nsys_columns import in_columns
from tests.fakes.traces.proton import profile as proton_profile
from tests.fakes.xspace import on_gpus, on_tpus
from tests.fuzz.readers import Reader, damage
from tests.fuzz.readers.hostile import corrupt
from tests.fuzz.readers.reports import check

_GPUS = (0x8123456789ABCDEF, 0x1123456789ABCDEF)


@cache
def _sound_database() -> bytes:
    with TemporaryDirectory(prefix="gssr-seed-") as folder:
        return write_rocpd(Path(folder) / "run.sql", [Process(trained(0), _GPUS)]).path.read_bytes()


@cache
def _sound_texts() -> tuple[dict[str, bytes], ...]:
    """What rocprofv3 writes as JSON, and as CSV."""
    with TemporaryDirectory(prefix="gssr-seed-") as folder:
        written = write_rocpd(Path(folder) / "run.sql", [Process(trained(0), _GPUS)])
        told = as_json(written.path, written.tables[0])
        files = as_csv(written.path, written.tables[0], Path(folder))
        return {"results.json": json.dumps(told).encode()}, {path.name: path.read_bytes() for path in files}


def _texts(folder: Path, rng: random.Random) -> Path:
    files = rng.choice(_sound_texts())
    damaged = rng.choice(sorted(files))
    for name, data in files.items():
        (folder / name).write_bytes(damage(data, rng) if name == damaged else data)
    return folder / damaged


@cache
def _sound_profile(packed: bool) -> bytes:
    with TemporaryDirectory(prefix="gssr-seed-") as folder:
        return write_solver(Path(folder) / "a.cubex", "<", packed).read_bytes()


@cache
def _sound_archive(kind: str) -> dict[str, bytes]:
    from tests.traces import otf2_archives

    with TemporaryDirectory(prefix="gssr-seed-") as folder:
        place: Path = getattr(otf2_archives, kind)(Path(folder) / "archive")
        return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def _database(folder: Path, rng: random.Random) -> Path:
    path = folder / "run.sql"
    path.write_bytes(_sound_database())
    if rng.random() < 0.5:
        path.write_bytes(damage(path.read_bytes(), rng))
    else:
        corrupt(folder, rng)
    return path


def _profile(folder: Path, rng: random.Random) -> Path:
    path = folder / "a.cubex"
    path.write_bytes(damage(_sound_profile(rng.random() < 0.5), rng))
    return path


def _archive(folder: Path, rng: random.Random) -> Path:
    files = _sound_archive(rng.choice(("mpi_archive", "gpu_archive", "sampled_archive")))
    damaged = rng.choice(sorted(files))
    for name, data in files.items():
        path = folder / "archive" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(damage(data, rng) if name == damaged else data)
    return folder / "archive"


def _reading(
    make: Callable[[Path, random.Random], Path], holds_together: Callable[[Timeline], None] = check
) -> Callable[[Path, random.Random], None]:  # fmt: skip
    def attempt(folder: Path, rng: random.Random) -> None:
        try:
            path = make(folder, rng)
            try:
                timeline = open_traces([str(path)]).timeline()
                holds_together(timeline)
                analyze_timeline(timeline, tables=["verdicts"])
            except TraceError as error:
                assert "\n" not in str(error) and path.name in str(error)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    return attempt


def _lengths(timeline: Timeline) -> None:
    """Raise AssertionError where an interval ends before it begins; a damaged clock may put it at any time."""
    assert not len(timeline.intervals) or timeline.intervals.length.min() >= 0


@cache
def _sound_columns(ending: str) -> dict[str, bytes]:
    report = Path(__file__).parents[2] / "traces" / "samples" / "pageable-2022.2.sqlite"
    with TemporaryDirectory(prefix="gssr-seed-") as folder:
        place = in_columns(report, Path(folder), ending)
        return {path.name: path.read_bytes() for path in place.iterdir()}


def _columns(folder: Path, rng: random.Random) -> Path:
    """An export in columns, one of whose larger tables is damaged."""
    files = _sound_columns(rng.choice(("parquet", "arrow")))
    damaged = rng.choice([name for name in sorted(files) if "CUPTI" in name or "String" in name])
    (folder / "columns").mkdir()
    for name, data in files.items():
        (folder / "columns" / name).write_bytes(damage(data, rng) if name == damaged else data)
    return folder / "columns"


def _proton(folder: Path, rng: random.Random) -> Path:
    path = folder / "a.hatchet"
    text = json.dumps(proton_profile()).encode()
    at = rng.randrange(len(text))
    put = rng.choice((b"null", b"[]", b"{}", b"1e400", b"-5", b'"x"', b'{"children": [' * 300, b'"time (ns)": 1e18,'))
    path.write_bytes(damage(text, rng) if rng.random() < 0.5 else text[:at] + put + text[at + rng.choice((0, 1, 9)) :])
    return path


def _in_order(timeline: Timeline) -> None:
    """Raise AssertionError where intervals or counters do not hold together; damaged times may be any up to 2**62."""
    _lengths(timeline)
    own = timeline.intervals
    assert not len(own) or (own.track.max() < len(timeline.tracks) and own.name.max() < len(timeline.names))
    assert (np.diff(own.start) >= 0).all() and (timeline.hlo is None or len(timeline.hlo.op) == len(own))
    assert all((np.diff(counter.time) >= 0).all() for counter in timeline.counters)


def _xspace(folder: Path, rng: random.Random) -> Path:
    path = folder / "a.xplane.pb"
    sound = rng.choice((on_gpus(), on_tpus()))
    for _ in range(rng.choice((0, 1, 1, 3))):
        sound = damage(sound, rng)
    path.write_bytes(gzip.compress(sound, 1) if rng.random() < 0.1 else sound)
    return path


def _perfetto(folder: Path, rng: random.Random) -> Path:
    from tests.fakes.perfetto import as_rocprofv3

    path = folder / "a.pftrace"
    sound = as_rocprofv3()
    for _ in range(rng.choice((0, 1, 1, 3))):
        sound = damage(sound, rng)
    path.write_bytes(gzip.compress(sound, 1) if rng.random() < 0.1 else sound)
    return path


def _there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


READERS = (
    Reader("proton", _reading(_proton)),
    Reader("rocpd", _reading(_database)),
    *((Reader("nsys-columns", _reading(_columns, _lengths)),) if find_spec("pyarrow") else ()),
    Reader("rocprof", _reading(_texts)),
    Reader("cubex", _reading(_profile)),
    *((Reader("otf2", _reading(_archive, _lengths)),) if find_spec("otf2") and find_spec("pytest") else ()),
    *((Reader("xspace", _reading(_xspace, _in_order)),) if _there("google.protobuf") else ()),
    *((Reader("perfetto", _reading(_perfetto, _in_order)),) if _there("perfetto") else ()),
)
