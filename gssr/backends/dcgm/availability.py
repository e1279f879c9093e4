"""What DCGM could do on this machine, without starting or watching anything."""

import os
import threading

from gssr.backends.base import BackendError, Offer
from gssr.backends.dcgm.bindings import find_bindings, load_bindings
from gssr.backends.dcgm.codes import DcgmError
from gssr.backends.dcgm.engine import EngineError, address_of, probe, reach

ANSWER_SECONDS = 5.0
DEVICES = "/dev/nvidiactl"
_START = "start nv-hostengine on this node, or name another place in DCGM_HOST"


def look() -> Offer:
    """DCGM's offer: a hostengine that answers these bindings, or a driver and a library to start an engine with."""
    try:
        folders, address = find_bindings(), address_of()
        if probe(address) != "silent":
            return Offer("dcgm", True, f"{_count_gpus()} GPUs at the hostengine on {address}")
        load_bindings(folders[0])
    except DcgmError as error:
        return Offer("dcgm", False, error.what, error.cure)
    if not address.named and os.path.exists(DEVICES):
        details = f"no hostengine answers on {address}: the sampler starts an engine of its own"
        return Offer("dcgm", True, details, "better: start nv-hostengine on this node")
    return Offer("dcgm", False, f"no hostengine answers on {address}", _START)


def _count_gpus() -> int:
    """How many GPUs the hostengine has. Raises DcgmError, also when it hangs."""
    answers: list[int | BackendError] = []

    def ask() -> None:
        try:
            engine = reach(embed=False)
            answers.append(len(engine.call("dcgmGetAllDevices")))
            engine.disconnect()
        except EngineError as error:
            what = f"the hostengine on {address_of()} answers with an error: {error}"
            answers.append(DcgmError(what, "restart nv-hostengine"))
        except BackendError as error:
            answers.append(error)

    thread = threading.Thread(target=ask, name="dcgm-offer", daemon=True)
    thread.start()
    thread.join(ANSWER_SECONDS)
    if not answers:
        raise DcgmError(f"the hostengine on {address_of()} doesn't answer", "restart nv-hostengine")
    if isinstance(answers[0], BackendError):
        raise answers[0]
    return answers[0]
