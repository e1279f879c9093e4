"""``gssr tui``: watch a recording, growing or finished.

The live screen of ``gssr profile --live``: what runs in its process.
"""

import argparse
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING

from gssr.commands import BAD_INPUT, OK, USAGE, Command, Option, fail, in_browser, put, screen
from gssr.commands.attached import ATTACH, laid_over, wrong_attach
from gssr.commands.inputs import chosen_runs, looking_at, not_yet, own_recordings, traces_among, wrong_name

if TYPE_CHECKING:
    from gssr.model.custom_metrics import Custom
    from gssr.model.live.watch import Watch
    from gssr.model.live.watched_recording import WatchedRecording
    from gssr.model.verdicts.table import RuleTable
    from gssr.profile.screen import ScreenArguments
    from gssr.traces.timeline import Timeline
    from gssr.tui.app import LiveScreen


def show(beside: "ScreenArguments") -> int:
    """Draw the live screen of ``gssr profile --live`` in its process, until the user leaves; return the exit code.

    Does not return when the supervisor has gone: then it exits.
    """
    import gc

    gc.enable()  # a screen makes garbage; what it was forked from may not

    from gssr.model.live.watched_recording import WatchedRecording
    from gssr.model.verdicts.rules import TABLE, from_environment
    from gssr.profile.screen import DRAWN, OVER, REQUESTS, USED
    from gssr.profile.terminal import put_back_modes, read_modes
    from gssr.render.glyphs import glyph_set
    from gssr.tui.beside_job import JobScreen, WatchedJob

    modes = read_modes(0)

    def leave() -> None:
        """Without a supervisor the terminal may be somebody else's already."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        put_back_modes(modes, drawn=True)
        os._exit(0)

    def tell(byte: int) -> None:
        try:
            os.write(beside.requests, bytes([byte]))
        except OSError:
            pass  # it has gone

    said = (lambda: tell(DRAWN), lambda: tell(OVER), lambda: tell(USED))
    job = WatchedJob(beside.log, beside.log_start, beside.notices, *said, REQUESTS, tell, leave)
    watch = WatchedRecording(beside.recording, beside.run_id)
    table, wrong = TABLE, ""
    try:
        table = from_environment()
    except ValueError as error:  # no reason not to show the job
        wrong = str(error)
    app = JobScreen(job, watch, glyph_set(not screen.speaks_utf8()), screen.default_hz(), screen.colors(), table=table)
    app.files = (beside.recording,)
    app.show_notice(wrong)
    app.run()
    return app.return_code or 0


OPTIONS = (
    Option(
        ("inputs",),
        {
            "metavar": "FILE|DIR",
            "nargs": "*",
            "help": "recordings, traces, metric files of other tools; the first is shown, the others compared with it",
        },
    ),
    Option(("--run",), {"metavar": "RUN", "help": "the run to show: its number, id or label (default: the newest)"}),
    *ATTACH,
    Option(("--wait",), {"action": "store_true", "help": "wait for a recording even if its name resembles another's"}),
    Option(("--ranks",), {"metavar": "LIST", "help": "of a trace: read only these ranks, such as 0-7,12"}),
    *screen.OPTIONS,
    Option(
        ("--serve",),
        {
            "metavar": "HOST:PORT",
            "nargs": "?",
            "const": "",
            "help": "show it in a browser, at the address that this prints (default: 127.0.0.1, a free port); after FILE",
        },
    ),
    Option(
        ("--portal",),
        {
            "metavar": "HOST",
            "action": "append",
            "default": [],
            "help": "with --serve: the host of a portal in front of it; may be repeated",
        },
    ),
)


def handle(options: argparse.Namespace, _workload: list[str] | None) -> int:
    """Exit code 0; 2 for wrong usage, and without a terminal; 1 for a recording that can't be read."""
    serves = options.serve is not None and not in_browser()
    if options.portal and options.serve is None:
        return fail("--portal: is for --serve", USAGE)
    if not (serves or screen.on_terminal()):
        return fail("the live screen needs a terminal; gssr analyze --terminal prints a page instead", USAGE)
    if serves and os.path.exists(options.serve):
        return fail(f"--serve: {options.serve!r} is a file: name files before --serve", USAGE)
    wrong = wrong_attach(options)
    if wrong:
        return fail(wrong, USAGE)
    names = options.inputs or own_recordings()
    if not names:
        return fail("no recording here; name one: gssr tui FILE.sql, or watch this node as it is now: gssr top", USAGE)
    wrong = next(filter(None, (wrong_name(name, options.wait) for name in names)), "")
    if wrong:
        return fail(wrong, USAGE)
    if not serves:
        screen.put_off_garbage()
    from gssr.render.cells import clean
    from gssr.store.read.open import RecordingError

    with ExitStack() as until_end:
        try:
            places = until_end.enter_context(looking_at(list(filter(os.path.exists, names)), live=True))
        except RecordingError as error:
            return fail(str(error), BAD_INPUT)
        name = clean(os.path.basename(os.path.normpath(names[0])))  # a path may take more than a line
        reading = f"reading {name} {'…' if screen.speaks_utf8() else '...'}" if _is_there(names[0]) else ""
        given = [places.get(name, name) for name in names]
        wrong = next(filter(None, map(_why_no_recording, given)), "")
        if wrong:
            return fail(wrong, USAGE)
        if serves:
            found = _open_content(options, given)
            until_end.close()  # the process of each page reads the files itself
            return found if isinstance(found, int) else _serve(options)
        with screen.saying(reading):
            found = _open_content(options, given)
            app = found if isinstance(found, int) else _make_app(options, names[0], *found, until_end.close)
        if isinstance(app, int):
            return app
        app.reading, app.files = reading, tuple(names if app.n_recordings == 1 else names[:1])
        app.run(mouse=not options.no_mouse)
        return app.return_code or OK


