"""What DCGM could do on this machine: which engine there is, what it samples already, and what it can't do.

``look_for_dcgm`` watches nothing and takes no counters. With ``try_out``, as ``gssr doctor`` asks, it also makes sure
that there is room for another client's groups and, on Hopper and newer, where nobody's counters are taken, that
profiling metrics have values: by a watch of about 0.3 s."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gssr.backends.base import AtEngine, BackendError, Device, News, Offer, OpenedBackend, Row, UnusableError
from gssr.backends.dcgm import codes
from gssr.backends.dcgm.bindings import Bindings, find_bindings, load_bindings
from gssr.backends.dcgm.codes import GPU, DcgmError, blank_reason
from gssr.backends.dcgm.engine import NAMED_CURE, Address, Engine, EngineError, address_of, probe, reach
from gssr.backends.dcgm.entities import Sampled, choose_mine, discover
from gssr.backends.dcgm.watch import NoRoomError, create, group_name, keep_seconds

ANSWER_SECONDS = 5.0
"""A hostengine that has not answered after this has hung."""
FIND_SECONDS = 15.0
"""As long as that is waited for a hostengine to be watched (dcgm.dcgm_backend): the driver is asked beside it, which first
initialises every GPU where no persistence daemon runs."""
FRESH_SECONDS = 60.0
"""A value that is younger is being sampled: dcgm-exporter samples every 30 s unless it is told otherwise."""
_OVERDUE_SAMPLES = 3
"""A watch is taken for ended once so many of its samples are missing: one or two may be late on a busy node."""
DEVICES = "/dev/nvidiactl"
_START = "start nv-hostengine on this node, or name another place in DCGM_HOST"

_ALWAYS_PROFILED = (1001, 1002, 1003, 1004, 1005)
"""The profiling fields that whoever watches any of them watches some of: graphics engine, SM, occupancy, tensor, DRAM."""
_SM_ACTIVE = 1002
_TRY_INTERVAL = 0.1
"""A trial watch samples as often as DCGM can, s."""
_TRY_SECONDS = 1.0
"""It ends with the first value, which comes after two or three samples, and after this time where none comes."""
_HOPPER = 9
_BLANK = (
    "the values stay blank: the hostengine's user may not read the counters",
    "have nv-hostengine started by root, or ask for profiling counters to be opened to all users "
    "(the driver's option NVreg_RestrictProfilingToAdminUsers=0)",
)


def look_for_dcgm(try_out: bool = False) -> Offer:
    """Find out what DCGM offers: a hostengine that answers these bindings, or a driver and a library with which to
    start an engine. Never raises; an offer that does not work says why and what to do. ``try_out``: see the module."""
    try:
        folders, address = find_bindings(), address_of()
        if probe(address) != "silent":
            return _in_time(lambda: _offer_of_engine(address, try_out))
        bindings = load_bindings(folders[0])
    except DcgmError as error:
        return Offer("dcgm", False, error.what, error.cure)
    if not address.named and os.path.exists(DEVICES):
        details = f"no hostengine answers on {address}: the sampler starts an engine of its own ({_named(bindings)})"
        return Offer("dcgm", True, details, "better: start nv-hostengine on this node")
    cure = NAMED_CURE if address.named else _START
    return Offer("dcgm", False, f"no hostengine answers on {address}", cure)


def _offer_of_engine(address: Address, try_out: bool) -> Offer:
    """Describe what the hostengine that listens there offers. Raises BackendError and EngineError."""
    engine = reach(embed=False)
    try:
        n_gpus = len(engine.call("dcgmGetAllDevices"))
        found = discover(engine)
        already = samples_profiling(engine, found)
        lacking = _lacking(engine, found, already) if try_out else None
        version = engine.version()
    finally:
        engine.disconnect()
    details = (
        f"{n_gpus} GPU{'s' * (n_gpus != 1)} at the hostengine on {address} (DCGM {version or 'of unknown version'}, "
    )
    details += f"{_named(engine.bindings)})"
    if already:
        details += ", which samples profiling metrics already"
    if lacking is None:
        return Offer("dcgm", True, details, profiles_already=already)
    return Offer("dcgm", True, f"{details}; {lacking.what}", lacking.cure, profiles=False, profiles_already=already)


def _named(bindings: Bindings) -> str:
    return f"bindings of {bindings.version or 'unknown version'} in {bindings.folder}"


def samples_profiling(engine: Engine, found: Sequence[Sampled]) -> bool:
    """Tell whether the hostengine samples profiling metrics for some other client now. Raises EngineError.

    This process has watched nothing yet, so a fresh value of one of the fields 1001-1005 was sampled for another
    client: dcgm-exporter, a site's setting, another recording. The newest values are read from the engine's cache, in
    one request that reaches no driver, makes no watch and takes no counters; a field that nobody watched has no value
    there. Blank values don't count, because nothing would be gained by them. What was sampled stays in the cache when
    the watch ends, so where there is a fresh value, the spacing of the samples before it says whether the next one is
    overdue.
    """
    entities = dict.fromkeys(entity for each in found for entity in ((GPU, each.gpu), each.entity))
    fresh = _latest(engine, list(entities), _ALWAYS_PROFILED)
    newest = max(fresh, key=lambda value: int(value.ts), default=None)
    now = time.time()
    if newest is None or now - newest.ts / 1e6 > FRESH_SECONDS:
        return False
    stamps = _stamps(engine, (newest.entityGroupId, newest.entityId), newest.fieldId, now - 3 * FRESH_SECONDS)
    if stamps is None:
        return False
    if len(stamps) < 2:
        return True  # its watcher keeps one sample
    return time.time() - stamps[-1] <= _OVERDUE_SAMPLES * (stamps[-1] - stamps[-2])


def _stamps(engine: Engine, entity: tuple[int, int], field: int, since: float) -> list[float] | None:
    """Return the times at which the engine sampled a field since a time, as far as it remembers: unix s, ascending.
    Empty if it does not tell, None if it says that nobody watches the field. Raises EngineError when the connection is
    lost."""
    stamps: list[float] = []
    group = field_group = None

    def take(_group: int, _entity: int, values: Any, count: int, _data: Any) -> int:
        stamps.extend(values[at].ts / 1e6 for at in range(count) if values[at].ts)
        return 0

    try:
        group = engine.call("dcgmGroupCreate", codes.EMPTY_GROUP, group_name())
        engine.call("dcgmGroupAddEntity", group, *entity)
        field_group = engine.call("dcgmFieldGroupCreate", [field], group_name())
        callback = engine.bindings.agent.dcgmFieldValueEntityEnumeration_f(take)
        engine.call("dcgmGetValuesSince_v2", group, field_group, int(since * 1e6), callback, None)
    except EngineError as error:
        if error.code == codes.CONNECTION_NOT_VALID:
            raise
        if error.code == codes.NOT_WATCHED:
            return None
    finally:
        if field_group is not None:
            engine.quietly("dcgmFieldGroupDestroy", field_group)
        if group is not None:
            engine.quietly("dcgmGroupDestroy", group)
    return sorted(stamps)


def _latest(engine: Engine, entities: Sequence[tuple[int, int]], fields: Sequence[int]) -> list[Any]:
    """Read the newest values in the engine's cache of these fields, of at most MOST_ENTITIES entities. Returns the
    records that hold a value, in DCGM's order; [] if the engine answers with an error. Raises EngineError if the
    connection is lost."""
    pairs = [engine.entity(*entity) for entity in entities[: codes.MOST_ENTITIES]]
    wanted = [field for field in fields if engine.knows_field(field)]
    values = engine.ask("dcgmEntitiesGetLatestValues", pairs, wanted, 0) if pairs else ()
    return [value for value in values or () if not value.status and not blank_reason(value.value.dbl)]


def _lacking(engine: Engine, found: Sequence[Sampled], already: bool) -> UnusableError | None:
    """Return what a recording through DCGM of the GPUs ``found`` would lack here, and what to do, as an error that is
    not raised; None if it would lack nothing. If somebody samples profiling metrics ``already``, that they have values
    is not tried. Raises EngineError when the connection is lost."""
    refusals = _refusals(engine, found)
    if refusals:
        code = next(iter(refusals.values()))
        why, cure = codes.REFUSALS.get(code, codes.NO_REASON)
        gpus = list(dict.fromkeys(each.gpu for each in found))
        whose = "" if len(refusals) == len(gpus) else f" of GPU {', '.join(map(str, refusals))}"
        return UnusableError(f"no profiling metrics{whose}, so no score: {why} (error {code})", cure)
    group, field_groups = None, []
    try:
        group = create(engine, "group", "dcgmGroupCreate", codes.EMPTY_GROUP, group_name())
        for _ in range(2):  # a recording has one for the base fields and one for profiling
            made = create(engine, "field group", "dcgmFieldGroupCreate", [_SM_ACTIVE], group_name())
            field_groups.append(made)
        newer = all(int((each.device.compute_capability or "0").partition(".")[0]) >= _HOPPER for each in found)
        if already or not newer or not found:
            return None
        for entity in (each.entity for each in found):
            engine.call("dcgmGroupAddEntity", group, *entity)
        return _try_watch(engine, found, group, field_groups[0])
    except NoRoomError as error:
        return UnusableError(f"a recording would lack metrics: {error.what}", error.cure)
    finally:
        for made in field_groups:
            engine.quietly("dcgmFieldGroupDestroy", made)
        if group is not None:
            engine.quietly("dcgmGroupDestroy", group)


def _refusals(engine: Engine, found: Sequence[Sampled]) -> dict[int, int]:
    """Return the codes with which the engine says that GPUs have no profiling metrics, by GPU; empty if all have them.
    Raises EngineError when the connection is lost."""
    refused: dict[int, int] = {}
    for gpu in dict.fromkeys(each.gpu for each in found):
        try:
            engine.call("dcgmProfGetSupportedMetricGroups", gpu)
        except EngineError as error:
            if error.code == codes.CONNECTION_NOT_VALID:
                raise
            refused[gpu] = error.code
    return refused


def _try_watch(engine: Engine, found: Sequence[Sampled], group: Any, field_group: Any) -> UnusableError | None:
    """Watch SM activity of the entities in ``group`` until one has a value, for about a second at most, and stop.
    Returns None if one has, otherwise an error, not raised, that says why not and what to do. ``field_group`` holds that
    field alone. Raises EngineError when the connection is lost."""
    entities = [each.entity for each in found]
    kept = keep_seconds(_TRY_INTERVAL, engine.version(), shared=not engine.embedded)
    try:
        engine.call("dcgmWatchFields", group, field_group, round(_TRY_INTERVAL * 1e6), kept, 0)
        engine.ask("dcgmUpdateAllFields", 1)
        end = time.monotonic() + _TRY_SECONDS
        while time.monotonic() < end:
            time.sleep(_TRY_INTERVAL)
            if _latest(engine, entities, [_SM_ACTIVE]):
                return None
    except EngineError as error:
        if error.code == codes.CONNECTION_NOT_VALID:
            raise
        why, cure = codes.REFUSALS.get(error.code, codes.NO_REASON)
        return UnusableError(f"no profiling metrics, so no score: {why} (error {error.code})", cure)
    finally:
        engine.quietly("dcgmUnwatchFields", group, field_group)
    why, cure = _BLANK
    return UnusableError(f"no profiling metrics, so no score: {why}", cure)


class UnsampledGpus:
    """A ``Backend`` that knows its GPUs and samples none."""

    name = "dcgm"
    measures: Sequence[str] = ()

    def __init__(self, gpus: Sequence[Device]) -> None:
        self.gpus = gpus

    def sample(self, now: float) -> Sequence[Row]:
        """Return no rows."""
        del now
        return ()

    def changes(self) -> Sequence[News]:
        """Return no changes."""
        return ()

    def close(self) -> Sequence[Row]:
        """Return no rows: there is nothing to close."""
        return ()


def find_gpus(spec: str, visible: Sequence[str] | None) -> OpenedBackend | None:
    """Find this process's GPUs (``visible``: as gssr.launch.gpu_ids returns them) at the hostengine that listens, for
    ``spec`` to sample later. None if none listens. Raises BackendError, also when it hangs."""
    address = address_of()
    if probe(address) == "silent":
        return None

    def find_mine() -> OpenedBackend:
        """Connect to the hostengine, list its GPUs and choose this process's. Raises BackendError and EngineError."""
        engine = reach(embed=False)
        try:
            mine, remarks = choose_mine(discover(engine), visible)
        finally:
            engine.disconnect()
        names = {each.device.uuid: each.engine_name for each in mine}
        return OpenedBackend(UnsampledGpus([each.device for each in mine]), remarks, at_engine=AtEngine(spec, names))

    return _in_time(find_mine, FIND_SECONDS)


_Answer = TypeVar("_Answer")


def _in_time(ask: Callable[[], _Answer], seconds: float = ANSWER_SECONDS) -> _Answer:
    """Return what ``ask`` returns, called in a thread. Raises DcgmError if the hostengine answers with an error, or not
    within ``seconds``; then the thread is left behind."""
    answers: list[_Answer | BackendError] = []

    def keep_answer() -> None:
        """Append what ``ask`` returns to ``answers``, or the BackendError that it raises; an EngineError becomes a
        DcgmError. After any other exception ``answers`` stays empty."""
        try:
            answers.append(ask())
        except EngineError as error:
            what = f"the hostengine on {address_of()} answers with an error: {error}"
            answers.append(DcgmError(what, "restart nv-hostengine"))
        except BackendError as error:
            answers.append(error)

    thread = threading.Thread(target=keep_answer, name="dcgm-offer", daemon=True)
    thread.start()
    thread.join(seconds)
    if not answers:
        raise DcgmError(f"the hostengine on {address_of()} doesn't answer", "restart nv-hostengine")
    if isinstance(answers[0], BackendError):
        raise answers[0]
    return answers[0]
