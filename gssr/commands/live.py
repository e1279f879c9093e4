"""The live screen of ``gssr profile --live``: what runs in its process."""

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gssr.profile.screen import Beside


def show(beside: "Beside") -> int:
    """Draw until the user leaves; the exit code of the process. Doesn't return when the supervisor has gone."""
    import gc

    gc.enable()  # a screen makes garbage; what it was forked from may not

    from gssr.commands.tui import colors, default_hz, speaks_utf8
    from gssr.model.live.watch import Watch
    from gssr.model.verdicts.rules import TABLE, from_environment
    from gssr.profile.screen import DRAWN, REQUESTS
    from gssr.profile.terminal import SavedModes
    from gssr.render.glyphs import glyphs
    from gssr.tui.job import Job, JobScreen

    modes = SavedModes()

    def leave() -> None:
        """Without a supervisor the terminal may be somebody else's already."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        modes.put_back(drawn=True)
        os._exit(0)

    def tell(byte: int) -> None:
        try:
            os.write(beside.requests, bytes([byte]))
        except OSError:
            pass  # it has gone

    job = Job(beside.log, beside.log_start, beside.notices, lambda: tell(DRAWN), REQUESTS, tell, leave)
    watch = Watch(beside.recording, beside.run_id)
    table, wrong = TABLE, ""
    try:
        table = from_environment()
    except ValueError as error:  # no reason not to show the job
        wrong = str(error)
    screen = JobScreen(job, watch, glyphs(not speaks_utf8()), default_hz(), colors(), table=table)
    screen.say(wrong)
    screen.run()
    return screen.return_code or 0