def _serve(options: argparse.Namespace) -> int:
    """Show the screen in browsers until Ctrl-C; return the exit code."""
    from gssr.render.cells import clean
    from gssr.tui.serve import listen, serve

    try:
        listening, host = listen(options.serve)
    except ValueError as error:
        return fail(f"--serve: {error}", USAGE)
    serve(listening, host, options.portal, lambda address: put(f"{clean(address)}\n"))
    return OK


def _make_app(
    options: argparse.Namespace,
    name: str,
    watches: "list[Watch]",
    begin: screen.ScreenStart,
    rules: "RuleTable",
    before_end: Callable[[], None],
) -> "LiveScreen":
    """Make the app.

    Args:
        name: the first file's.
        watches: the recordings that it shows.
        begin: how it begins.
        rules: by which it judges.
        before_end: is called when a signal ends the screen.
    """
    screen.take_terminal(before_end)

    from gssr.render.glyphs import glyph_set
    from gssr.tui.app import LiveScreen

    marks = glyph_set(options.ascii or not screen.speaks_utf8())
    app = LiveScreen(watches, marks, begin.hz, screen.colors(), begin.theme, rules)
    app.waiting = not_yet(name)
    begin.apply(app)
    return app


def _open_content(
    options: argparse.Namespace, names: Sequence[str]
) -> "tuple[list[Watch], screen.ScreenStart, RuleTable] | int":
    """Open what the screen shows, as the options and files say. Returns the recordings, how the screen begins, and the
    rules by which it judges; where something is wrong, says it and returns the exit code."""
    from dataclasses import replace

    from gssr.model.verdicts.rules import from_environment
    from gssr.recognise import MEMORY
    from gssr.tui.view import View

    traces = _traces_and_memory(filter(os.path.exists, names[:1]))
    try:
        table = from_environment()
        profile = traces_among(names[:1], ("cube", "proton"))
        begin = screen.start(options, View(), bool(traces))
        if profile:
            if options.screen is not None and begin.view.screen != "calls":
                raise ValueError(f"--screen: {names[0]} is a profile, without times: its screen is calls")
            begin = begin._replace(view=replace(begin.view, screen="calls"))
        elif traces_among(names[:1], (MEMORY,)):
            from gssr.model.traces.memory_over_time import REQUESTED

            if options.screen is not None and begin.view.screen not in ("time", "calls"):
                raise ValueError(f"--screen: {names[0]} holds memory over time: its screens are time and calls")
            shown = begin.view.screen if options.screen is not None else "time"
            begin = begin._replace(view=replace(begin.view, screen=shown, metric=REQUESTED))
    except ValueError as error:
        return fail(str(error), USAGE)
    run_id = None
    if options.run is not None or (begin.gpus is not None and not traces and _is_there(names[0])):
        from gssr.gpu_name import select_gpus
        from gssr.store.read.open import RecordingError
        from gssr.store.read.recording import open_recording

        try:
            run = chosen_runs(open_recording(names[0]), options.run)[-1 if options.run is None else 0]
            run_id = None if options.run is None else run.run.run_id
            if run.gpus:
                select_gpus(run.gpus, begin.gpus)
        except RecordingError as error:
            return fail(str(error), BAD_INPUT)
        except ValueError as error:
            return fail(f"{names[0]}: {error}", USAGE)
    try:
        watches = watches_of(names, run_id, options.attach, options.offset, options.ranks, begin.own)
    except ValueError as error:
        return fail(str(error), USAGE)
    return watches, begin, table


def _why_no_recording(name: str) -> str:
    """Say in a sentence why a file that holds something can never become a recording; "" if it is one, or still may."""
    from gssr.store.read.open import RecordingError, looks_like_recording
    from gssr.store.read.recording import open_recording

    if not os.path.isfile(name) or _traces_and_memory([name]):
        return ""
    try:
        if not looks_like_recording(name):
            open_recording(name).close()
    except (RecordingError, OSError) as error:
        return str(error)
    return ""


