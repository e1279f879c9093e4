"""``gssr top``: this node as it is now, or the nodes of a job, or hosts that are named, on the screens of ``gssr tui`` or as
one table, without a recording."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, put, screen, tell

if TYPE_CHECKING:
    from gssr.profile.monitor import Monitor
    from gssr.store.host_states import HostStates
    from gssr.store.read.newest import NodesNow

SAMPLING_MS, ONCE_SAMPLING_MS = 1000.0, 300.0
"""For a screen, and for --once: as far apart as two readings must be to say how busy the CPUs are, whose time is counted in
hundredths of a second."""
MS_PER_HOST = 10.0
"""Of many hosts no more than a hundred are sampled in a second, if nothing else is said: who reads them then takes the same
part of a core for any number of hosts."""
HZ_OF_HOSTS = 1.0
"""Looks a second at hosts, which are sampled no more often, if nothing else is said."""
OPENING_SECONDS, ANSWERING_SECONDS, ANSWERS = 25.0, 3.0, 4
"""--once waits so long for a driver; once it has answered, so long and as long as so many samples take for what it tells."""
_ENOUGH, _ENOUGH_OF_DCGM = 2, 3
"""Samples of a GPU after which all is known that it tells: what is counted takes two, and DCGM's profiling one more."""
_LOOK_SECONDS = 0.05
_WIDTH = 120
"""Of the table, where there is no terminal that has one."""

