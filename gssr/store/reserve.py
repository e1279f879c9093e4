"""Room on the disk for the end of a recording: where the disk is full from some moment on, how the run ended is still
written. It is held by a file without a name, which is gone with the process that holds it, however that ends."""

import os
from errno import EDQUOT, ENOSPC

BYTES = 1 << 17
"""The end takes about a dozen pages, and as many again in the write-ahead log or the journal."""


def reason(error: Exception, path: str) -> str:
    """Why a recording can't be written: SQLite knows of no quota, and calls it an I/O error."""
    if "disk I/O error" in str(error):
        try:
            Reserve(path).release()
        except OSError as found:
            return found.strerror or str(error)
    return str(error)


class Reserve:
    """Room beside the recording at ``path``; none on filesystems that have no files without names."""

    def __init__(self, path: str) -> None:
        """Raises OSError when there is no space, or no quota, for it: then there is none for a recording."""
        self._descriptor = -1
        try:
            self._descriptor = os.open(
                os.path.dirname(os.path.abspath(path)), os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600
            )
            os.posix_fallocate(self._descriptor, 0, BYTES)
        except OSError as error:
            self.release()
            if error.errno in (ENOSPC, EDQUOT):
                raise

    def release(self) -> None:
        """Give the room back, to whoever writes first."""
        if self._descriptor >= 0:
            try:
                os.ftruncate(self._descriptor, 0)  # at once, also where a forked process has it open as well
                os.close(self._descriptor)
            except OSError:
                pass
            self._descriptor = -1
