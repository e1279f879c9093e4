"""A stand-in for ``nsys profile``, as unkind as the real one: ``install(folder, "swallow", "exit=9")`` puts it into a folder
for PATH.

By NVIDIA's user guide: long options have their values behind "=", short ones behind a space; the program is a child whose
output passes through nsys; with ``--duration`` it is sent SIGTERM when the time is over, unless ``--kill=none`` says
otherwise; the report is written when it has ended, and nsys speaks of that on stdout; the exit code is the program's. What
it does worse on demand:

  swallow    takes SIGTERM, SIGINT, SIGUSR1 … without passing them on
  exit=N     ends with N whatever the program's code was
  slow=S     needs S seconds for the report, and ignores signals meanwhile
  hang       never ends when the program has ended
  daemon     leaves a process behind that holds stdout and stderr open for 20 s
  no report  writes none
  cut        writes a report that is cut
  fail       can't start a session: says so, ends with 1, and never starts the program
  stdin      reads the standard input empty
"""

import contextlib
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

SHORT = {
    "-o": "output", "-t": "trace", "-d": "duration", "-y": "delay", "-f": "force-overwrite", "-w": "show-output",
    "-s": "sample", "-b": "backtrace", "-c": "capture-range", "-x": "stop-on-exit", "-e": "env-var",
    "-n": "inherit-environment",
}  # fmt: skip
LONG = {
    *SHORT.values(), "export", "kill", "wait", "cpuctxsw", "cuda-graph-trace", "gpu-metrics-devices", "nic-metrics",
    "session-new", "stats", "cudabacktrace", "python-sampling", "trace-fork-before-exec", "cuda-memory-usage",
    "start-later", "run-as", "resolve-symbols", "command-file", "capture-range-end", "nvtx-capture", "osrt-threshold",
    "gpuctxsw", "cuda-flush-interval", "python-backtrace", "pytorch",
}  # fmt: skip
PASSED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT)


def install(folder: Path, *ways: str, report: Path | None = None) -> dict[str, str]:
    """Puts an executable ``nsys`` into the folder; the environment that finds it. ``report``: a .sqlite that it gives."""
    folder.mkdir(parents=True, exist_ok=True)
    command = folder / "nsys"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} "$@"\n')
    command.chmod(0o755)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "FAKE_NSYS": ",".join(ways),
        "FAKE_NSYS_LOG": str(folder / "nsys.log"),
    }
    return environment | ({"FAKE_NSYS_REPORT": str(report)} if report else {})


def named(text: str) -> str:
    """A file's name with %q{NAME}, %h, %p and %% filled in."""
    found = {"h": os.uname().nodename, "p": str(os.getpid()), "%": "%"}
    return re.sub(r"%(?:q\{(\w+)\}|(.))", lambda m: os.environ.get(m[1], "") if m[1] else found.get(m[2], m[0]), text)


def options(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """The options of ``profile``, and the program with its arguments."""
    found: dict[str, str] = {}
    while arguments and arguments[0].startswith("-"):
        word = arguments.pop(0)
        name, equals, value = word[2:].partition("=") if word.startswith("--") else (SHORT.get(word, ""), "=", "")
        if name not in LONG or not equals or (not word.startswith("--") and not arguments):
            print(
                f"unrecognised option '{word}'\n\nusage: nsys profile [<args>] [application] [<application args>]",
                file=sys.stderr,
            )
            raise SystemExit(1)
        found[name] = value if word.startswith("--") else arguments.pop(0)
    if not arguments:
        print("Specify the application to profile.", file=sys.stderr)
        raise SystemExit(1)
    return found, arguments


def write_report(stem: Path, sqlite: bool, cut: bool) -> None:
    """NAME.nsys-rep, and beside it NAME.sqlite."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    stem.with_name(stem.name + ".nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report\0" + bytes(range(256)) * 8)
    print(f"Generated:\n    {stem}.nsys-rep")
    if sqlite:
        target = stem.with_name(stem.name + ".sqlite")
        if given := os.environ.get("FAKE_NSYS_REPORT"):
            shutil.copyfile(given, target)
        else:
            with contextlib.closing(sqlite3.connect(target)) as db, db:
                db.execute("CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)")
                db.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.17.2')")
                db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
                db.execute("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER)")
                db.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?)", (time.time_ns(),))
        if cut:
            os.truncate(target, target.stat().st_size // 2)
        print(f"    {target}")


def profile(arguments: list[str]) -> int:
    """What ``nsys profile`` does."""
    ways = os.environ.get("FAKE_NSYS", "").split(",")
    values = dict(way.split("=") for way in ways if "=" in way)
    chosen, command = options(arguments)
    if log := os.environ.get("FAKE_NSYS_LOG"):
        with open(log, "a") as file:
            file.write(f"{chosen!r} {command!r}\n")
    if "fail" in ways:
        print(
            "FATAL ERROR: the session could not be created: /tmp/nvidia/nsight_systems: permission denied",
            file=sys.stderr,
        )
        return 1
    if "stdin" in ways:
        sys.stdin.buffer.read()
    try:
        child = subprocess.Popen(command)
    except OSError as error:
        print(f"nsys: {command[0]}: {error.strerror}", file=sys.stderr)
        return 1
    for number in PASSED:
        signal.signal(number, (lambda *_: None) if "swallow" in ways else lambda number, _: child.send_signal(number))
    if "daemon" in ways:
        subprocess.Popen(["sleep", "20"], start_new_session=True)
    limit = float(chosen["duration"]) if "duration" in chosen else None
    try:
        code = child.wait(limit)
    except subprocess.TimeoutExpired:
        if chosen.get("kill", "sigterm") != "none":
            child.send_signal(signal.SIGKILL if chosen.get("kill") == "sigkill" else signal.SIGTERM)
        code = child.wait()
    until = time.monotonic() + float(values.get("slow", 0))
    while (left := until - time.monotonic()) > 0 or "hang" in ways:
        time.sleep(max(left, 0.05))
    if "no report" not in ways:
        write_report(Path(named(chosen.get("output", "report1"))), "sqlite" in chosen.get("export", ""), "cut" in ways)
    sys.stdout.flush()
    code = 128 - code if code < 0 else code
    return int(values.get("exit", code))


def main() -> int:
    """``nsys --version``, ``nsys profile …``."""
    if sys.argv[1:2] == ["profile"]:
        return profile(sys.argv[2:])
    if sys.argv[1:2] in (["--version"], ["-v"]):
        print("NVIDIA Nsight Systems version 2025.1.3.140-251335620677v0")
        return 0
    print("usage: nsys [--version] [--help] <command> [<args>]", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
