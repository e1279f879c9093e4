#!/usr/bin/env python3
"""Builds sdist, wheel and gssr.pyz of the last commit into a folder, twice, and compares: the same commit gives the same
bytes, whoever builds it, where and when. The wheel is built from the sdist, so that the sdist is whole."""

import gzip
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
ONE_FILE = "gssr.pyz"
_BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def build(commit: str, folder: Path, seed: int) -> dict[str, bytes]:
    """What the commit's files give when they lie in this folder: the names and contents of sdist, wheel and gssr.pyz.
    ``seed``: of Python's hashes."""
    epoch = _git("log", "-1", "--format=%ct", commit).decode().strip()
    environ = {**os.environ, "SOURCE_DATE_EPOCH": epoch, "PYTHONHASHSEED": str(seed), "LC_ALL": "C"}
    tree, out = folder / "tree", folder / "out"
    for new in (tree, out):
        new.mkdir(parents=True)
    _unpack(_git("archive", commit), tree)
    sdist = _run("build_sdist", tree, out, environ)
    data = _plain(gzip.decompress((out / sdist).read_bytes()), int(epoch))
    _unpack(gzip.decompress(data), folder)
    wheel = _run("build_wheel", folder / sdist.removesuffix(".tar.gz"), out, environ)
    one_file = [sys.executable, str(tree / ".ci" / "one_file.py"), str(tree), str(out)]
    subprocess.run(one_file, env=environ, check=True)
    return {sdist: data, wheel: (out / wheel).read_bytes(), ONE_FILE: (out / ONE_FILE).read_bytes()}


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *words], check=True, capture_output=True).stdout


def _unpack(archive: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(folder, filter="data")


def _run(what: str, tree: Path, out: Path, environ: dict[str, str]) -> str:
    command = [sys.executable, "-c", _BUILD, what, str(out)]
    done = subprocess.run(command, cwd=tree, env=environ, umask=0o022, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()[-1]


def _plain(archive: bytes, epoch: int) -> bytes:
    """The archive, compressed, without whose its files were, when they were made, and in which order: setuptools keeps
    these."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=epoch, filename="") as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime, member.pax_headers = epoch, {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return packed.getvalue()


def main(to: Path) -> int:
    """Exit code 1 when the two builds differ."""
    commit = _git("rev-parse", "HEAD").decode().strip()
    with tempfile.TemporaryDirectory() as folder:
        one, two = build(commit, Path(folder) / "one", 1), build(commit, Path(folder) / "a longer name", 2)
    if one != two:
        names = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
        print(f"dist: {', '.join(names)}: two builds differ", file=sys.stderr)
        return 1
    to.mkdir(exist_ok=True)
    for name, data in sorted(one.items()):
        (to / name).write_bytes(data)
        (to / name).chmod(0o755 if name == ONE_FILE else 0o644)
        print(f"{hashlib.sha256(data).hexdigest()}  {to / name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
