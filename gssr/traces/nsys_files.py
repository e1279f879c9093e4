"""Which files a report of Nsight Systems says were read and written: ``nsys profile --osrt-file-access=true``."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from gssr.arrays import Ints
from gssr.store.pages.leaf_rows import NULL
from gssr.traces.interval_columns import Key, number_combinations
from gssr.traces.nsys_about import OF_A_PROCESS
from gssr.traces.tables import Tables
from gssr.traces.timeline import FILE_OPERATIONS, FileUse, Track

_EVENTS = (
    "OSRT_FILE_ACCESS_EVENTS", "startedAt", "endedAt", "fileAccessId", "threadId", "eventType", "apiCallId",
    "bytesProcessed",
)  # fmt: skip
_OPENED = ("OSRT_FILE_ACCESS_DESCRIPTORS", "fileAccessId", "processId", "filePath")
TABLES = (_EVENTS[0], _OPENED[0])
"""Those that are read here."""
_MOVED = {3: "read", 4: "write"}
"""Values of eventType (ENUM_OSRT_FILE_ACCESS_EVENT_TYPE) that have bytes; 1 opens, 2 closes."""
_UNKNOWN = "(unknown)"


def files_of(
    database: Tables, sound: Callable[[list[Ints]], list[Ints]], tracks: Sequence[Track], names: Sequence[str],
    host: str | None,
) -> tuple[FileUse | None, list[Track], list[str]]:  # fmt: skip
    """Read the uses of files that a report has recorded.

    Args:
        sound: keeps the rows that can be uses, given columns whose first two are start and end.
        tracks: the timeline's tracks so far.
        names: the timeline's names so far.
        host: the node of new threads.

    Returns the uses (None if none was recorded), new tracks for threads that ``tracks`` lacks, and new names of calls;
    their indices continue those of ``tracks`` and ``names``.
    """
    table, *columns = _EVENTS
    parts = [sound(values) for values in database.integers(table, columns)]
    if not sum(len(part[0]) for part in parts):
        return None, [], []
    start, end, access, thread, event, call, moved = (np.concatenate(column) for column in zip(*parts, strict=True))
    process, path = _opened(database, access)
    thread = np.where(thread == NULL, NULL, thread & ~OF_A_PROCESS)
    track, added = _on_tracks(process, thread, tracks, host)
    name, called = _calls(database, call, names)
    operation = np.full(len(start), FILE_OPERATIONS.index("other"), np.int8)
    for number, kind in _MOVED.items():
        operation[event == number] = FILE_OPERATIONS.index(kind)
    size = np.where(np.isin(event, list(_MOVED)), np.maximum(moved, -1), -1)
    texts = list(database.texts)
    paths, file = np.unique(path, return_inverse=True)
    files = tuple(_UNKNOWN if at == NULL else texts[at] for at in paths.tolist())
    nothing = np.zeros(len(start), np.int32)
    use = FileUse(
        track, start, end - start, file.astype(np.int32), operation, name, nothing, size, files, ("OS runtime",)
    )
    return use, added, called


def _opened(database: Tables, access: Ints) -> tuple[Ints, Ints]:
    """Find for each ``access`` (an id) the process that opened the file, and the index of its path in
    ``database.texts``, int64[n] each; NULL where unknown."""
    table, *columns = _OPENED
    parts = list(database.integers(table, columns, texts=("filePath",)))
    if not sum(len(part[0]) for part in parts):
        return np.full(len(access), NULL), np.full(len(access), NULL)
    ids, process, path = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(ids, kind="stable")
    at = order[np.minimum(np.searchsorted(ids, access, sorter=order), len(ids) - 1)]
    known = ids[at] == access
    return np.where(known, process[at], NULL), np.where(known, path[at], NULL)


def _on_tracks(
    process: Ints, thread: Ints, tracks: Sequence[Track], host: str | None
) -> tuple[NDArray[np.int32], list[Track]]:
    """Find the track of each row's thread, by the numbers of its process and thread [n], NULL where unknown. Returns
    indices, int32[n], that go on behind ``tracks`` for new threads; and the tracks of these, on the node ``host``."""
    known = {(track.pid, track.tid): at for at, track in enumerate(tracks) if track.kind == "cpu_thread"}
    keys: dict[Key, int] = {}
    at = number_combinations([process, thread], keys)
    rank, places, added = tracks[0].rank if tracks else None, [], list[Track]()
    for key in keys:
        pid, tid = (None if each == NULL else each for each in key)
        if (pid, tid) not in known:
            known[pid, tid] = len(tracks) + len(added)
            added.append(Track("cpu_thread", f"thread {tid}", rank, host, pid, tid))
        places.append(known[pid, tid])
    return np.array(places, np.int32)[at], added


def _calls(database: Tables, call: Ints, names: Sequence[str]) -> tuple[NDArray[np.int32], list[str]]:
    """Find the name of each row's call. Returns indices into ``names`` and then the new names, int32[n], -1 where
    unknown; and the new names."""
    ids, at = np.unique(call, return_inverse=True)
    strings = database.strings("StringIds", set(ids.tolist()))
    known = {name: place for place, name in enumerate(names)}
    places = [known.setdefault(strings[each], len(known)) if each in strings else -1 for each in ids.tolist()]
    return np.array(places, np.int32)[at], list(known)[len(names) :]
