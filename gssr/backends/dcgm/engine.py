"""One connection to a hostengine, or an engine inside this process.

Where the hostengine is: DCGM_HOST, else this machine's usual port.
"""

from __future__ import annotations

import ctypes
import math
import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from gssr.backends.dcgm.bindings import Bindings, find_bindings, load_bindings, major_of, version_in
from gssr.backends.dcgm.codes import (
    AUTOMATIC,
    CONNECTION_NOT_VALID,
    GPU,
    LIVE_DATA,
    MISMATCHES,
    NAME,
    NVML_NOT_LOADED,
    REQUIRES_ROOT,
    DcgmError,
    MismatchError,
)

PORT = 5555
UNIX_PREFIX = "unix://"
_PROBE_SECONDS = 1.0
NAMED_CURE = "start nv-hostengine there, or unset DCGM_HOST"
"""Where nothing answers at the address that the user has named."""


class Address(NamedTuple):
    """The address of a hostengine. ``named``: the user named it in DCGM_HOST. ``unix``: ``host`` is the path of a
    socket, and ``port`` 0."""

    host: str
    port: int
    unix: bool
    named: bool

    def __str__(self) -> str:
        if self.unix:
            return UNIX_PREFIX + self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def address_of(environ: Mapping[str, str] = os.environ) -> Address:
    """Return the address in DCGM_HOST (``host``, ``host:port``, ``[IPv6]:port`` or ``unix:///path``), else
    127.0.0.1:5555. Raises DcgmError if its port is impossible."""
    text = environ.get("DCGM_HOST", "").strip()
    if not text:
        return Address("127.0.0.1", PORT, False, False)
    if text.startswith(UNIX_PREFIX):
        return Address(text[len(UNIX_PREFIX) :], 0, True, True)
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        return Address(text.strip("[]"), PORT, False, True)
    if not _is_port(port):
        raise DcgmError(f"DCGM_HOST={text} ends in no port", "name it as host, host:port, [IPv6]:port or unix:///path")
    return Address(host.strip("[]"), int(port), False, True)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 1 << 16


def probe(address: Address) -> Literal["listens", "silent", "forbidden"]:
    """Find out whether anything listens at an address, by connecting and hanging up, within a second. "forbidden":
    something is there that this user may not open."""
    try:
        if address.unix:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(_PROBE_SECONDS)
                client.connect(address.host)
        else:
            socket.create_connection((address.host, address.port), _PROBE_SECONDS).close()
    except PermissionError:
        return "forbidden"
    except BlockingIOError:  # a unix socket with as many clients waiting as it lets wait
        return "listens"
    except (OSError, UnicodeError):  # or a name that no host can have
        return "silent"
    return "listens"


CONNECT_MILLISECONDS = 3000


