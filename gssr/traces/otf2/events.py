"""What the process does that reads an OTF2 archive with libotf2, which is written in C: a damaged archive may end it, but
not who has started it. It needs nothing but the standard library and the package ``otf2``.

On standard output there are frames: the length of a head, the head (JSON), then the arrays that it announces. First the
definitions, then, for each of the locations that are asked for on standard input, its events, at last the end. A frame
without arrays says that it is still at work.
"""

import ctypes
import json
import os
import sys
from array import array
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import Any, BinaryIO

from gssr.traces.confined import Limits, confine

_MOST_MEMORY, _MOST_ERRORS = 8 << 30, 1 << 20
_AT_ONCE = 200_000
"""Events, after which it says that it is still at work."""


class Otf2Event(IntEnum):
    """The kind of event of a row. A row has WIDTH columns: the event, its time in ticks, the number of enters and
    leaves of the location before it, and the event's fields as OTF2 has them, filled up with 0."""

    FLUSH = 0
    ON_OFF = 1
    MPI_SEND = 2
    MPI_ISEND = 3
    MPI_RECV = 4
    MPI_IRECV_REQUEST = 5
    MPI_IRECV = 6
    COLLECTIVE_BEGIN = 7
    COLLECTIVE_END = 8
    LATER_COLLECTIVE_REQUEST = 9
    LATER_COLLECTIVE_END = 10
    IO_BEGIN = 11
    IO_COMPLETE = 12
    RMA_PUT = 13
    RMA_GET = 14
    RMA_COMPLETE = 15
    METRIC = 16
    SAMPLE = 17


WIDTH = 9
UNDEFINED = (1 << 32) - 1
"""The number of no region and no calling context."""
_TYPES: dict[str, Any] = {"b": ctypes.c_uint8, "i": ctypes.c_uint32, "q": ctypes.c_uint64, "n": ctypes.c_int64,
          "s": ctypes.c_char_p, "p": ctypes.c_void_p, "B": ctypes.POINTER(ctypes.c_uint8),
          "I": ctypes.POINTER(ctypes.c_uint32), "Q": ctypes.POINTER(ctypes.c_uint64)}  # fmt: skip
_EVENTS = {
    "BufferFlush": (Otf2Event.FLUSH, "q"), "MeasurementOnOff": (Otf2Event.ON_OFF, "b"),
    "MpiSend": (Otf2Event.MPI_SEND, "iiiq"), "MpiIsend": (Otf2Event.MPI_ISEND, "iiiqq"),
    "MpiRecv": (Otf2Event.MPI_RECV, "iiiq"),
    "MpiIrecvRequest": (Otf2Event.MPI_IRECV_REQUEST, "q"), "MpiIrecv": (Otf2Event.MPI_IRECV, "iiiqq"),
    "MpiCollectiveBegin": (Otf2Event.COLLECTIVE_BEGIN, ""), "MpiCollectiveEnd": (Otf2Event.COLLECTIVE_END, "biiqq"),
    "NonBlockingCollectiveRequest": (Otf2Event.LATER_COLLECTIVE_REQUEST, "q"),
    "NonBlockingCollectiveComplete": (Otf2Event.LATER_COLLECTIVE_END, "biiqqq"),
    "IoOperationBegin": (Otf2Event.IO_BEGIN, "ibiqq"), "IoOperationComplete": (Otf2Event.IO_COMPLETE, "iqq"),
    "RmaPut": (Otf2Event.RMA_PUT, "iiqq"), "RmaGet": (Otf2Event.RMA_GET, "iiqq"),
    "RmaOpCompleteBlocking": (Otf2Event.RMA_COMPLETE, "iq"), "RmaOpCompleteNonBlocking": (Otf2Event.RMA_COMPLETE, "iq"),
    "CallingContextSample": (Otf2Event.SAMPLE, "iii"),
}  # fmt: skip
"""Events by the name of their record, and the types of their fields."""
_DEFINITIONS = {
    "ClockProperties": "qqqq", "String": "is", "SystemTreeNode": "iiii", "LocationGroup": "iibii", "Location": "qibqi",
    "Region": "iiiibbiiii", "Group": "iibbiiQ", "MetricMember": "iiibbbbni", "MetricClass": "ibIbb",
    "MetricInstance": "iiqbq", "Comm": "iiiii", "InterComm": "iiiiii", "RmaWin": "iiii", "IoParadigm": "biibibppp",
    "IoRegularFile": "iii", "IoDirectory": "iii", "IoHandle": "iiibiii", "CallingContext": "iiii",
}  # fmt: skip
_COUNTED = {"Group": (5, 6), "MetricClass": (1, 2)}
"""Which field is a list, and which says how long it is."""
_Library = Any


