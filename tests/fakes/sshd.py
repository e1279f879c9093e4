"""Real SSH servers on loopback addresses, and an ``ssh`` that finds them."""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import until

ROOT = Path(__file__).parents[2]
ADDRESSES = ("127.0.0.2", "127.0.0.3")


class Servers:
    """One server for each of ADDRESSES; ``path``: the folder with their ``ssh``; ``gssr``: this GSSR, as hosts call it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bin"
        self.gssr = folder / "gssr"
        self.path.mkdir()
        with socket.socket() as free:
            free.bind((ADDRESSES[0], 0))
            port = free.getsockname()[1]
        for name in ("host", "user"):
            key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(key, check=True, timeout=60)
        (folder / "allowed").write_text((folder / "user.pub").read_text())
        (folder / "allowed").chmod(0o600)
        self._write(self.gssr, f'PYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m gssr "$@"')
        (folder / "config").write_text(
            f"Port {port}\nIdentityFile {folder}/user\nIdentitiesOnly yes\nStrictHostKeyChecking no\n"
            f"UserKnownHostsFile {folder}/known\n"
        )
        ssh = shutil.which("ssh")
        self._write(self.path / "ssh", f'exec {ssh} -F {folder}/config "$@"')
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)  # where the server puts itself before anybody has logged in
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", os.defpath))
        assert sshd is not None
        self._servers: dict[str, subprocess.Popen[bytes]] = {}
        for address in ADDRESSES:
            config = folder / f"{address}.conf"
            config.write_text(
                f"ListenAddress {address}:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/allowed\n"
                f"PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
            )
            log = (folder / f"{address}.log").open("wb")
            command = [sshd, "-D", "-e", "-f", str(config)]
            self._servers[address] = subprocess.Popen(command, stderr=log, start_new_session=True)
            self._wait_for(folder / f"{address}.log")

    @staticmethod
    def _wait_for(log: Path) -> None:
        until(lambda: b"Server listening" in log.read_bytes(), "the server")

    def _write(self, path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def kill(self, address: str) -> None:
        """Kill a server and all connections that it serves, at once."""
        server = self._servers[address]
        for pid in [server.pid, *descendants(server.pid)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        server.wait()

    def samplers(self, address: str) -> list[int]:
        """The processes of gssr that a server has started."""
        return [pid for pid in descendants(self._servers[address].pid) if b"--lines" in _command(pid)]

    def close(self) -> None:
        """End all servers, and what they serve."""
        for address in ADDRESSES:
            self.kill(address)


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    found: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += [int(child), *descendants(int(child))]
    except OSError:
        pass
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def servers(folder: Path) -> Iterator[Servers]:
    """Servers that run within the block."""
    own = Servers(folder)
    try:
        yield own
    finally:
        own.close()
