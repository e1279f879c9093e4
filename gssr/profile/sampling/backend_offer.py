"""What a backend offers, as the ranks of a node tell it to each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gssr.backends.base import AtEngine, Device


class BackendOffer(NamedTuple):
    """What a backend offers a process: its GPUs, and what it says of itself; ``error`` is why there is none. ``at_engine``
    as in gssr.backends.base.OpenedBackend: then what it measures is known only once one rank samples the node's GPUs."""

    devices: Sequence[Device] = ()
    backend: str = ""
    measures: Sequence[str] = ()
    sampling_seconds: float | None = None
    remarks: Sequence[str] = ()
    passed_over: Sequence[str] = ()
    error: str = ""
    at_engine: AtEngine | None = None


def write_offer(offer: BackendOffer) -> str:
    """Write an offer as JSON, which ``read_offer`` reads."""
    return json.dumps(offer._asdict() | {"devices": [list(device) for device in offer.devices]})


def read_offer(text: str) -> BackendOffer | None:
    """Read what ``write_offer`` wrote; None for anything else."""
    try:
        values: Mapping[str, Any] = json.loads(text)
        offer = BackendOffer(**values)
        engine = offer.at_engine and AtEngine(*offer.at_engine)
        return offer._replace(devices=[Device(*device) for device in values["devices"]], at_engine=engine)
    except (ValueError, TypeError, KeyError):
        return None