class EngineError(Exception):
    """A call that the engine answered with an error; ``code`` is DCGM's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code


class Engine:
    """A handle to an engine, and the calls made with it. ``embedded``: the engine is in this process; ``where``: how
    sentences call it. A handle that lost its hostengine never works again: connect anew."""

    def __init__(self, bindings: Bindings, handle: Any, embedded: bool, where: str) -> None:
        self.bindings = bindings
        self.where = where
        self._handle = handle
        self.embedded = embedded

    def call(self, name: str, *arguments: Any) -> Any:
        """Call ``dcgm_agent``'s function of this name with the handle first, and return what it returns. Raises
        EngineError. Blocks for as long as the hostengine hangs."""
        try:
            return getattr(self.bindings.agent, name)(self._handle, *arguments)
        except self.bindings.structs.DCGMError as error:
            raise EngineError(error.value, str(error)) from None

    def call_library(self, name: str, *arguments: Any) -> None:
        """Call the library's own function of this name with the handle first, without what the bindings copy for each
        call. Raises EngineError."""
        structs = self.bindings.structs
        code = structs._dcgmGetFunctionPointer(name)(self._handle, *arguments)
        if code:
            raise EngineError(code, str(structs.DCGMError(code)))

    def ask(self, name: str, *arguments: Any) -> Any:
        """Call ``dcgm_agent``'s function of this name with the handle first, and return its answer, or None if the
        engine answers with an error. Raises EngineError only if the connection is lost or the engine is of another
        version."""
        try:
            return self.call(name, *arguments)
        except EngineError as error:
            if error.code == CONNECTION_NOT_VALID or error.code in MISMATCHES:
                raise
            return None

    def quietly(self, name: str, *arguments: Any) -> None:
        """Call ``dcgm_agent``'s function of this name, which gives something back, with the handle first. Errors of the
        engine are ignored, as it forgets what belongs to a connection that ends."""
        try:
            self.call(name, *arguments)
        except EngineError:
            pass

    def version(self) -> str:
        """Return the hostengine's version, such as 4.6.0; "" if it does not tell. DCGM answers this across major
        versions; it is in the library, not in the bindings. Raises EngineError, see ``ask``."""
        structs = self.bindings.structs
        info = structs.c_dcgmVersionInfo_v2()
        info.version = structs.dcgmVersionInfo_version2
        try:
            self.call_library("dcgmHostengineVersionInfo", ctypes.byref(info))
        except EngineError as error:
            if error.code == CONNECTION_NOT_VALID or error.code in MISMATCHES:
                raise
            return ""
        return version_in(info.rawBuildInfoString)

    def knows_field(self, field: int) -> bool:
        """Tell whether this version of DCGM has the field. One unknown id would fail the whole group it is in."""
        return self.bindings.fields.DcgmFieldGetById(field) is not None

    def entity(self, group: int, entity: int) -> Any:
        """Make the bindings' pair of entity group and id."""
        return self.bindings.structs.c_dcgmGroupEntityPair_t(group, entity)

    def disconnect(self) -> None:
        """Let go of the handle; never raises EngineError."""
        self.quietly("dcgmStopEmbedded" if self.embedded else "dcgmDisconnect")


class EngineClock:
    """Compares the hostengine's clock with the recording's. ``offset``: engine minus recording, s; it is changed only
    as much as observations demand, so it stays 0 on a machine whose clock nobody sets. ``looked_at``: when it was last
    looked at, by the recording's clock."""

    def __init__(self, engine: Engine, gpu: int | None, clock: Callable[[], float]) -> None:
        """``gpu`` is DCGM's id of any of its GPUs, None if it has none (then nothing can be looked at); ``clock``
        returns the recording's time, unix s."""
        self.offset = 0.0
        self.looked_at = -math.inf
        self._engine = engine
        self._entities = [] if gpu is None else [engine.entity(GPU, gpu)]
        self._now = clock

    def look(self) -> None:
        """Ask the hostengine for its time, by the stamp of what it reads from the driver now. Raises EngineError when
        the connection is lost."""
        if not self._entities:
            return
        before = self.looked_at = self._now()
        answer = self._engine.ask("dcgmEntitiesGetLatestValues", self._entities, [NAME], LIVE_DATA)
        stamp = max((value.ts for value in answer or ()), default=0)
        if stamp:
            self.see(before, stamp / 1e6, self._now())

    def see(self, before: float, engine: float, after: float) -> None:
        """Note that the hostengine's clock showed ``engine`` at some moment between ``before`` and ``after`` of the
        recording's clock, all in s. Afterwards the offset is wrong by at most ``after - before``."""
        self.offset = min(max(self.offset, engine - after), engine - before)


def reach(embed: bool = True, before: Bindings | None = None) -> Engine:
    """Connect to the hostengine with the first of the installed bindings that can be loaded and that it understands.

    ``before``: bindings to try first. ``embed``: start an engine inside this process if none listens at the usual
    address. Raises DcgmError, which gives the reason of the first bindings that failed, if none will do, and EngineError
    if the connection is lost at once.
    """
    folders = find_bindings()
    if before is not None:
        folders = [before.folder, *(folder for folder in folders if folder != before.folder)]
    first: DcgmError | None = None
    for folder in folders:
        try:
            bindings = before if before is not None and folder == before.folder else load_bindings(folder)
        except DcgmError as error:  # the next ones may have a library
            first = first or error
            continue
        try:
            engine = connect(bindings, embed)
            _check(engine)
        except MismatchError as error:
            first = first or error
            continue
        return engine
    assert first is not None
    raise first


