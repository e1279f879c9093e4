"""Where a process of our own imports modules from, whatever the job's PYTHONPATH holds.

PYTHONPATH is for the user's program, and comes before Python's own library: a file ``sqlite3.py`` in it would be imported
in place of Python's. This file imports nothing that could be hidden like that itself.
"""

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder from which gssr is imported, or the file gssr.pyz."""


def is_one_file() -> bool:
    """Tell whether this is gssr.pyz, which holds only the commands that need no package."""
    return os.path.isfile(PACKAGE)


def put_python_library_first() -> None:
    """Move Python's own library to the front of the module path of this process."""
    sys.path[:] = reordered(sys.path, os.path.dirname(os.__file__), PACKAGE)


def reordered(path: list[str], library: str, package: str) -> list[str]:
    """Return a module path with Python's own ``library`` first, then the packages installed for it, and last what the
    environment had put before them. Nothing is left out: DCGM's bindings may be found through PYTHONPATH alone.

    If ``package``, the folder with GSSR, is itself found through the environment (EasyBuild, Spack), so is what GSSR
    needs, which must come before what is installed: then only the library moves. Returned unchanged if the library is
    not on it.
    """
    if library not in path:
        return path
    begin = path.index(library)
    end = begin + 1
    if end < len(path) and os.path.basename(path[end]) == "lib-dynload":  # the part of the library that is not Python
        end += 1
    from_environment, own, installed = path[:begin], path[begin:end], path[end:]
    if package in map(os.path.abspath, from_environment):
        return own + from_environment + installed
    return own + installed + from_environment
