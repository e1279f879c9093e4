"""The library below the bindings: built with the C compiler at its first use, from ``library/``."""

import ctypes
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from fakedcgm.fields import ranges

SOURCES = Path(__file__).parent.parent / "library"


def build(major: int) -> Path:
    """libdcgm.so.MAJOR, from ``__pycache__`` or, where nothing can be written there, the temporary folder."""
    sources = sorted(SOURCES.glob("*.c"))
    flags = [
        "-shared", "-fPIC", "-O2", "-fvisibility=hidden", f"-Wl,-soname,libdcgm.so.{major}", f"-DMAJOR={major}",
        "-DFIELDS=" + ",".join(f"{{{first},{last},'{kind}'}}" for first, last, kind in ranges(major)),
    ]  # fmt: skip
    made_of = repr(flags).encode() + b"".join(path.read_bytes() for path in (*sources, SOURCES / "fakedcgm.h"))
    folder = SOURCES / "__pycache__"
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"fakedcgm-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
    name = f"libdcgm-{hashlib.sha256(made_of).hexdigest()[:16]}.so.{major}"
    if not (folder / name).exists():
        with tempfile.TemporaryDirectory(dir=folder) as half_done:
            made = Path(half_done) / name
            subprocess.run(["gcc", *flags, "-o", str(made), *map(str, sources), "-lpthread"], check=True, timeout=60)
            made.rename(folder / name)
    return folder / name


def load(major: int) -> ctypes.CDLL:
    """The library, with what answers for an engine in this process. Raises OSError where it can't be built or loaded."""
    from fakedcgm import client

    try:
        library = ctypes.CDLL(str(build(major)))
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from error
    library.fakedcgm_embed(client.ANSWER)
    return library
