"""Recordings in folders, however deep."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from gssr.store.read.open import looks_like_recording

_FILE, _FOLDER = ".sql", ".sql.d"


class Found(NamedTuple):
    """``names``: recordings as ``open_recording`` takes them, sorted, each once; ``unreadable``: sentences about folders and
    files that could not be looked into."""

    names: tuple[str, ...]
    unreadable: tuple[str, ...]


def recordings_in(paths: Iterable[str | os.PathLike[str]]) -> Found:
    """All recordings among ``paths``: a folder is searched for ``NAME.sql`` and ``NAME.sql.d``, links to folders apart;
    whatever else is named is taken for a recording. In folders empty files are passed over, and so are files that are
    no recordings by their head: SQL scripts have the same ending."""
    names: dict[str, None] = {}
    unreadable: list[str] = []
    for given in paths:
        path = os.fspath(given)
        if os.path.isdir(path) and not path.rstrip("/").endswith(_FOLDER):
            names |= dict.fromkeys(sorted(_below(path, unreadable)))
        else:
            names[path.rstrip("/").removesuffix(".d") if path.rstrip("/").endswith(_FOLDER) else path] = None
    return Found(tuple(names), tuple(unreadable))


def _below(folder: str, unreadable: list[str]) -> set[str]:
    found = set()

    def missed(error: OSError) -> None:
        unreadable.append(f"{error.filename}: can't be read: {error.strerror}")

    for place, folders, files in os.walk(folder, onerror=missed):
        found |= {os.path.join(place, name)[:-2] for name in folders if name.endswith(_FOLDER)}
        folders[:] = [name for name in folders if not name.endswith(_FOLDER)]
        for name in files:
            path = os.path.join(place, name)
            if not name.endswith(_FILE) or path in found or not os.path.isfile(path):
                continue
            try:
                if os.path.getsize(path) and looks_like_recording(path):
                    found.add(path)
            except OSError as error:
                missed(error)
    return found
