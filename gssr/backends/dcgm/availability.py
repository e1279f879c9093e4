"""What DCGM could do on this machine, without starting or watching anything."""

import os
import threading

from gssr.backends.base import BackendError, Offer
from gssr.backends.dcgm.address import address_of, probe
from gssr.backends.dcgm.bindings import Bindings, load_bindings
from gssr.backends.dcgm.codes import MISMATCHES
from gssr.backends.dcgm.engine import EngineError, attach, mismatch
from gssr.backends.dcgm.errors import DcgmError

ANSWER_SECONDS = 5.0
DEVICES = "/dev/nvidiactl"
_START = "start nv-hostengine on this node, or name another place in DCGM_HOST"


def look() -> Offer:
    """DCGM's offer: a hostengine that answers these bindings, or a driver and a library to start an engine with."""
    try:
        bindings = load_bindings()
        address = address_of()
        if probe(address) != "silent":
            return Offer("dcgm", True, f"{_count_gpus(bindings)} GPUs at the hostengine on {address}")
    except DcgmError as error:
        return Offer("dcgm", False, error.what, error.cure)
    if not address.named and os.path.exists(DEVICES):
        details = f"no hostengine answers on {address}: the sampler starts an engine of its own"
        return Offer("dcgm", True, details, "better: start nv-hostengine on this node")
    return Offer("dcgm", False, f"no hostengine answers on {address}", _START)


def _count_gpus(bindings: Bindings) -> int:
    """How many GPUs the hostengine has. Raises DcgmError, also when it hangs."""
    answers: list[int | BackendError] = []

    def ask() -> None:
        try:
            engine = attach(bindings, address_of())
            try:
                answers.append(len(engine.call("dcgmGetAllDevices")))
            except EngineError as error:
                answers.append(
                    mismatch(bindings, engine.where, error.code)
                    if error.code in MISMATCHES
                    else DcgmError(f"the {engine.where} answers with an error: {error}", "restart nv-hostengine")
                )
            engine.disconnect()
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
