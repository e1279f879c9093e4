"""Claims: which process of a node samples what, so that nothing is sampled twice.

A claim is an exclusive flock on the file ``<private folder>/<node>/<run id>/<what>``. It dies with the process that holds
it, and another that asks again takes it over. Nodes may share the private folder (containers, virtual nodes), and users
never meet: nobody else can put anything into it. Where another user has taken its name in a shared one, it has the next.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from errno import ENOSPC, EPERM

STALE_SECONDS = 86_400.0
"""What runs that were killed have left behind is looked for when it is older than this."""

_TRIES, _TURNS = 5, 100
_NAMES = 32
"""So many names the private folder may have in a place that is everybody's."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class Claims:
    """This process's claims of one run on one node. The methods raise OSError where locks don't work."""

    def __init__(self, node: str, run_id: str, environ: Mapping[str, str] = os.environ) -> None:
        """Raises OSError when there is no private folder to be had."""
        self._root = _private_folder(environ)
        self._node = _safe(node)
        self._folder = f"{self._node}/{_safe(run_id)}"
        self._held: dict[str, int] = {}
        try:
            self._make_folder()
        except OSError:
            os.close(self._root)
            raise

    def take(self, names: Iterable[str]) -> list[str]:
        """Claim what nobody else holds. Never waits.

        Returns those of ``names`` that are this process's now or were already, in their order.
        """
        return [name for name in names if name in self._held or self._lock(name, fcntl.LOCK_EX)]

    def release(self, name: str) -> None:
        """Give up a claim that this process holds, so that another may take it. Raises KeyError if it holds none of
        that name."""
        os.close(self._held.pop(name))

    def names(self) -> list[str]:
        """List the names of the files of this run on this node, as ``_safe`` makes them: claims that are held, and
        those of processes that are gone."""
        return [name for name, _ in _entries(self._root, self._folder)]

    def note(self, name: str) -> str | None:
        """Read the note of this name, which one of the run's processes on the node writes for all.

        Returns:
            Its text; "" when it is this process's turn to ``write`` it while the others wait; None while it is another
                one's turn.
        """
        if name not in self._held and not (self._lock(name, fcntl.LOCK_EX) or self._lock(name, fcntl.LOCK_SH)):
            return None
        descriptor = self._held[name]
        text = os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()
        if text:
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        return text

    def write(self, name: str, text: str) -> None:
        """Write the note for the others to read, after ``note`` has returned "". Where there is no space it stays
        empty, and each process finds out for itself."""
        descriptor = self._held[name]
        data = text.encode()
        if os.pwrite(descriptor, data, 0) != len(data):
            os.ftruncate(descriptor, 0)  # no space: everybody finds out for himself
        fcntl.flock(descriptor, fcntl.LOCK_SH)

    def tell(self, name: str, text: str) -> None:
        """Write a text under a claim that this process holds, for the others to read; it replaces the one before.
        Raises OSError, also when there is no space."""
        descriptor = self._held[name]
        os.ftruncate(descriptor, 0)
        data = text.encode()
        if os.pwrite(descriptor, data, 0) != len(data):
            os.ftruncate(descriptor, 0)
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    def text_of(self, name: str) -> str:
        """Return the text under a claim, whoever holds or held it; "" when there is none."""
        try:
            descriptor = os.open(f"{self._folder}/{_safe(name)}", _FILE, dir_fd=self._root)
        except OSError:
            return ""
        try:
            return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")
        finally:
            os.close(descriptor)

    def texts(self, prefix: str) -> list[str]:
        """Return the texts under the claims of other living processes whose names begin with ``prefix``, in the order
        of the names."""
        found = []
        for name in sorted(self.names()):
            if not name.startswith(prefix) or name in self._held:
                continue
            try:
                descriptor = os.open(f"{self._folder}/{name}", _FILE, dir_fd=self._root)
            except OSError:
                continue  # removed meanwhile
            if not _locked(descriptor, fcntl.LOCK_SH):
                found.append(os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace"))
            os.close(descriptor)
        return found

    def close(self) -> None:
        """Give everything up. The last process of the run on this node removes its files. Never raises."""
        for name in list(self._held):
            self.release(name)
        _remove(self._root, self._folder)
        try:
            os.rmdir(self._node, dir_fd=self._root)
        except OSError:
            pass  # there are other runs
        os.close(self._root)

    def _lock(self, name: str, kind: int) -> bool:
        """Lock the file of this name without waiting, and make it if needed; ``kind`` is LOCK_EX or LOCK_SH of fcntl.
        False if that is impossible now."""
        path = f"{self._folder}/{_safe(name)}"
        for _ in range(_TRIES):
            try:
                descriptor = os.open(path, _FILE | os.O_CREAT, 0o600, dir_fd=self._root)
            except FileNotFoundError:
                self._make_folder()  # the last process but us has just removed it
                continue
            if _locked(descriptor, kind) and _is_at(path, descriptor, self._root):
                self._held[name] = descriptor
                return True
            taken = _is_at(path, descriptor, self._root)
            os.close(descriptor)
            if taken:
                return False
        return False

    def _make_folder(self) -> None:
        """Make the run's folder, and remove what old runs have left if it is new. Raises OSError."""
        for turn in range(_TURNS):
            try:
                for folder in (self._node, self._folder):
                    try:
                        os.mkdir(folder, 0o700, dir_fd=self._root)
                    except FileExistsError:
                        continue
                    if folder == self._folder:
                        self._sweep()
                return
            except FileNotFoundError:  # another process has just removed what was made
                if turn == _TURNS - 1:
                    raise

    def _sweep(self) -> None:
        """Remove what killed runs left on this node more than STALE_SECONDS ago."""
        oldest = time.time() - STALE_SECONDS
        for name, status in _entries(self._root, self._node):
            if status.st_mtime < oldest:
                _remove(self._root, f"{self._node}/{name}")


def _private_folder(environ: Mapping[str, str]) -> int:
    """Open the folder of this user alone that all processes of the node find, and make it if needed.

    Returns its descriptor. Raises OSError where there is none to be had.
    """
    runtime, own = environ.get("XDG_RUNTIME_DIR", ""), f"gssr-{os.geteuid()}"
    names = [own, *(f"{own}-{number}" for number in range(2, _NAMES + 1))]
    places = [
        [os.path.join(folder, name) for name in names] for folder in ("/dev/shm", environ.get("TMPDIR") or "/tmp")
    ]
    if os.path.isabs(runtime):
        try:
            os.close(_open_private(runtime))
            places.insert(0, [os.path.join(runtime, "gssr")])
        except OSError:
            pass  # one of another user, or of the login node
    problem: OSError | None = None
    for paths in places:
        for path in paths:  # what is there counts, even if a name before it has become free
            try:
                return _open_private(path)
            except OSError:
                pass
        for path in paths:
            try:
                _make(path)
                return _open_private(path)
            except OSError as error:
                problem = problem or error
    assert problem is not None
    raise problem


def _make(path: str) -> None:
    """Make a folder; nothing if there is something of that name. Raises OSError."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass


def _open_private(path: str) -> int:
    """Open a folder and return the descriptor. Raises OSError when it is a link, or others could have put something
    into it."""
    descriptor = os.open(path, _FOLDER)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o777 != 0o700:
        os.close(descriptor)
        raise OSError(EPERM, "is not this user's alone", path)
    return descriptor


def _locked(descriptor: int, kind: int) -> bool:
    """Lock an open file without waiting; False if another holds it. Where there are no locks, closes the descriptor
    and raises OSError."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        os.close(descriptor)
        raise


def _is_at(path: str, descriptor: int, root: int) -> bool:
    """Tell whether an open file still has this name, and was not removed meanwhile."""
    try:
        return os.path.samestat(os.stat(path, dir_fd=root, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _entries(root: int, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield name and status of each entry of a folder below ``root``; nothing if there is no such folder."""
    try:
        descriptor = os.open(folder, _FOLDER, dir_fd=root)
    except OSError:
        return
    try:
        for name in os.listdir(descriptor):
            try:
                yield name, os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                pass  # removed meanwhile
    finally:
        os.close(descriptor)


def _remove(root: int, folder: str) -> None:
    """Remove those files of a run that nobody holds, and its folder if it is empty then. Never raises."""
    try:
        for name, _ in _entries(root, folder):
            descriptor = os.open(f"{folder}/{name}", _FILE, dir_fd=root)
            if _locked(descriptor, fcntl.LOCK_EX) and _is_at(f"{folder}/{name}", descriptor, root):
                os.unlink(f"{folder}/{name}", dir_fd=root)
            os.close(descriptor)
        os.rmdir(folder, dir_fd=root)
    except OSError:
        pass  # others of the run are still there


def _safe(name: str) -> str:
    """Return a name that is safe as one of a file: UUIDs of MIG instances hold slashes."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)[:200].lstrip(".") or "_"
