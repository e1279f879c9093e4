"""The process that starts the hosts' samplers, reads their lines, and writes one recording of them all.

Its own end, or that of whoever started it, closes the standard input of every command, at which the samplers end.
"""

from __future__ import annotations

import gc
import json
import os
import re
import selectors
import signal
import time
from collections.abc import Sequence
from fcntl import fcntl
from typing import NamedTuple, NoReturn

from gssr.profile.detach import let_go
from gssr.profile.hosts.reach import Channel
from gssr.profile.hosts.read_lines import HostLines, RecordedHosts
from gssr.profile.outbox import BEGUN_ANEW, hand_on, hand_on_failure
from gssr.profile.sampling.line_writer import MOST_LINE
from gssr.render.cells import clean
from gssr.store.disk import allow_descriptors, sizes
from gssr.store.format.rows import TOP_COMMAND
from gssr.store.format.schema import NO_GPU
from gssr.store.host_states import HostState, HostStates, HostWord, JobState, remove_states, write_states
from gssr.store.liveness import boot_id, process_start
from gssr.store.read.open import RecordingError
from gssr.store.write.create import remove
from gssr.store.write.writer import Writer
from gssr.version import __version__

MOST_BYTES_AT_ONCE, MOST_LINES_AT_ONCE = 1 << 16, 1000
"""Of a host, four times a second: 16 GPUs that are sampled ten times a second send a fifth of it. Bytes beyond are read the
next time, and lines beyond are left out, and counted as those that can't be read."""
SLOW_SECONDS, SLOW_INTERVALS = 5.0, 5
"""A host is slow from which nothing has come for max(5 s, 5 sampling intervals)."""
STARTING_AT_ONCE, STARTING_SECONDS = 32, 1.0
"""So many hosts are connected to at the same time, because each connection takes ssh some hundredths of a second of a core;
for one that takes longer than this, because it may be dead, nobody waits."""
IDLE_SECONDS = 60.0
"""GPUs that have been idle for less are not told."""
_BYTES_OF_HOST = 8_000_000
_MOST_BYTES = 1_000_000_000
"""The recording may take 64 MB and this much for each host, up to the most; then it is begun anew."""
_LEAST_BYTES = 64_000_000
_LOOK_SECONDS = 0.25
_HURRIED_SECONDS = 0.05
_END_SECONDS = 2.0
"""Between the end of their input and their own end commands have so long; then they are killed."""
_MOST_SAID = 300
_MOST_TOLD = 100
"""What hosts say on stderr is told so many times at most, and each text but once: hundreds may say the same."""
_SET_SIZE, _PIPE_OF_MANY = 1031, 1 << 20
"""F_SETPIPE_SZ of fcntl.h, and the most that Linux allows everybody."""
_LABEL = re.compile(rb" *(\d{1,6}): (.*)", re.DOTALL)
_OF_SRUN = re.compile(r"srun: error: ([\w.-]+): (tasks? .*)")
_NODE_FAILED = re.compile(r"[Nn]ode failure on ([\w.-]+)")


class CollectorPlan(NamedTuple):
    """The recording's ``path``, the ``channels`` to collect from, and the ``job`` whose nodes these are (None: any hosts).
    ``seconds``: between two samples; ``hurried``: somebody waits for the first ones."""

    path: str
    channels: Sequence[Channel]
    job: JobState | None
    seconds: float
    hurried: bool


class CollectorProcess:
    """The collector, in a process of its own. ``pid``: its id, None once it is reaped; ``fd``: the descriptor at which it
    says lines."""

    def __init__(self, plan: CollectorPlan) -> None:
        """Fork it. Raises OSError."""
        inbox, self._out = os.pipe()
        self.fd, outbox = os.pipe()
        self.pid: int | None = os.fork()
        if self.pid == 0:
            _become_collector(plan, inbox, outbox)
        os.close(inbox)
        os.close(outbox)
        os.set_blocking(self.fd, False)

    def ended(self, *_how: object) -> None:
        """Tell it to end."""
        os.close(self._out)


