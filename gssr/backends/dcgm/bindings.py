"""DCGM's own Python bindings: where they are, and loading them with their library.

They are on no package index: they come with DCGM, as the module pydcgm and the ones below it. Searched are DCGM_BINDINGS,
Python's own path, and the folders DCGM installs them into, newest first. Only the three modules that wrap the C interface
are used. Those of two major versions may be installed side by side: they have the same names, so that only one of them is
loaded at a time.
"""

import ctypes
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from gssr.backends.dcgm.codes import LIBRARY_NOT_FOUND, DcgmError

FOLDERS = (
    "/usr/share/datacenter-gpu-manager-4/bindings/python3",
    "/usr/local/dcgm/bindings/python3",
)
LIBRARY_FOLDERS = ("/usr/local/lib", "/usr/lib", "/opt/nvidia/dcgm/lib", "/usr/local/dcgm/lib", "/usr/local/dcgm/lib64")
"""Where a library may be that the bindings' own search (LD_LIBRARY_PATH and the system's folders) misses."""

PACKAGES = {"4": "datacenter-gpu-manager-4-core", "3": "datacenter-gpu-manager"}
"""NVIDIA's system packages that hold bindings, library and nv-hostengine, by DCGM's major version. Source: NVIDIA/DCGM,
scripts/verify_package_contents."""
_INSTALL = (
    f"install DCGM's system package ({PACKAGES['4']}, of DCGM 3 {PACKAGES['3']}), which holds them: "
    "pip has no package of them"
)

_MODULES = ("dcgm_agent", "dcgm_structs", "dcgm_fields")


class Bindings(NamedTuple):
    """The loaded modules, the folder they came from, and the version of the library below them, "" if it does not tell."""

    agent: Any
    structs: Any
    fields: Any
    folder: str
    version: str


def find_bindings() -> list[str]:
    """List the folders that hold bindings, the first to be tried first; at least one. Raises DcgmError, which says
    where they were looked for."""
    named = os.environ.get("DCGM_BINDINGS")
    if named:
        if _is_bindings(named):
            return [named]
        raise DcgmError(f"DCGM_BINDINGS={named} holds no {_MODULES[0]}.py", "name the folder of DCGM's Python bindings")
    places = (*(path or os.getcwd() for path in sys.path), *FOLDERS)
    folders = [folder for folder in dict.fromkeys(places) if _is_bindings(folder)]
    if folders:
        return folders
    raise DcgmError(
        f"DCGM's Python bindings (pydcgm) are neither in PYTHONPATH nor in {' or '.join(FOLDERS)}",
        f"{_INSTALL}, or set DCGM_BINDINGS to the folder that holds {_MODULES[0]}.py",
    )


def load_bindings(folder: str) -> Bindings:
    """Import the bindings in this folder and load DCGM's library. Raises DcgmError if either is impossible."""
    _forget_others(folder)
    sys.path.insert(0, folder)
    try:
        agent, structs, fields = (importlib.import_module(name) for name in _MODULES)
    except Exception as error:  # they are not ours: with a Python too new for them anything may come
        raise DcgmError(
            f"DCGM's Python bindings in {folder} can't be imported: {error!r}", "use those of a newer DCGM"
        ) from None
    finally:
        sys.path.remove(folder)
    _load_library(structs, folder)
    try:
        agent.dcgmInit()
        text = agent.dcgmVersionInfo().rawBuildInfoString
    except structs.DCGMError as error:
        raise _unusable(error) from None
    return Bindings(agent, structs, fields, folder, version_in(text))


def _forget_others(folder: str) -> None:
    """Remove modules of another folder's bindings from Python's loaded modules, as these have the same names."""
    loaded = getattr(sys.modules.get(_MODULES[0]), "__file__", None)
    other = os.path.dirname(loaded) if loaded else folder
    if other == folder:
        return
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and file.startswith(other + os.sep):
            del sys.modules[name]


def _unusable(error: Exception) -> DcgmError:
    return DcgmError(f"DCGM's library can't be used: {error}", "reinstall DCGM: library and bindings must fit together")


def _is_bindings(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, f"{_MODULES[0]}.py"))


def _load_library(structs: Any, folder: str) -> None:
    """Load the library with the bindings' function, from its own search path or the usual folders. Raises DcgmError."""
    for place in (None, *_library_folders(folder)):
        try:
            structs._dcgmInit(place)
            return
        except structs.DCGMError as error:
            if error.value != LIBRARY_NOT_FOUND:
                raise _unusable(error) from None
    broken = _why_not_loadable(folder)
    if broken:
        raise DcgmError(
            f"DCGM's Python bindings are in {folder}, but their library can't be loaded: {broken}",
            "install the DCGM that NVIDIA builds for this system (ldd shows which library is missing)",
        )
    raise DcgmError(
        f"DCGM's Python bindings are in {folder}, but their library libdcgm.so is missing",
        f"install DCGM's system package ({PACKAGES['4']}, of DCGM 3 {PACKAGES['3']}), or put the library's folder into "
        "LD_LIBRARY_PATH",
    )


def _why_not_loadable(folder: str) -> str:
    """Return the loader's reason if there is a library that it refuses; "" if there is none. The bindings keep this
    reason to themselves, and say that there is no library."""
    search_path = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for place in (*search_path, *_library_folders(folder)):
        for major in PACKAGES:
            path = os.path.join(place, f"libdcgm.so.{major}")
            if place and os.path.exists(path):
                try:
                    ctypes.CDLL(path)
                except OSError as error:
                    return str(error) if path in str(error) else f"{path}: {error}"
    return ""


def _library_folders(folder: str) -> Iterator[str]:
    """Yield the folders in which the library may be: beside the bindings (a DCGM unpacked anywhere:
    PREFIX/bindings/python3 or PREFIX/share/NAME/bindings/python3 next to PREFIX/lib), then those of
    ``LIBRARY_FOLDERS``."""
    prefix = os.path.abspath(folder)
    for _ in range(4):
        prefix = os.path.dirname(prefix)
        for name in ("lib64", "lib", f"lib/{os.uname().machine}-linux-gnu"):
            yield os.path.join(prefix, name)
    yield from LIBRARY_FOLDERS


def major_of(version: str) -> str:
    """Return the major version, which hostengine and library must share; "" for ""."""
    return version.partition(".")[0]


def version_in(text: str) -> str:
    """Return the version in the library's build information, ``version:4.6.0;arch:...``; "" if it is not there."""
    for part in text.split(";"):
        key, _, value = part.strip().partition(":")
        if key == "version":
            return value.strip()
    return ""
