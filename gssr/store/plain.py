"""The pages of one file of a recording, where they can be read past SQLite: it is finished, and nothing is wrong with it."""

import weakref
from typing import TYPE_CHECKING

from gssr.store.pages.file import Identity, NotPlainError, PageFile

if TYPE_CHECKING:
    from gssr.store.shard import Shard


class Plain:
    """Opens the pages once. ``identity`` is that of the file when SQLite opened it."""

    def __init__(self, shard: "Shard", identity: Identity | None) -> None:
        self._shard: Shard = weakref.proxy(shard)  # which holds this one: no circle keeps files open
        self._identity = identity
        self._pages: PageFile | None = None
        self._may_be = True

    def pages(self) -> PageFile | None:
        """The file's pages; None where they can't be read. A file that grows is not looked at."""
        if self._pages is None and self._may_be:
            shard = self._shard
            try:
                if not shard.damage and all(run.state != "running" for run in shard.runs):
                    self._pages = PageFile(shard.path, self._identity)
            except NotPlainError:
                pass
            self._may_be = self._pages is not None
        return self._pages

    def close(self) -> None:
        """Close the file."""
        if self._pages is not None:
            self._pages.close()
        self._pages, self._may_be = None, False
