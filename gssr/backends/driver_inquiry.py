"""Asking drivers for what there is, in a process of its own: they may crash, hang, or take long to come up."""

import json
import os
import select
import signal
from collections.abc import Callable
from typing import Any

from gssr.backends.base import BackendError

INQUIRY_SECONDS = 30.0
"""Seconds to wait for drivers and hostengines; without a persistence daemon a driver first initialises every GPU."""


def inquire(question: Callable[[], object]) -> Any:
    """Call ``question`` in a forked process and return its result, which passes through JSON (tuples become lists).
    Raises BackendError, with a sentence, if a driver gives no answer in INQUIRY_SECONDS or ``question`` raises."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = json.dumps({"answer": question()})
        except Exception as error:
            answer = json.dumps({"error": repr(error)})
        try:
            with os.fdopen(writable, "w") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable, "rb") as answers:
        if not select.select([answers], [], [], INQUIRY_SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise BackendError(f"a driver library has not answered for {INQUIRY_SECONDS:g} s")
        told = answers.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not told:
        raise BackendError(f"a driver library crashed with signal {-code} when it was asked for GPUs")
    found = json.loads(told)
    if "error" in found:
        raise BackendError(f"GPUs can't be asked for: {found['error']}")
    return found["answer"]
