"""The supervisor without a terminal: as in a batch job."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from supervised import ROOT, Supervised

from gssr.profile.workload import FORWARDED, shell_command
from tests.waiting import PATIENCE, process_state, until

PYTHON = sys.executable
COUNT = """
import signal, sys
wanted = {getattr(signal, name) for name in sys.argv[1].split()}
signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
print("ready", flush=True)
while True:
    got = signal.sigwait(wanted)
    print(got.name, flush=True)
    if got == signal.SIGTERM:
        sys.exit(0)
"""
NAMES = " ".join(sig.name for sig in FORWARDED)
Start = Callable[..., Supervised]


@pytest.fixture
def supervised(tmp_path: Path) -> Any:
    """Starts supervised commands, and leaves none of their processes behind."""
    started: list[Supervised] = []

    def start(*command: str | bytes, options: dict[str, Any] | None = None, **popen: Any) -> Supervised:
        started.append(Supervised(tmp_path, *command, options=options, **popen))
        return started[-1]

    yield start
    for one in started:
        for group in [one.process.pid, *(pid for pid, _ in one.log.calls("started"))]:
            try:
                os.killpg(group, signal.SIGKILL)
            except OSError:
                pass
        one.process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("script", "code", "state"),
    [
        ("exit 0", 0, "completed"),
        ("exit 7", 7, "failed"),
        ("exit 255", 255, "failed"),
        ("kill -TERM $$", 128 + 15, "killed"),
        ("kill -KILL $$", 128 + 9, "killed"),
        ("exec 2>/dev/null; sh -c 'kill -TERM $$'; exit $?", 128 + 15, "killed"),
        ("exec 2>/dev/null; sh -c 'kill -KILL $$'; exit $?", 128 + 9, "killed"),
        ("exit 200", 200, "failed"),
        ("sleep 0.05", 0, "completed"),
    ],
)
def test_exit_code_is_the_workloads(supervised: Start, script: str, code: int, state: str) -> None:
    run = supervised(*shell_command(script))
    assert run.result() == (code, "", "")
    assert run.log.end() == (code, state)
    ((pid, when),) = run.log.calls("started")
    ((_, _, ended),) = run.log.calls("ended")
    assert pid > 0
    assert when <= ended <= time.time()


def test_command_that_is_not_there_is_127_and_one_line(supervised: Start) -> None:
    run = supervised("nosuch-command", "argument")
    assert run.result() == (127, "", "gssr: nosuch-command: command not found\n")
    assert run.log.end() == (127, "failed")
    assert not run.log.calls("started")


@pytest.mark.parametrize(
    ("name", "content", "mode", "code", "line"),
    [
        ("plain", "text", 0o644, 126, "Permission denied"),
        ("orphan", "#!/no/such/interpreter\n", 0o755, 127, "the interpreter that its first line names is not found"),
        ("absent", None, 0, 127, "No such file or directory"),
    ],
)
def test_file_that_cannot_be_executed_is_said_in_one_line(
    supervised: Start, tmp_path: Path, name: str, content: str | None, mode: int, code: int, line: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    run = supervised(str(path))
    assert run.result() == (code, "", f"gssr: {path}: {line}\n")
    assert run.log.end() == (code, "failed")


def test_command_not_found_is_one_line_whatever_its_name(supervised: Start) -> None:
    code, _, err = supervised("two\nlines\x1b[31m").result()
    assert code == 127
    assert err == "gssr: 'two\\nlines\\x1b[31m': command not found\n"


def test_script_without_interpreter_line_runs_as_in_a_shell(supervised: Start, tmp_path: Path) -> None:
    script = tmp_path / "bare"
    script.write_text('echo "$0:$1"\nexit 4\n')
    script.chmod(0o755)
    assert supervised(str(script), "a b").result() == (4, f"{script}:a b\n", "")


def test_arguments_arrive_byte_for_byte(supervised: Start) -> None:
    arguments = [
        b"",
        b" ",
        b"a b",
        b"'\"\\",
        b"two\nlines",
        b"$HOME `id` *",
        b"\xff\xfe\x80",
        "größe".encode(),
        b"--",
        b"-x",
    ]
    code = "import os, sys; sys.stdout.buffer.write(repr([os.fsencode(a) for a in sys.argv[1:]]).encode())"
    returned, out, err = supervised(PYTHON, "-c", code, *arguments).result()
    assert (returned, out, err) == (0, repr(arguments), "")


def test_wrapped_text_goes_to_the_shell() -> None:
    assert shell_command("echo a | cat; exit 3") == ["/bin/sh", "-c", "echo a | cat; exit 3"]


@pytest.mark.parametrize("locale", [{}, {"LC_CTYPE": "C"}, {"LC_ALL": "C.UTF-8"}, {"LANG": "C"}])
def test_environment_is_untouched_even_in_the_c_locale(supervised: Start, locale: dict[str, str]) -> None:
    environment = {"PATH": os.environ["PATH"], "GSSR_TEST": "x\ny"} | locale
    code, out, _ = supervised("env", "-0", env=environment).result()
    assert code == 0
    assert dict(entry.split("=", 1) for entry in out.split("\0") if entry) == environment


def test_directory_is_untouched(supervised: Start) -> None:
    assert supervised("pwd", "-P").result()[1].strip() == str(ROOT.resolve())


def test_streams_and_inheritable_descriptors_are_the_workloads(supervised: Start) -> None:
    readable, writable = os.pipe()
    os.set_inheritable(writable, True)
    run = supervised(
        "sh",
        "-c",
        f"cat; echo err >&2; echo pmi >/proc/self/fd/{writable}; ls /proc/self/fd",
        stdin=subprocess.PIPE,
        pass_fds=[writable],
    )
    os.close(writable)
    out, err = run.process.communicate(b"in\n", timeout=PATIENCE)
    with open(readable, "rb") as pipe:
        assert pipe.read() == b"pmi\n"
    assert err == b"err\n"
    listed = out.split()
    assert listed[0] == b"in"
    # ls itself holds one more: nothing of the supervisor's own has leaked
    assert sorted(map(int, listed[1:])) == sorted({0, 1, 2, 3, writable})


def _status(text: str) -> dict[str, int]:
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    libcs_own = _bits(32, 33)  # what was started by posix_spawn, as from make, has these ignored
    return {name: int(fields[name], 16) & ~libcs_own for name in ("SigBlk", "SigIgn", "SigCgt")}


def _bits(*signals: int) -> int:
    return sum(1 << (sig - 1) for sig in signals)


def test_workload_starts_with_pristine_signals(supervised: Start) -> None:
    _, out, _ = supervised("cat", "/proc/self/status").result()
    assert _status(out) == {"SigBlk": 0, "SigIgn": 0, "SigCgt": 0}


def _ignore_and_block() -> None:
    for sig in (signal.SIGHUP, signal.SIGCHLD, signal.SIGTTOU, signal.SIGINT):
        signal.signal(sig, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGCHLD, signal.SIGWINCH})


def test_what_was_ignored_or_blocked_stays_so(supervised: Start) -> None:
    code, out, _ = supervised("cat", "/proc/self/status", "/nosuch", preexec_fn=_ignore_and_block).result()
    assert code == 1  # of cat, although SIGCHLD was ignored and blocked
    assert _status(out) == {
        "SigBlk": _bits(signal.SIGUSR1, signal.SIGCHLD, signal.SIGWINCH),
        "SigIgn": _bits(signal.SIGHUP, signal.SIGCHLD, signal.SIGTTOU, signal.SIGINT),
        "SigCgt": 0,
    }


def test_signal_that_was_ignored_at_the_start_is_not_passed_on(supervised: Start) -> None:
    run = supervised(PYTHON, "-c", COUNT, NAMES, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert run.line() == "ready"
    run.process.send_signal(signal.SIGHUP)
    run.process.send_signal(signal.SIGTERM)
    assert run.result() == (0, "SIGTERM\n", "")
    assert run.log.events("signal") == ["SIGTERM passed on"]


def test_workload_has_a_process_group_but_not_a_session_of_its_own(supervised: Start) -> None:
    code = "import os; print(os.getpid(), os.getpgrp(), os.getsid(0))"
    run = supervised(PYTHON, "-c", code)
    pid, group, session = map(int, run.result()[1].split())
    assert pid == group == run.log.workload()
    assert session == run.process.pid


def test_each_signal_reaches_the_workload_once(supervised: Start) -> None:
    run = supervised(PYTHON, "-c", COUNT, NAMES)
    assert run.line() == "ready"
    order = [sig for sig in FORWARDED if sig != signal.SIGTERM] * 2 + [signal.SIGTERM]
    for sig in order:
        run.process.send_signal(sig)
        assert run.line() == sig.name  # and no other before it
    assert run.result() == (0, "", "")
    assert run.log.events("signal") == [f"{sig.name} passed on" for sig in order]


def test_burst_of_signals_arrives_complete(supervised: Start) -> None:
    run = supervised(PYTHON, "-c", COUNT, NAMES)
    assert run.line() == "ready"
    # SIGTSTP and SIGCONT undo each other while they are pending, as POSIX wants it
    burst = [sig for sig in FORWARDED if sig not in (signal.SIGTSTP, signal.SIGCONT, signal.SIGTERM)]
    for sig in burst:
        run.process.send_signal(sig)
    until(lambda: len(run.log.events("signal")) == len(burst), "all signals")
    assert sorted(run.line() for _ in burst) == sorted(sig.name for sig in burst)
    run.process.send_signal(signal.SIGTERM)
    assert run.result() == (0, "SIGTERM\n", "")


def test_signal_before_the_workload_exists_is_not_lost(supervised: Start) -> None:
    """SIGTERM sits there, blocked, from before the start of the supervisor."""

    def pending() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)

    unblock = "import signal, time; signal.pthread_sigmask(signal.SIG_SETMASK, ()); time.sleep(60)"
    run = supervised(PYTHON, "-c", unblock, preexec_fn=pending)
    assert run.result()[0] == 128 + 15
    assert run.log.events("signal") == ["SIGTERM passed on"]


def test_signal_reaches_the_shells_child_as_well(supervised: Start) -> None:
    run = supervised(*shell_command("trap 'wait; echo shell; exit 5' TERM; sh -c 'echo $$; exec sleep 60' & wait"))
    child = int(run.line())
    run.process.send_signal(signal.SIGTERM)
    assert run.result() == (5, "shell\n", "")
    until(lambda: process_state(child) in "XZ", "the child's end")


def test_stopped_workload_is_waited_for_and_goes_on(supervised: Start) -> None:
    run = supervised("sh", "-c", "echo ready; read line; echo $line", stdin=subprocess.PIPE)
    assert run.line() == "ready"
    pid = run.log.workload()
    for stop in (signal.SIGTSTP, signal.SIGSTOP):
        os.kill(run.process.pid if stop == signal.SIGTSTP else pid, stop)
        until(lambda: process_state(pid) == "T", "the stop")
        until(lambda: process_state(run.process.pid) == "S", "the supervisor to wait")
        run.process.send_signal(signal.SIGCONT)
        until(lambda: process_state(pid) == "S", "the continuation")
    assert run.process.stdin is not None
    run.process.stdin.write(b"on\n")
    assert run.result() == (0, "on\n", "")


def test_end_is_noticed_at_once(supervised: Start) -> None:
    run = supervised(PYTHON, "-c", "import time; print(time.time(), flush=True)")
    ended = float(run.line())
    run.result()
    ((_, _, noticed),) = run.log.calls("ended")
    assert noticed - ended < 10


def test_daemonising_workload_is_not_waited_for(supervised: Start) -> None:
    run = supervised("sh", "-c", "sleep 30 & echo $!; exit 3")
    daemon = int(run.line())
    assert run.process.wait(timeout=25) == 3  # although stdout is still open
    assert process_state(daemon) not in "XZ"
    os.kill(daemon, signal.SIGKILL)


def test_max_runtime_ends_politely(supervised: Start) -> None:
    began = time.monotonic()
    run = supervised("sh", "-c", "trap 'echo saved; exit 4' TERM; sleep 60 & wait", options={"max_runtime": 3})
    assert run.result() == (4, "saved\n", "gssr: --max-runtime of 3 s reached: the command is being ended\n")
    assert time.monotonic() - began < 30
    assert run.log.end() == (4, "timeout")
    assert run.log.events("timeout") == ["SIGTERM sent after the 3 s of --max-runtime"]


def test_max_runtime_ends_a_workload_that_ignores_sigterm(supervised: Start) -> None:
    run = supervised("sh", "-c", "trap '' TERM; sleep 60; sleep 60", options={"max_runtime": 3, "grace": 0.3})
    assert run.result()[0] == 128 + 9
    assert run.log.end() == (137, "timeout")
    assert run.log.events("timeout")[1:] == ["SIGKILL sent 0.3 s after SIGTERM"]


def test_max_runtime_ends_a_stopped_workload(supervised: Start) -> None:
    run = supervised("sh", "-c", "kill -STOP $$; sleep 60", options={"max_runtime": 0.3})
    assert run.result()[0] == 128 + 15


def test_max_runtime_leaves_the_rest_of_the_group_its_grace(supervised: Start) -> None:
    child = "trap 'sleep 0.5; echo saved; exit' TERM; echo ready; sleep 60 & wait"
    run = supervised("sh", "-c", f'sh -c "{child}"; echo never', options={"max_runtime": 3})
    code, out, _ = run.result()
    assert (code, out) == (128 + 15, "ready\nsaved\n")


def test_short_enough_workload_does_not_meet_max_runtime(supervised: Start) -> None:
    run = supervised("true", options={"max_runtime": 60})
    assert run.result() == (0, "", "")
    assert run.log.events("timeout") == []


def test_samplers_lines_are_shown_and_its_end_is_waited_for(supervised: Start) -> None:
    run = supervised("sh", "-c", "exit 7", options={"sampler": "finishes"})
    assert run.result() == (7, "", "gssr: recorded 3 samples\ngssr: all is well\n")


@pytest.mark.parametrize(
    ("sampler", "lines"),
    [
        ("is killed", "gssr: recording stopped: the sampler was killed by signal 9; the command runs on\n"),
        ("crashes", "gssr: recording stopped: the sampler exited with code 5; the command runs on\n"),
        ("says why", "gssr: no GPU here: recording the host only\n"),
        ("ends early", ""),
    ],
)
def test_dying_sampler_is_said_once_and_the_workload_runs_on(supervised: Start, sampler: str, lines: str) -> None:
    run = supervised("sh", "-c", "read line; exit 6", stdin=subprocess.PIPE, options={"sampler": sampler})
    assert run.process.stderr is not None
    if lines:
        assert run.process.stderr.readline().decode() == lines
    else:
        run.log.workload()
    time.sleep(0.05)
    assert run.process.poll() is None
    assert run.result() == (6, "", "")


def test_sampler_that_does_not_finish_is_left_to_itself(supervised: Start) -> None:
    run = supervised("true", options={"sampler": "hangs", "finish_timeout": 0.2})
    assert run.process.wait(PATIENCE) == 0
    assert run.process.stderr is not None
    os.set_blocking(run.process.stderr.fileno(), False)  # the sampler still has it
    err = run.process.stderr.read().decode()
    assert err.startswith("gssr: the recording is still being finished, by process ")
    assert err.count("\n") == 1


def test_signal_after_the_end_ends_the_waiting_with_the_workloads_code(supervised: Start) -> None:
    run = supervised("sh", "-c", "exit 9", options={"sampler": "hangs", "finish_timeout": 60})
    until(lambda: run.log.calls("ended"), "the end")
    began = time.monotonic()
    run.process.send_signal(signal.SIGTERM)
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(PATIENCE) == 9
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("call", ["started", "event", "ended"])
def test_our_own_failure_leaves_the_workload_alone(supervised: Start, call: str) -> None:
    run = supervised("sh", "-c", "trap 'exit 8' TERM; echo ready; sleep 60 & wait", options={"raises": call})
    assert run.line() == "ready"
    run.log.workload()
    time.sleep(0.05)
    run.process.send_signal(signal.SIGUSR1 if call == "event" else signal.SIGTERM)
    if call == "event":
        assert run.result()[0] == 128 + signal.SIGUSR1
    else:
        code, _, err = run.result()
        assert code == 8
        assert err.startswith("gssr: an error in gssr: RuntimeError('on purpose')")
        assert "Traceback" not in err


def test_closed_stderr_breaks_nothing(supervised: Start) -> None:
    run = supervised(
        "sh", "-c", "echo to-2 >&2; exit 5", options={"sampler": "finishes"}, preexec_fn=lambda: os.close(2)
    )
    assert run.result()[0] == 5


def test_closed_streams_break_nothing(supervised: Start) -> None:
    run = supervised(
        "sh",
        "-c",
        "test -e /proc/self/fd/1 && exit 1; exit 5",
        options={"sampler": "crashes"},
        preexec_fn=lambda: os.closerange(0, 3),
    )
    assert run.result()[0] == 5


def test_broken_stderr_breaks_nothing(supervised: Start) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    run = supervised("sh", "-c", "exit 5", options={"sampler": "finishes"}, stderr=writable)
    os.close(writable)
    assert run.result()[0] == 5


def test_stuck_stderr_does_not_hold_up_the_end(supervised: Start) -> None:
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    try:
        while True:
            os.write(writable, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writable, True)
    run = supervised("sh", "-c", "exit 5", options={"sampler": "finishes"}, stderr=writable)
    assert run.process.wait(PATIENCE) == 5
    os.close(writable)
    os.close(readable)


def test_too_long_argument_list_is_126(tmp_path: Path) -> None:
    """The driver grows its arguments itself: nobody can start it with that many."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from supervise_driver import LoggingRecorder;"
        "from gssr.profile.supervise import supervise;"
        "sys.exit(supervise(['echo'] + ['x' * 100_000] * 200, LoggingRecorder(sys.argv[2], None, None)))"
    )
    log = tmp_path / "long.jsonl"
    done = subprocess.run(
        [PYTHON, "-c", code, str(Path(__file__).parent), str(log)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (126, "gssr: echo: Argument list too long\n")
    assert [json.loads(line)[:3] for line in log.read_text().splitlines()] == [["ended", 126, "failed"]]


def test_until_the_workload_starts_no_database_is_imported() -> None:
    code = "import sys, gssr.profile.session, gssr.profile.sampling.plan; print(*sys.modules)"
    done = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert {"sqlite3", "datetime", "threading", "socket"}.isdisjoint(done.stdout.split())


def test_importing_the_supervisor_imports_nothing_heavy() -> None:
    code = "import sys, gssr.profile.supervise; print(*sys.modules)"
    modules = subprocess.run(
        [PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    ).stdout.split()
    heavy = {
        "numpy",
        "threading",
        "subprocess",
        "asyncio",
        "logging",
        "dataclasses",
        "inspect",
        "json",
        "sqlite3",
        "socket",
    }
    assert heavy.isdisjoint(modules)