_OF_TOP: dict[tuple[str, ...], dict[str, str]] = {
    ("--metric",): {"help": "begin with this metric, such as dram_active (default: SM active)"}
}
"""Settings of the screen's options that differ here, where there are no traces."""
OPTIONS = (
    Option(("--once",), {"action": "store_true", "help": "print one table and end"}),
    Option(("--json",), {"action": "store_true", "help": "the same as one JSON object, with all metrics"}),
    Option(("--csv",), {"action": "store_true", "help": "the same as CSV, a line for each GPU"}),
    Option(
        ("-t", "--sampling-time"),
        {
            "metavar": "MS",
            "type": float,
            "help": "sampling interval in ms (default: 1000; with more than 100 hosts 10 per host; with --once, --json, "
            "--csv 300)",
        },
    ),
    Option(
        ("--backend",),
        {
            "metavar": "NAME",
            "default": "auto",
            "help": "where samples come from: auto, dcgm, gpm, nvml, amd, synthetic[:SCENARIO[:GPUS]] or "
            "replay:FILE[@SPEED] (default: auto)",
        },
    ),
    Option(
        ("--job",),
        {"metavar": "JOBID", "help": "show the nodes of this running Slurm job, by a step of its own (srun)"},
    ),
    Option(
        ("--host",), {"metavar": "LIST", "help": "show these hosts, reached by ssh: NAME or USER@NAME, comma-separated"}
    ),
    Option(("--hostfile",), {"metavar": "FILE", "help": "show the hosts in this file, one per line, reached by ssh"}),
    Option(
        ("--remote-gssr",),
        {
            "metavar": "PATH",
            "help": "gssr or gssr.pyz on the hosts (default: with --job this gssr, else the gssr on the PATH there)",
        },
    ),
    Option(
        ("--lines",),
        {
            "action": "store_true",
            "help": "print lines for another gssr top until stdin ends; --job and --host start this on each host",
        },
    ),
    *(option._replace(settings=option.settings | _OF_TOP.get(option.flags, {})) for option in screen.OPTIONS),
)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0, also on a machine without a GPU; 1 when nothing can be recorded; 2 for wrong usage."""
    once = options.once or options.json or options.csv
    if options.json and options.csv:
        return fail("--json and --csv: give one of them", USAGE)
    by_ssh = options.host is not None or options.hostfile is not None
    if options.job is not None and by_ssh:
        return fail("--job asks the job's nodes, --host and --hostfile those that they name: give one of them", USAGE)
    if options.remote_gssr is not None and not (by_ssh or options.job is not None):
        return fail("--remote-gssr: is for --job, --host and --hostfile", USAGE)
    if not (once or options.lines or screen.on_terminal()):
        return fail("the live screen needs a terminal; gssr top --once prints a table instead", USAGE)
    given = options.sampling_time is not None
    if not given:
        options.sampling_time = ONCE_SAMPLING_MS if once else SAMPLING_MS
    from gssr.profile.hosts.job import JobError
    from gssr.profile.monitor import send_lines
    from gssr.profile.request import UsageError

    try:
        if options.lines:
            send_lines(options.sampling_time, options.backend)
        gpus = screen.named_gpus(options)
        begin = None if once and not screen.is_described(options) else _start(options)
        with ExitStack() as until_end:
            own = until_end.enter_context(_monitor(options, once, given or once))
            if once or begin is None:
                return _once(own, options, gpus)
            screen.take_terminal(until_end.close)
            return _watch(own, options, begin)
    except (UsageError, ValueError) as error:
        return fail(str(error), USAGE)
    except JobError as error:
        return fail(str(error), BAD_INPUT)
    except OSError as error:
        return fail(f"nothing can be recorded: {error.filename or 'the sampler'}: {error.strerror}", BAD_INPUT)


def _monitor(options: argparse.Namespace, hurried: bool, given: bool) -> AbstractContextManager[Monitor]:
    """Choose what is recorded: this node, the nodes of a job, or hosts. ``given``: it is sampled as often as
    ``options`` say, and not less often where there are many hosts. Raises UsageError, JobError."""
    from gssr.profile.hosts import reach
    from gssr.profile.hosts.job import running_job
    from gssr.profile.monitor import check_sampling, monitor, monitor_hosts

    if not _are_hosts(options):
        return monitor(options.sampling_time, options.backend, hurried)
    check_sampling(options.sampling_time, options.backend)
    job = None if options.job is None else running_job(options.job)
    if job is not None:
        hosts = [name for nodes in job.nodes for name in nodes.names]
    else:
        named = [] if options.host is None else options.host.split(",")
        named += [] if options.hostfile is None else reach.read_hostfile(options.hostfile)
        hosts = reach.host_names(named)
    every = options.sampling_time if given else max(options.sampling_time, MS_PER_HOST * len(hosts))
    words = ["top", "--lines", f"--sampling-time={every:g}", f"--backend={options.backend}"]
    if job is None:
        return monitor_hosts(reach.by_ssh(hosts, options.remote_gssr, words), None, every, hurried)
    steps = [reach.by_srun(job.job_id, nodes.names, nodes.gpus, options.remote_gssr, words) for nodes in job.nodes]
    return monitor_hosts(steps, job.state, every, hurried)


def _are_hosts(options: argparse.Namespace) -> bool:
    """Tell whether hosts are asked, and not this node."""
    return any(each is not None for each in (options.job, options.host, options.hostfile))


def _start(options: argparse.Namespace) -> screen.ScreenStart:
    """Look at what the options say of the screen. Raises ValueError, with a sentence, for what makes no sense."""
    from gssr.tui.view import View

    return screen.start(options, View(), most_hz=HZ_OF_HOSTS if _are_hosts(options) else screen.FASTEST)


def _watch(own: Monitor, options: argparse.Namespace, begin: screen.ScreenStart) -> int:
    """Draw the screen until the user leaves; return the exit code.

    If it turns out that there is no GPU, that is said and the table printed instead. Raises ValueError for rules that
    make no sense.
    """
    screen.put_off_garbage()
    from gssr.model.live.watched_recording import WatchedRecording
    from gssr.model.verdicts.rules import from_environment
    from gssr.render.cells import clean
    from gssr.render.glyphs import glyph_set
    from gssr.store.format.schema import NO_GPU
    from gssr.tui.top import TopScreen

    why: list[str] = []

    def leaves(line: str) -> bool:
        why.extend([line] if line.startswith(NO_GPU) else [])
        return bool(why)

    app = TopScreen(
        WatchedRecording(own.path), own.fd, own.lines, leaves, glyph_set(options.ascii or not screen.speaks_utf8()),
        begin.hz, screen.colors(), begin.theme, from_environment(), _are_hosts(options),
    )  # fmt: skip
    begin.apply(app)
    said = own.lines() or []
    if said and not begin.said:
        app.show_notice(clean(said[-1]))
    if not any(map(leaves, said)):  # who has no driver mostly knows by now
        app.run(mouse=not options.no_mouse)
        code = app.return_code or OK
    if not why:
        return code
    tell(why[0])
    return _once(own, options, begin.gpus, lacks_gpus=True)


def _once(own: Monitor, options: argparse.Namespace, wanted: Sequence[str] | None, lacks_gpus: bool = False) -> int:
    """Print the GPUs that are ``wanted`` (None: all); the exit code."""
    now, states = _now(own, options.sampling_time / 1000, lacks_gpus)
    if now is None:
        return fail("nothing was recorded", BAD_INPUT)
    from gssr.report.now import csv_text, document, page

    code = OK if states is None or any(host.has_told or host.n_gpus for host in states.hosts) else BAD_INPUT

    if wanted is not None:
        from gssr.gpu_name import select_gpus

        chosen = select_gpus([each.gpu for each in now.gpus], wanted)
        now = now._replace(gpus=[now.gpus[position] for position in chosen])
    if options.json:
        import json

        return put(json.dumps(document(now, states), allow_nan=False) + "\n") or code
    if options.csv:
        for host in () if states is None else states.hosts:
            if host.reason:
                tell(f"{host.host} {host.word}: {host.reason}")
        return put(csv_text(now)) or code
    import shutil

    from gssr.commands.page_options import ascii_only, on_terminal
    from gssr.render.glyphs import glyph_set
    from gssr.render.roles import text_of

    width = shutil.get_terminal_size((_WIDTH, 0)).columns if on_terminal() else _WIDTH
    glyphs = glyph_set(ascii_only(options))
    rows = page(now, width, glyphs)
    if states is not None:
        from gssr.report.live.hosts import host_rows

        rows = [*rows, *host_rows(states, time.time(), width, glyphs)]
    return put("".join(text_of(row).rstrip() + "\n" for row in rows)) or code


def _now(own: Monitor, interval: float, lacks_gpus: bool) -> tuple[NodesNow | None, HostStates | None]:
    """Wait until everything is known of the node that there is to know, or its time is over; of hosts, until each has
    told all or is gone.

    ``interval``: s between two samples; ``lacks_gpus``: it is known that it has no GPU. Returns the newest that was
    read, None when nothing ever was; and how the hosts stand, None for this node.
    """
    from gssr.store.format.schema import NO_GPU
    from gssr.store.host_states import read_states

    now, states, over = None, None, False
    begun = time.monotonic()
    patience = OPENING_SECONDS
    while not over and time.monotonic() < begun + patience:
        time.sleep(_LOOK_SECONDS)
        said = own.lines()
        over = said is None
        for line in said or ():
            tell(line)
            lacks_gpus |= line.startswith(NO_GPU)
        states = read_states(own.path) or states
        if states is not None:
            if all(host.has_told or host.word == "gone" for host in states.hosts):
                break
            continue
        now = _looked(own.path) or now
        if now is None or not (now.gpus or lacks_gpus):
            continue
        if patience == OPENING_SECONDS:
            begun, patience = time.monotonic(), ANSWERING_SECONDS + ANSWERS * interval
        if all(host["cpu_utilization"] is not None for host in now.hosts.values()) and _all_told(now):
            break
    for line in own.lines() or ():  # what was said before the samples that the last look has found
        tell(line)
    if states is not None:
        states, now = read_states(own.path) or states, _looked(own.path) or now
    return now, states


def _all_told(now: NodesNow) -> bool:
    """Tell whether each GPU has enough samples for all that it tells; so does a node without GPUs."""
    fewest = min((each.n_rows for each in now.gpus), default=_ENOUGH_OF_DCGM)
    profiled = any(each.values["sm_active"] is not None for each in now.gpus)
    more_may_come = not profiled and any(each.gpu.backend == "dcgm" for each in now.gpus)
    return fewest >= (_ENOUGH_OF_DCGM if more_may_come else _ENOUGH)


def _looked(path: str) -> NodesNow | None:
    """Read the nodes from its recording; None as long as there is nothing to be read."""
    from gssr.store.read.newest import nodes_now
    from gssr.store.read.open import RecordingError

    try:
        return nodes_now(path)
    except RecordingError:
        return None


COMMAND = Command(
    "top",
    "watch this node, or a job's nodes, as they are now, without a recording",
    "gssr top [options]",
    OPTIONS,
    handle,
)
