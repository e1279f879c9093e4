"""What errors of a GPU mean: XIDs, the numbers under which NVIDIA's driver reports them, and its counters of memory errors.

Source: NVIDIA, XID Errors (docs.nvidia.com/deploy/xid-errors): what each one is, and whether it is commonly the program's
doing or the hardware's.
"""

import re
from typing import NamedTuple


class Xid(NamedTuple):
    """The meaning of an XID. ``broken``: the GPU, its memory or its links are faulty, so that work on it is lost or
    will be; ``program``: it is commonly the fault of the program that ran on it."""

    what: str
    broken: bool = False
    program: bool = False


XIDS: dict[int, Xid] = {
    13: Xid("exception in a kernel", program=True),
    31: Xid("a kernel accessed memory that is not there", program=True),
    32: Xid("corrupted command stream"),
    38: Xid("error in the driver's firmware"),
    43: Xid("a program on the GPU was stopped", program=True),
    45: Xid("work was cleaned up after an earlier error", program=True),
    48: Xid("uncorrectable memory error", broken=True),
    61: Xid("the GPU's microcontroller reports a fault"),
    62: Xid("the GPU's microcontroller has halted", broken=True),
    63: Xid("a bad row of memory was remapped, or a page retired", broken=True),
    64: Xid("a bad row of memory could not be remapped", broken=True),
    68: Xid("exception in the video decoder"),
    69: Xid("exception in a kernel's class", program=True),
    74: Xid("NVLink error", broken=True),
    79: Xid("the GPU has fallen off the bus", broken=True),
    92: Xid("many correctable memory errors"),
    94: Xid("contained memory error", broken=True),
    95: Xid("uncontained memory error", broken=True),
    109: Xid("a context could not be switched in time"),
    119: Xid("the GPU's system processor (GSP) does not answer", broken=True),
    120: Xid("error in the GPU's system processor (GSP)", broken=True),
    140: Xid("memory error that was not recovered from", broken=True),
    143: Xid("the GPU could not be initialised", broken=True),
}


MEMORY = (
    "{n} more uncorrectable memory error{s} (ECC)",
    "{n} more row{s} of memory remapped after correctable errors",
    "{n} more row{s} of memory remapped after uncorrectable errors",
    "a row of memory is to be remapped: the GPU needs a reset",
    "a row of memory could not be remapped",
)
"""What it means that a number has risen: the volatile count of uncorrectable errors, then the four that the driver has of
remapped rows."""
_MENDED = "after correctable"
_COUNTED = re.compile(
    "|".join(re.escape(text).replace(r"\{n\}", r"\d{1,12}").replace(r"\{s\}", "s?") for text in MEMORY)
)
_XID = re.compile(r"XID (\d{1,5})\b")
_UNKNOWN = "an error of the GPU"


def message(code: int) -> str:
    """Return the sentence that a recording stores for an XID, also for an unknown one."""
    return f"XID {code}: {XIDS[code].what if code in XIDS else _UNKNOWN}"


def meaning(text: str) -> Xid:
    """Return what a recording's sentence about an error of a GPU means. Its words are our own, as a recording may come
    from anybody; a sentence that GSSR never writes becomes "an error of the GPU"."""
    found = _XID.match(text)
    if found is not None:
        code = int(found[1])
        return XIDS.get(code, Xid(_UNKNOWN))._replace(what=message(code))
    known = _COUNTED.fullmatch(text) is not None
    return Xid(text if known else _UNKNOWN, broken=known and _MENDED not in text)
