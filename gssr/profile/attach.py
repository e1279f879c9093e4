"""``gssr profile --attach-job``: recording beside a job, in a step of its own, without a command to run.

Slurm tells such a step by SIGTERM that the job is over, however that came about.
"""

import signal
import time
from collections.abc import Sequence

from gssr.profile.supervise import Attendant, Recorder
from gssr.profile.workload import ENDING

FAILED = 1
"""Exit code when nothing is recorded, or not all: there is nothing else to this process."""


def attach(recorder: Recorder, job: str, max_runtime: float | None = None, finish_timeout: float = 10.0) -> int:
    """Record until a signal asks for the end, or ``max_runtime`` s are over; the exit code to exit with. ``finish_timeout``
    is how long the sampler may take, s, to finish the recording. Signals stay caught afterwards."""
    return _Attached(recorder).run(job, max_runtime, finish_timeout)


class _Attached(Attendant):
    def run(self, job: str, max_runtime: float | None, finish_timeout: float) -> int:
        self._open_wake()
        self._catch(sig for sig in ENDING if signal.getsignal(sig) != signal.SIG_IGN)
        self._recorder.event("start", f"recording beside job {job}")
        why = self._watch(None if max_runtime is None else time.monotonic() + max_runtime, max_runtime)
        if why:
            self._recorder.event(*why)
        self._recorder.ended(0, "completed", time.time())
        self._finish(finish_timeout)
        signal.set_wakeup_fd(-1)
        return FAILED if self._no_result else 0

    def _watch(self, deadline: float | None, max_runtime: float | None) -> Sequence[str]:
        """Until the end; why it is, as an event. Nothing when the sampler has ended before."""
        while True:
            self._follow_sampler()
            if self._sampler is None:
                return ()
            if deadline is not None and time.monotonic() >= deadline:
                return "timeout", f"the {max_runtime:g} s of --max-runtime are over"
            for sig in self._wait(deadline):
                if sig in ENDING:
                    return "signal", f"{signal.Signals(sig).name}: the end of the recording was asked for"