def _send_frame(out: BinaryIO, head: dict[str, Any], *columns: "array[int]") -> None:
    """Write a frame: a header, to which the lengths of the columns are added, and the columns. A frame without columns
    flushes the stream, so that small frames are not written one by one."""
    text = json.dumps(head | {"columns": [len(column) for column in columns]}).encode()
    out.write(len(text).to_bytes(8, "little") + text)
    for column in columns:
        out.write(memoryview(column).cast("B"))
    if not columns:
        out.flush()


class Failed(Exception):
    """libotf2 says that something can't be done."""


def library() -> _Library:
    """Load libotf2, which the package ``otf2`` brings. Raises ImportError without the package."""
    from _otf2.Config import lib_path

    found = ctypes.CDLL(lib_path())
    for name in ("Reader_Open", "Reader_GetGlobalDefReader", "Reader_GetEvtReader", "Reader_GetDefReader",
                 "GlobalDefReaderCallbacks_New", "EvtReaderCallbacks_New"):  # fmt: skip
        getattr(found, f"OTF2_{name}").restype = ctypes.c_void_p
    found.OTF2_Error_GetDescription.restype = ctypes.c_char_p
    return found


class Otf2Reader:
    """An archive that libotf2 reads. Call ``definitions`` before ``read``. ``send(header, *columns)`` is called with
    each location's events. Methods raise Failed."""

    def __init__(self, anchor: str, send: Callable[..., None]) -> None:
        self._send = send
        self._lib = library()
        self._kept: list[Any] = []
        """What C calls must not be forgotten."""
        self._reader = ctypes.c_void_p(self._lib.OTF2_Reader_Open(os.fsencode(anchor)))
        if not self._reader:
            raise Failed("it is not sound")
        self._call("Reader_SetSerialCollectiveCallbacks")

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of libotf2, named without ``OTF2_``, on the archive's reader. Raises Failed, with libotf2's
        words for it, if its return code is not 0."""
        code = getattr(self._lib, f"OTF2_{name}")(self._reader, *arguments)
        if code:
            raise Failed(
                (self._lib.OTF2_Error_GetDescription(code) or b"").decode("utf-8", "replace") or f"code {code}"
            )

    def _callbacks(
        self, kind: str, functions: Mapping[str, tuple[Callable[..., int], str]], head: str
    ) -> ctypes.c_void_p:
        """Make a set of callbacks, by name of the record a function and the types of its fields, which follow those of
        ``head``. Records that this version of libotf2 does not know are left out."""
        callbacks = ctypes.c_void_p(getattr(self._lib, f"OTF2_{kind}Callbacks_New")())
        for name, (function, fields) in functions.items():
            setter = getattr(self._lib, f"OTF2_{kind}Callbacks_Set{name}Callback", None)
            if setter is not None:
                made = ctypes.CFUNCTYPE(ctypes.c_int, *map(_TYPES.__getitem__, head + fields))(function)
                self._kept.append(made)
                setter(callbacks, made)
        return callbacks

    def _text(self, name: str) -> str:
        found = ctypes.c_char_p()
        getattr(self._lib, f"OTF2_Reader_Get{name}")(self._reader, ctypes.byref(found))
        return (found.value or b"").decode("utf-8", "replace")

    def about(self) -> dict[str, Any]:
        """Return who has written the archive ("creator"), the "machine", and the version of the "format"; texts may be
        ""."""
        version = [ctypes.c_uint8() for _ in range(3)]
        self._lib.OTF2_Reader_GetVersion(self._reader, *(ctypes.byref(each) for each in version))
        return {
            "creator": self._text("Creator"), "machine": self._text("MachineName"),
            "format": ".".join(str(each.value) for each in version),
        }  # fmt: skip

    def definitions(self) -> dict[str, list[tuple[Any, ...]]]:
        """Read all definitions: by the name of a record, the values of its fields of each one; [] for records that do
        not occur."""
        found: dict[str, list[tuple[Any, ...]]] = {}

        def make_callback(name: str) -> Callable[..., int]:
            """Make the function that libotf2 calls for each record of this name. It keeps the record's fields in
            ``found``."""
            add = found.setdefault(name, []).append
            counted = _COUNTED.get(name)

            def keep_record(_: Any, *fields: Any) -> int:
                """Keep the fields of a record: a string as text, a list without the number of its elements, of an
                IoParadigm only the first five. Returns 0, on which libotf2 goes on."""
                if name == "String":
                    fields = fields[0], (fields[1] or b"").decode("utf-8", "replace")
                elif name == "IoParadigm":
                    fields = fields[:5]
                elif counted is not None:
                    n, at = counted
                    fields = (*fields[:n], fields[at][: fields[n]], *fields[at + 1 :])
                add(fields)
                return 0

            return keep_record

        functions = {name: (make_callback(name), fields) for name, fields in _DEFINITIONS.items()}
        callbacks = self._callbacks("GlobalDefReader", functions, "p")
        own = ctypes.c_void_p(self._lib.OTF2_Reader_GetGlobalDefReader(self._reader))
        if not own:
            raise Failed("its definitions can't be opened")
        self._call("Reader_RegisterGlobalDefCallbacks", own, callbacks, None)
        self._call("Reader_ReadAllGlobalDefinitions", own, ctypes.byref(ctypes.c_uint64()))
        self._regions = {context: region for context, region, *_ in found["CallingContext"]}
        return found

    def read(self, locations: list[int], most: int) -> None:
        """Send the events of each location, in this order, stopping a location early once there are more than ``most``
        in all."""
        for location in locations:
            self._call("Reader_SelectLocation", ctypes.c_uint64(location))
        self._time, self._code, self._rows = array("Q"), array("q"), array("Q")
        callbacks = self._callbacks("EvtReader", self._functions(), "qqqpp")
        has_own = not self._lib.OTF2_Reader_OpenDefFiles(self._reader)
        self._call("Reader_OpenEvtFiles")
        for location in locations:
            problem = self._tables_of(location) if has_own else ""
            n, why = self._events_of(location, callbacks, most)
            most -= n
            self._send(
                {"location": location, "n_events": n, "problem": why or problem},
                self._time, self._code, self._rows,
            )  # fmt: skip
            for column in (self._time, self._code, self._rows):
                del column[:]

    def _tables_of(self, location: int) -> str:
        """Read a location's own definitions, which correct its numbers and its clock. Returns a clause on why they
        cannot be read, "" if all is well or there are none."""
        own = ctypes.c_void_p(self._lib.OTF2_Reader_GetDefReader(self._reader, ctypes.c_uint64(location)))
        if not own:
            return ""
        code = self._lib.OTF2_Reader_ReadAllLocalDefinitions(self._reader, own, ctypes.byref(ctypes.c_uint64()))
        self._lib.OTF2_Reader_CloseDefReader(self._reader, own)
        return "its own definitions can't be read: its clock is not corrected" if code else ""

    def _events_of(self, location: int, callbacks: ctypes.c_void_p, most: int) -> tuple[int, str]:
        """Read the events of a location into the columns. Returns how many there were, and a clause on why these are
        not all, "" if they are."""
        own = ctypes.c_void_p(self._lib.OTF2_Reader_GetEvtReader(self._reader, ctypes.c_uint64(location)))
        if not own:
            return 0, "its events can't be opened"
        n, done = 0, ctypes.c_uint64()
        try:
            self._call("Reader_RegisterEvtCallbacks", own, callbacks, None)
            while True:
                self._call("Reader_ReadLocalEvents", own, ctypes.c_uint64(_AT_ONCE), ctypes.byref(done))
                n += done.value
                if done.value < _AT_ONCE:
                    return n, ""
                if n > most:
                    return n, f"it has more events than its archive says: those after {n:,} are left out"
                self._send({})
        except Failed as error:
            return max(n, len(self._time) + len(self._rows) // WIDTH), f"its events end early: {error}"
        finally:
            self._lib.OTF2_Reader_CloseEvtReader(self._reader, own)

    def _functions(self) -> dict[str, tuple[Callable[..., int], str]]:
        """Make the functions that libotf2 calls for each record, by the record's name with the types of its fields."""
        add_time, add_code, add, code = self._time.append, self._code.append, self._rows.extend, self._code
        region_of = self._regions.get

        def enter(location: int, time: int, position: int, user: int, attributes: int, region: int) -> int:  # noqa: ARG001
            add_time(time)
            add_code(region + 1)
            return 0

        def leave(location: int, time: int, position: int, user: int, attributes: int, region: int) -> int:  # noqa: ARG001
            add_time(time)
            add_code(-1 - region)
            return 0

        def enter_context(_l: int, time: int, _p: int, _u: int, _a: int, context: int, _distance: int) -> int:
            add_time(time)
            add_code(region_of(context, UNDEFINED) + 1)
            return 0

        def leave_context(_l: int, time: int, _p: int, _u: int, _a: int, context: int) -> int:
            add_time(time)
            add_code(-1 - region_of(context, UNDEFINED))
            return 0

        def metric(_l: int, time: int, _p: int, _u: int, _a: int, ref: int, n: int, _types: Any, values: Any) -> int:
            before = len(code)
            for at in range(n):
                add((Otf2Event.METRIC, time, before, ref, at, values[at], 0, 0, 0))
            return 0

        def make_callback(event: int, n_fields: int) -> Callable[..., int]:
            """Make the function that appends a row for each record of an event with this many fields."""
            blank = (0,) * (WIDTH - 3 - n_fields)

            def append_row(_l: int, time: int, _p: int, _u: int, _a: int, *fields: int) -> int:
                add((event, time, len(code), *fields, *blank))
                return 0

            return append_row

        functions: dict[str, tuple[Callable[..., int], str]] = {
            name: (make_callback(int(event), len(fields)), fields) for name, (event, fields) in _EVENTS.items()
        }
        return functions | {
            "Enter": (enter, "i"), "Leave": (leave, "i"), "Metric": (metric, "ibBQ"),
            "CallingContextEnter": (enter_context, "ii"), "CallingContextLeave": (leave_context, "i"),
        }  # fmt: skip


def send_archive() -> None:
    """Run in the process of its own: read the archive whose anchor file is ``sys.argv[1]``, and write it to standard
    output. Sets limits for memory and file size on the process. Failures are written as frames, too."""
    confine(Limits(_MOST_MEMORY, _MOST_ERRORS))
    lost: list[Any] = []
    sys.unraisablehook = lost.append  # what is raised within a callback
    send = partial(_send_frame, open(1, "wb", buffering=1 << 20, closefd=False))  # noqa: SIM115
    try:
        archive = Otf2Reader(sys.argv[1], send)
        send({"definitions": archive.definitions(), **archive.about()})
        wanted = json.loads(sys.stdin.readline())
        archive.read(wanted["locations"], wanted["most"])
        send({"end": True, "problem": f"{type(lost[0].exc_value).__name__} while it was read" if lost else ""})
    except ImportError:
        send({"missing": True})
    except (Failed, MemoryError) as error:
        send({"failed": str(error) or "it takes more memory than there is"})