def _become_collector(plan: CollectorPlan, inbox: int, outbox: int) -> NoReturn:
    """Collect in this process, just forked, and then end it with exit code 0. What keeps it from recording is said at
    ``outbox``. ``inbox``: the read end of a pipe; collecting stops when that is closed at the other end."""
    try:
        inbox, outbox = let_go(inbox, outbox, name="gssr-collector")
        _Collector(plan, inbox, outbox).run()
    except RecordingError as error:
        hand_on(outbox, f"nothing is recorded: {error}")
    except Exception as error:
        hand_on_failure(outbox, error)
    finally:
        os._exit(0)


class _Host:
    """A host and how it stands. ``heard``: when its last line came that could be read, monotonic s."""

    def __init__(self, name: str, to: RecordedHosts, seconds: float) -> None:
        self.name = name
        self.lines = HostLines(name, to)
        self.lines.seconds = seconds
        self.heard: float | None = None
        self.said = ""
        """What it said last on stderr."""
        self.lacks_gpus = ""
        """What it said when it found no GPU."""
        self.gone = ""
        """Why nothing more will come; "" while it may."""
        self.is_crowded = False
        """It sends more than is read."""
        self.n_lines = 0
        """Lines in what was read last."""

    def describe_state(self, now: float) -> HostState:
        """Return how the host stands at ``now`` (monotonic s): "gone" if nothing more will come, else "slow" if it sends
        more than is read, "waiting" before its first line, "slow" after some sampling intervals without a line, and else
        "live"."""
        lines = self.lines
        silent = None if self.heard is None else now - self.heard
        word: HostWord = "waiting"
        reason = ""
        if self.gone:
            word, reason = "gone", self.gone
        elif self.is_crowded:
            word, reason = "slow", "sends more than is read: some of it waits, or is left out"
        elif silent is not None:
            word, reason = "live", self.lacks_gpus
            if silent > max(SLOW_SECONDS, SLOW_INTERVALS * lines.seconds):
                word, reason = "slow", f"nothing has come for {silent:.0f} s"
        has_gpus = bool(lines.n_rows) and min(lines.n_rows) >= 2
        told = lines.has_host and (has_gpus or bool(self.lacks_gpus))
        return HostState(self.name, word, reason, silent, len(lines.n_rows), told, lines.n_broken, lines.memory)


class _Running:
    """A channel whose command was started: its process, its descriptors, and the ends of lines that have not come yet."""

    def __init__(self, channel: Channel, hosts: list[_Host]) -> None:
        self.channel, self.hosts = channel, hosts
        self.pid = self.stdin = self.stdout = self.stderr = -1
        self.unread = {1: b"", 2: b""}
        self.too_long = {1: False, 2: False}
        self.said = ""
        self.begun = 0.0
        """When it was started, monotonic s."""

    def start(self) -> None:
        """Start the command. Raises OSError."""
        self.begun = time.monotonic()
        stdin, self.stdin = os.pipe()
        self.stdout, stdout = os.pipe()
        self.stderr, stderr = os.pipe()
        try:
            actions = [(os.POSIX_SPAWN_DUP2, fd, stream) for stream, fd in enumerate((stdin, stdout, stderr))]
            self.pid = os.posix_spawnp(
                self.channel.command[0], self.channel.command, self.channel.environ, file_actions=actions,
                setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE],
            )  # fmt: skip
        except OSError:
            for fd in (self.stdin, self.stdout, self.stderr):
                os.close(fd)
            raise
        finally:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
        os.set_blocking(self.stdout, False)
        os.set_blocking(self.stderr, False)
        if len(self.hosts) > 1:
            try:
                fcntl(self.stdout, _SET_SIZE, _PIPE_OF_MANY)  # else it would hold less than comes between two looks
            except OSError:
                pass

    def close(self, stream: int) -> None:
        """Let go of one of the command's output streams, 1 or 2, and of the line that it has begun."""
        os.close(self.stdout if stream == 1 else self.stderr)
        self.unread[stream] = b""
        if stream == 1:
            self.stdout = -1
        else:
            self.stderr = -1

    def lines_of(self, stream: int, data: bytes) -> list[bytes]:
        """Return the lines that are complete; one that is too long becomes b"" and a host's broken line."""
        *lines, rest = (self.unread[stream] + data).split(b"\n")
        if self.too_long[stream] and lines:
            lines[0], self.too_long[stream] = b"", False
        most = MOST_LINE + 20  # with a label
        lines = [line if len(line) <= most else b"" for line in lines]
        if len(rest) > most or self.too_long[stream]:
            rest, self.too_long[stream] = b"", True
        self.unread[stream] = rest
        return lines


