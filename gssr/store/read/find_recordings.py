"""Finding recordings in folders, however deep."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable

from gssr.store.read.open import looks_like_recording

_FILE, _FOLDER = ".sql", ".sql.d"


IsKnown = Callable[[str, Container[str]], bool]


def recordings_in(
    paths: Iterable[str | os.PathLike[str]], is_known: IsKnown | None = None
) -> tuple[list[str], list[str]]:
    """Find all recordings at these paths. A folder is searched for ``NAME.sql`` and ``NAME.sql.d``, at any depth but
    not through links to folders; any other path is taken for a recording.

    In folders, files that are empty or no recordings by their first bytes are passed over (SQL scripts have the same
    ending). ``is_known``: given a file's name and the names in its folder, returns True if it is known to be a
    recording without looking; it may raise OSError.

    Returns their names as ``open_recording`` takes them, each once, and sentences on folders and files that could not be
    looked into.
    """
    names: dict[str, None] = {}
    unreadable: list[str] = []
    for given in paths:
        path = os.fspath(given)
        if os.path.isdir(path) and not path.rstrip("/").endswith(_FOLDER):
            names |= dict.fromkeys(sorted(_find_recordings_below(path, unreadable, is_known)))
        else:
            names[path.rstrip("/").removesuffix(".d") if path.rstrip("/").endswith(_FOLDER) else path] = None
    return list(names), unreadable


def _find_recordings_below(folder: str, unreadable: list[str], is_known: IsKnown | None) -> set[str]:
    """Find all recordings in a folder, at any depth but not through links to folders. Returns a set of paths: of files,
    and ``NAME.sql`` for each folder ``NAME.sql.d``, which is not looked into. Sentences on folders and files that can't
    be read are appended to ``unreadable``. ``is_known`` is as in ``recordings_in``."""
    found = set()

    def missed(error: OSError) -> None:
        unreadable.append(f"{error.filename}: can't be read: {error.strerror}")

    for place, folders, files in os.walk(folder, onerror=missed):
        found |= {os.path.join(place, name)[:-2] for name in folders if name.endswith(_FOLDER)}
        listed = {*folders, *files}
        folders[:] = [name for name in folders if not name.endswith(_FOLDER)]
        for name in files:
            path = os.path.join(place, name)
            if not name.endswith(_FILE) or path in found:
                continue
            try:
                known = is_known is not None and is_known(path, listed)
                if known or (os.path.isfile(path) and os.path.getsize(path) and looks_like_recording(path)):
                    found.add(path)
            except OSError as error:
                missed(error)
    return found