def _traces_and_memory(names: Iterable[str]) -> list[str]:
    """Return those of the files and folders that hold traces, or memory of GPUs as PyTorch wrote it."""
    from gssr.recognise import MEMORY, TRACES

    return traces_among(names, (*TRACES, MEMORY))


def _is_there(name: str) -> bool:
    """Tell whether a recording is there, or its folder of ranks' files."""
    return os.path.exists(name) or os.path.exists(f"{name}.d")


def watches_of(
    names: Sequence[str],
    run_id: str | None = None,
    attach: Sequence[str] = (),
    offset: float | None = None,
    ranks: str | None = None,
    own: "Sequence[Custom]" = (),
) -> "list[Watch]":
    """Make what the screen watches: each recording, or each run of the traces.

    Args:
        names: recordings or traces; recordings may be still to come.
        run_id: the run to show of the first recording; None: the newest.
        attach: traces to lay over the first recording, beside those that are attached to it.
        offset: s to add to the times of these.
        ranks: of traces, those of these ranks only.
        own: for traces, metrics of one's own.

    Raises:
        ValueError: recordings and traces are named together, or an argument is for the other kind.
    """
    from gssr.model.live.watched_recording import WatchedRecording
    from gssr.recognise import MEMORY

    traces = _traces_and_memory(name for name in names if os.path.exists(name))
    if not traces:
        if ranks is not None:
            raise ValueError(f"--ranks: is for traces: {names[0]} is none")
        first = _with_traces(WatchedRecording(names[0], run_id), run_id, attach, offset)
        return [first, *(WatchedRecording(name) for name in names[1:])]
    memory = traces_among(traces, (MEMORY,))
    if memory and len(memory) < len(names):
        other = next(name for name in names if name not in memory)
        raise ValueError(f"{memory[0]} holds memory, and {other} does not: look at one kind at a time")
    what = "holds memory" if memory else "is a trace"
    if attach:
        raise ValueError(f"--attach: is for recordings: {traces[0]} {what}")
    if len(traces) < len(names):
        other = next(name for name in names if name not in traces)
        raise ValueError(f"{other} is no trace, and {traces[0]} is one: look at one kind at a time")
    if run_id is not None:
        raise ValueError(f"--run: is for recordings: {names[0]} {what}")
    from gssr.model.live.watched_trace import WatchedTrace
    from gssr.traces.open import TraceError, open_runs

    if memory:
        if ranks is not None:
            raise ValueError(f"--ranks: is for traces: {memory[0]} holds memory")
        return [WatchedTrace(memory[0], partial(_memory, memory))]
    try:
        return [WatchedTrace(run.name, run.timeline, own) for run in open_runs(traces, ranks=ranks)]
    except TraceError:  # the screen says of which
        return [WatchedTrace(name, partial(_timeline, name, ranks), own) for name in traces]


def _timeline(name: str, ranks: str | None) -> "Timeline":
    """Read one trace. Raises TraceError."""
    from gssr.traces.open import open_traces

    return open_traces([name], ranks=ranks).timeline()


def _memory(names: Sequence[str]) -> "Timeline":
    """Read what PyTorch wrote about the memory of GPUs. Raises TraceError, and ValueError where there is no memory or no
    time."""
    from gssr.model.traces.memory import device_memories
    from gssr.model.traces.memory_over_time import memory_over_time
    from gssr.traces.memory_dump import read_memory_dump

    found = [each for name in names for each in device_memories(name, read_memory_dump(name))]
    if not found:
        raise ValueError(f"{names[0]}: holds no memory of any GPU")
    return memory_over_time(found)


def _with_traces(
    recording: "WatchedRecording", run_id: str | None, attach: Sequence[str], offset: float | None
) -> "Watch":
    """Join a recording with its traces, if it has a folder for them or some are named; else return it as it is.

    ``run_id``: the run that is shown, None: the newest; ``offset``: s to add to the times of the named ones.
    """
    from gssr.store.disk import traces_beside

    if not attach and not os.path.isdir(traces_beside(recording.path)):
        return recording
    from gssr.model.joined.together import Laid, together
    from gssr.model.live.watched_joined import WatchedJoined
    from gssr.store.read.recording import open_recording

    def lay() -> Laid:
        with closing(open_recording(recording.path)) as opened:
            reader = next((run for run in opened.runs if run.run.run_id == run_id), opened.runs[-1])
            return together(reader, laid_over(reader, recording.path, attach, offset))

    return WatchedJoined(recording, lay, bool(attach))


COMMAND = Command(
    "tui",
    "watch a recording or trace on the screen, growing or finished",
    "gssr tui [options] [FILE|DIR ...]",
    OPTIONS,
    handle,
)