def _check(engine: Engine) -> None:
    """Check that the hostengine is of the bindings' major version: otherwise some calls work, others don't. Raises
    MismatchError, after hanging up, if it is not, and EngineError if the connection is lost."""
    bindings = engine.bindings
    try:
        version = engine.version()
    except EngineError as error:
        engine.disconnect()
        if error.code in MISMATCHES:
            raise mismatch(bindings, engine.where, error.code) from None
        raise
    if version and bindings.version and major_of(version) != major_of(bindings.version):
        engine.disconnect()
        raise _mismatch(
            f"the {engine.where} is of DCGM {version}, and the bindings in {bindings.folder} of {bindings.version}"
        )


def connect(bindings: Bindings, embed: bool = True) -> Engine:
    """Connect to the hostengine at DCGM_HOST or 127.0.0.1:5555. If nothing listens at the latter, an engine is started
    inside this process, but only with ``embed``: two on one node take each other's counters. Raises DcgmError."""
    address = address_of()
    if probe(address) != "silent":
        return attach(bindings, address)
    if address.named:
        raise DcgmError(f"no hostengine answers on {address} (DCGM_HOST)", NAMED_CURE)
    if not embed:
        raise DcgmError(f"no hostengine answers on {address}", "start nv-hostengine")
    return _embed(bindings, address)


def attach(bindings: Bindings, address: Address) -> Engine:
    """Connect to a hostengine that listens at this address. Raises DcgmError."""
    if probe(address) == "forbidden":
        raise DcgmError(
            f"this user may not open the hostengine's socket {address}", "use its TCP port instead, which any user may"
        )
    structs = bindings.structs
    parameters = structs.c_dcgmConnectV2Params_v2()
    parameters.version = structs.c_dcgmConnectV2Params_version2
    parameters.persistAfterDisconnect = 0
    parameters.timeoutMs = CONNECT_MILLISECONDS
    parameters.addressIsUnixSocket = int(address.unix)
    where = f"hostengine on {address}"
    try:
        handle = bindings.agent.dcgmConnect_v2(address.host if address.unix else str(address), parameters)
    except structs.DCGMError as error:
        if error.value in MISMATCHES:
            raise mismatch(bindings, where, error.value) from None
        raise DcgmError(
            f"what listens on {address} doesn't answer as a hostengine: {error}", "see that nv-hostengine runs there"
        ) from None
    return Engine(bindings, handle, False, where)


def _embed(bindings: Bindings, address: Address) -> Engine:
    """Start an engine inside this process. Raises DcgmError."""
    try:
        handle = bindings.agent.dcgmStartEmbedded(AUTOMATIC)
    except bindings.structs.DCGMError as error:
        cure = {
            NVML_NOT_LOADED: "make NVIDIA's driver library libnvidia-ml.so.1 visible here",
            REQUIRES_ROOT: "have nv-hostengine started by root",
        }.get(error.value, "start nv-hostengine, or name another place in DCGM_HOST")
        raise DcgmError(
            f"no hostengine answers on {address}, and none can be started in this process: {error}", cure
        ) from None
    return Engine(bindings, handle, True, "engine in this process")


def mismatch(bindings: Bindings, where: str, code: int) -> MismatchError:
    """Make the error for a hostengine that does not understand these bindings; it is not raised here."""
    return _mismatch(
        f"the {where} and the bindings of DCGM {bindings.version or '(version unknown)'} in {bindings.folder} don't "
        f"understand each other (error {code})"
    )


def _mismatch(what: str) -> MismatchError:
    cure = "they must be of one major version: set DCGM_BINDINGS to the bindings of the hostengine's"
    return MismatchError(what, cure)