class _Collector:
    """The loop that reads what all hosts print, and records it until whoever started it closes the pipe."""

    def __init__(self, plan: CollectorPlan, inbox: int, outbox: int) -> None:
        """Open the recording. Raises RecordingError."""
        self._plan, self._inbox, self._outbox = plan, inbox, outbox
        self._writer = self._begun()
        self._recorded = RecordedHosts(self._writer)
        self._waiting: list[_Running] = []
        for channel in plan.channels:
            self._waiting.append(
                _Running(channel, [_Host(name, self._recorded, plan.seconds) for name in channel.hosts])
            )
        self._channels = [*self._waiting]
        self._running: list[_Running] = []
        self._hosts = [host for running in self._waiting for host in running.hosts]
        self._by_name = {host.name: host for host in self._hosts}
        self._selector = selectors.DefaultSelector()
        self._selector.register(inbox, selectors.EVENT_READ, None)
        self._most_bytes = min(_LEAST_BYTES + _BYTES_OF_HOST * len(self._hosts), _MOST_BYTES)
        self._states: HostStates | None = None
        self._told: set[str] = set()
        self._ending: dict[_Running, float] = {}
        """Commands that will print nothing more, and when they are killed if they have not ended by then, monotonic s."""
        self._ends = False
        self._is_finished = False
        """Every command has ended, and the recording with them."""

    def _begun(self) -> Writer:
        """Begin a recording with no GPU yet. Raises RecordingError."""
        plan, now, pid = self._plan, time.time(), os.getpid()
        writer = Writer(plan.path, keep="10s")
        label = f"job {plan.job.job_id}" if plan.job is not None else f"top on {self._n_hosts} hosts"
        writer.begin(
            {
                "run_id": f"top-{now:.0f}-{os.urandom(4).hex()}", "command": json.dumps(TOP_COMMAND), "label": label,
                "started_at": now, "sampling_ms": 1000 * plan.seconds, "state": "running",
                "gssr_version": __version__, "n_nodes": self._n_hosts,
            },
            {
                "rank": 0, "started_at": now, "state": "running", "pid": pid, "pid_start": process_start(pid),
                "boot_id": boot_id(), "hostname": os.uname().nodename,
            },
        )  # fmt: skip
        return writer

    @property
    def _n_hosts(self) -> int:
        return sum(len(channel.hosts) for channel in self._plan.channels)

    def run(self) -> None:
        """Collect until whoever started this is gone or closes the pipe."""
        try:
            allow_descriptors(4 * len(self._channels))
        except (OSError, ValueError):
            pass  # commands for which there are none say so
        gc.disable()  # nothing here is garbage that only a search finds, and what is open of each GPU is much to search
        second = looked = 0.0
        look = _HURRIED_SECONDS if self._plan.hurried else _LOOK_SECONDS
        while not self._ends:
            self._start_more()
            now = time.monotonic()
            # All that comes within a while is taken at once: a wake-up for each line costs more than the line does.
            if now < looked + look:
                time.sleep(looked + look - now)
            for key, _ in self._selector.select(look):
                self._read_descriptor(key)
            if not self._is_finished:
                self._record()
            looked = now = time.monotonic()
            self._reap(now)
            self._finish_if_all_ended()
            if self._plan.hurried or now - second >= 1.0:
                second = now
                if not self._is_finished:
                    self._check_size()
                self._write_states(now)
        self._close()

    # Commands

    def _start_more(self) -> None:
        """Start the commands that wait, as long as not too many are on their way."""
        begun_since = time.monotonic() - STARTING_SECONDS
        n = sum(1 for own in self._running if own.begun > begun_since and own.hosts[0].heard is None and own.pid > 0)
        while self._waiting and n < STARTING_AT_ONCE:
            running = self._waiting.pop(0)
            try:
                running.start()
            except OSError as error:
                why = f"{running.channel.command[0]} can't be started: {error.strerror}"
                for host in running.hosts:
                    host.gone = why
                continue
            n += 1
            self._running.append(running)
            self._selector.register(running.stdout, selectors.EVENT_READ, (running, 1))
            self._selector.register(running.stderr, selectors.EVENT_READ, (running, 2))

    def _read_descriptor(self, key: selectors.SelectorKey) -> None:
        """Read what has come at one descriptor, up to MOST_BYTES_AT_ONCE for each host, and hand on its lines. The
        inbox's end ends the collector. At the end of a command's output that stream is closed; after both of its streams
        it gets _END_SECONDS to end by itself."""
        if key.data is None:
            self._ends = not os.read(self._inbox, 1 << 10)
            return
        running, stream = key.data
        data, is_over = b"", False
        most = MOST_BYTES_AT_ONCE * len(running.hosts)
        while len(data) < most and not is_over:
            try:
                chunk = os.read(key.fd, most - len(data))
            except BlockingIOError:
                break
            data += chunk
            is_over = not chunk
        if len(running.hosts) == 1 and stream == 1:
            running.hosts[0].is_crowded = len(data) == most
        now = time.time()
        for host in running.hosts:
            host.n_lines = 0
        for line in running.lines_of(stream, data):
            self._take(running, stream, line, now)
        if is_over:
            self._selector.unregister(key.fd)
            running.close(stream)
            if running.stdout == running.stderr == -1:
                os.close(running.stdin)
                self._ending[running] = time.monotonic() + _END_SECONDS

    def _take(self, running: _Running, stream: int, line: bytes, now: float) -> None:
        """Hand a line to the host that it is from."""
        host: _Host | None = running.hosts[0]
        if running.channel.labelled:
            found = _LABEL.fullmatch(line)
            number = int(found[1]) if found is not None else -1
            host = running.hosts[number] if 0 <= number < len(running.hosts) else None
            line = found[2] if found is not None else line
        if stream == 1:
            if host is not None:
                host.n_lines += 1
                if host.n_lines > MOST_LINES_AT_ONCE:
                    host.lines.n_broken += 1
                elif host.lines.take(line, now):
                    host.heard = time.monotonic()
            return
        text = clean(line.decode("utf-8", "replace")).strip()[:_MOST_SAID].removeprefix("gssr: ")
        if not text:
            return
        if host is not None:
            host.said = text
            host.lacks_gpus = text if text.startswith(NO_GPU) else host.lacks_gpus
            if text not in self._told and len(self._told) < _MOST_TOLD:
                self._told.add(text)
                hand_on(self._outbox, f"{host.name}: {text}")
            return
        running.said = text
        found_text = _OF_SRUN.match(text) or _NODE_FAILED.search(text)
        named = self._by_name.get(found_text[1]) if found_text is not None else None
        if named is not None and not named.gone:
            named.gone = named.said or text.removeprefix("srun: error: ")
        else:
            hand_on(self._outbox, text)

    def _reap(self, now: float) -> None:
        """Say why the hosts of commands that have ended are gone."""
        for running, deadline in [*self._ending.items()]:
            if now > deadline:
                os.kill(running.pid, signal.SIGKILL)
            pid, status = os.waitpid(running.pid, os.WNOHANG)
            if not pid:
                continue
            del self._ending[running]
            running.pid = -1
            for host in running.hosts:
                host.gone = host.gone or _why(running, host, os.waitstatus_to_exitcode(status))

    def _finish_if_all_ended(self) -> None:
        """End the recording once every command has ended, since none is tried again: whoever looks at it then sees that
        it has ended, and not that it is silent."""
        if self._is_finished or self._waiting or any(running.pid > 0 for running in self._running):
            return
        self._is_finished = True
        self._writer.stop_thinning()  # what came last is looked at most
        self._writer.finish(time.time(), None, "completed", time.time())

    # The recording

    def _record(self) -> None:
        """Write what has come, if it is time or somebody waits for it."""
        self._writer.tick(time.time())
        if self._plan.hurried:
            self._writer.commit(time.time())

    def _check_size(self) -> None:
        """Begin the recording anew if it is as large as it may be. Raises RecordingError."""
        if sum(sizes(self._plan.path)) < self._most_bytes:
            return
        # It closes its files before others have their names. The hosts go on: nobody is to see an end of the run.
        self._writer.stop_thinning()  # nobody will read it again
        self._writer.finish(time.time(), None, "running", time.time())
        remove(self._plan.path)
        self._writer = self._begun()
        self._recorded.writer, self._recorded.n_gpus = self._writer, 0
        for host in self._hosts:
            host.lines.begin_anew()
        hand_on(self._outbox, BEGUN_ANEW)

    def _write_states(self, now: float) -> None:
        """Write how all hosts stand at ``now`` (monotonic s) into the file beside the recording, if they differ from
        what was written last in more than seconds that have passed. If there is no room for it, the next call tries
        again."""
        idle = [seconds for host in self._hosts if not host.gone for seconds in host.lines.idle_seconds()]
        long = [seconds for seconds in idle if seconds >= IDLE_SECONDS]
        states = HostStates(
            tuple(host.describe_state(now) for host in self._hosts), self._plan.job, len(long), min(long, default=0.0)
        )
        if _without_times(states) != self._states:
            self._states = _without_times(states)
            try:
                write_states(self._plan.path, states)
            except OSError:
                self._states = None  # there is no room now

    def _close(self) -> None:
        """End the samplers and the recording, and remove it."""
        started = [running for running in self._running if running.pid > 0]
        for running in started:
            if running not in self._ending:
                os.close(running.stdin)
        deadline = time.monotonic() + _END_SECONDS
        while started and time.monotonic() < deadline:
            for fd in (fd for running in started for fd in (running.stdout, running.stderr) if fd >= 0):
                try:
                    os.read(fd, 1 << 16)  # so that nobody waits for a reader
                except OSError:
                    pass
            started = [running for running in started if os.waitpid(running.pid, os.WNOHANG)[0] == 0]
            time.sleep(0.01)
        for running in started:
            os.kill(running.pid, signal.SIGKILL)
        remove(self._plan.path)
        remove_states(self._plan.path)
        try:
            os.rmdir(os.path.dirname(self._plan.path))
        except OSError:
            pass  # whoever made it removes it


def _why(running: _Running, host: _Host, code: int) -> str:
    """Say why a command has ended."""
    program = running.channel.command[0]
    said = host.said or running.said
    if code == 127 and not running.channel.labelled:
        return "gssr is not found there: name it by --remote-gssr"
    if said:
        return said
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"{program} {how}"


def _without_times(states: HostStates) -> HostStates:
    """Leave out what changes by the passing of time alone; of what is told as text, whole minutes."""
    hosts = tuple(host._replace(seconds=None) for host in states.hosts)
    return states._replace(hosts=hosts, idle_seconds=states.idle_seconds // 60)
