"""Pickles read as data: dicts, lists, tuples, texts, bytes and numbers, and nothing else.

Python's own unpickler runs what a pickle names. This one knows no operation that names, imports or calls anything, so a
pickle from anywhere can do no more than be refused. Python's C unpickler with its lookups forbidden would not do: a few
bytes make it reserve gigabytes (an index of the memo, a length), or compute for hours (hashes of nested tuples).
"""

import gc
import struct
import sys
from collections.abc import Callable
from typing import Any

from gssr.traces.timeline import TraceError

_NEVER_TOO_MUCH, _MOST_TIMES = 64 << 20, 16
"""Bytes of memory that the objects may take, and sizes of the file: those of PyTorch take 9 times theirs. A file of 20 MB
stays below 350 MB."""
_LIST, _DICT, _TUPLE, _SLOT, _NUMBER = 64, 64, 48, 9, 32
"""Bytes that an empty list, dict and tuple take, an element of one, and a number. A list has room for an eighth more."""
_LONGEST_NUMBER = 64
"""Bytes of a number: addresses and times take 8."""

_REFUSED = {
    0x63: "imports something (GLOBAL)", 0x93: "imports something (STACK_GLOBAL)", 0x69: "makes an object (INST)",
    0x52: "calls something (REDUCE)", 0x6F: "makes an object (OBJ)", 0x81: "makes an object (NEWOBJ)",
    0x92: "makes an object (NEWOBJ_EX)", 0x62: "changes an object (BUILD)", 0x50: "names something outside (PERSID)",
    0x51: "names something outside (BINPERSID)", 0x82: "imports something (EXT1)", 0x83: "imports something (EXT2)",
    0x84: "imports something (EXT4)", 0x97: "names something outside (NEXT_BUFFER)",
}  # fmt: skip
"""Operations that lead outside of the pickle."""


def load_plain_pickle(data: bytes, name: str) -> Any:
    """Read a pickle of plain data. Containers may hold themselves: go only as deep as the format says.

    Args:
        data: the whole pickle, of protocol 2 to 5.
        name: what error messages call it.

    Raises:
        TraceError: it is cut off or damaged, would take far more memory than its size, or is no plain data.
    """
    was_enabled = gc.isenabled()
    gc.disable()  # it would go through all objects again and again while they are made
    try:
        return _read(data)
    except (IndexError, struct.error):
        raise TraceError(f"{name}: is a pickle that is cut off or damaged") from None
    except UnicodeDecodeError:
        raise TraceError(f"{name}: is a damaged pickle: a text in it is no UTF-8") from None
    except ValueError as problem:
        raise TraceError(f"{name}: {problem}") from None
    finally:
        if was_enabled:
            gc.enable()


def _sized_text(data: bytes, at: int, n: int) -> bytes:
    """Return the n bytes from ``at`` on. Raises IndexError if there are fewer."""
    if at + n > len(data):
        raise IndexError
    return data[at : at + n]


def _read(data: bytes) -> Any:
    """Carry out the operations until the last one and return what is left. They are all here, in the order of how many
    there are: Python gets no faster. Raises ValueError, a clause, IndexError, struct.error and UnicodeDecodeError."""
    most = max(_NEVER_TOO_MUCH, _MOST_TIMES * len(data))
    taken, at = 0, 0
    memo: list[Any] = []
    stack: list[Any] = []
    marks: list[list[Any]] = []
    size_of: Callable[[object], int] = sys.getsizeof
    while True:
        code = data[at]
        at += 1
        if code == 0x68:  # BINGET
            stack.append(memo[data[at]])
            taken += _SLOT
            at += 1
        elif code == 0x6A:  # LONG_BINGET
            stack.append(memo[int.from_bytes(data[at : at + 4], "little")])
            taken += _SLOT
            at += 4
        elif code == 0x94:  # MEMOIZE
            memo.append(stack[-1])
            taken += _SLOT
        elif code in (0x71, 0x72):  # BINPUT, LONG_BINPUT
            n = 1 if code == 0x71 else 4
            index = int.from_bytes(_sized_text(data, at, n), "little")
            if index > len(memo):
                raise ValueError("is a damaged pickle: it numbers what it holds out of order")
            memo[index : index + 1] = [stack[-1]]
            taken += _SLOT
            at += n
        elif code == 0x4B:  # BININT1
            stack.append(data[at])
            taken += _SLOT
            at += 1
        elif code == 0x4A:  # BININT
            stack.append(int.from_bytes(_sized_text(data, at, 4), "little", signed=True))
            taken += _SLOT + _NUMBER
            at += 4
        elif code == 0x4D:  # BININT2
            stack.append(int.from_bytes(_sized_text(data, at, 2), "little"))
            taken += _SLOT + _NUMBER
            at += 2
        elif code in (0x8A, 0x8B):  # LONG1, LONG4
            head = 1 if code == 0x8A else 4
            n = int.from_bytes(_sized_text(data, at, head), "little")
            if n > _LONGEST_NUMBER:
                raise ValueError(f"is a damaged pickle: a number in it is {n:,} bytes long")
            at += head
            stack.append(int.from_bytes(_sized_text(data, at, n), "little", signed=True))
            taken += _SLOT + _NUMBER + n
            at += n
        elif code == 0x28:  # MARK
            marks.append(stack)
            stack = []
            taken += _LIST + _SLOT
        elif code == 0x7D:  # EMPTY_DICT
            stack.append({})
            taken += _DICT + _SLOT
        elif code == 0x5D:  # EMPTY_LIST
            stack.append([])
            taken += _LIST + _SLOT
        elif code in (0x75, 0x73):  # SETITEMS, SETITEM
            if code == 0x75:
                items, stack = stack, marks.pop()
            else:
                items = [stack[-2], stack[-1]]
                del stack[-2:]
            into = stack[-1]
            if type(into) is not dict or len(items) % 2:
                raise ValueError("is a damaged pickle: it puts items into what is no dict")
            keys = items[::2]
            if not all(type(key) is str for key in keys):
                raise ValueError("is a pickle with dicts whose keys are no texts, which PyTorch does not write here")
            before = size_of(into)
            into.update(zip(keys, items[1::2], strict=True))
            taken += size_of(into) - before
        elif code in (0x65, 0x61):  # APPENDS, APPEND
            if code == 0x65:
                items, stack = stack, marks.pop()
            else:
                items = [stack.pop()]
            onto = stack[-1]
            if type(onto) is not list:
                raise ValueError("is a damaged pickle: it puts elements into what is no list")
            onto.extend(items)
            taken += _SLOT * len(items)
        elif code == 0x74:  # TUPLE
            items, stack = stack, marks.pop()
            stack.append(tuple(items))
            taken += _TUPLE + _SLOT * len(items)
        elif code in (0x85, 0x86, 0x87):  # TUPLE1, TUPLE2, TUPLE3
            n = code - 0x84
            if len(stack) < n:
                raise IndexError
            stack[-n:] = [tuple(stack[-n:])]
            taken += _TUPLE + _SLOT * n
        elif code == 0x29:  # EMPTY_TUPLE
            stack.append(())
            taken += _SLOT
        elif code in (0x8C, 0x58, 0x8D):  # SHORT_BINUNICODE, BINUNICODE, BINUNICODE8
            head = 1 if code == 0x8C else 4 if code == 0x58 else 8
            n = int.from_bytes(_sized_text(data, at, head), "little")
            at += head
            text = str(_sized_text(data, at, n), "utf-8", "surrogatepass")
            stack.append(text)
            taken += _SLOT + size_of(text)
            at += n
        elif code in (0x43, 0x42, 0x8E):  # SHORT_BINBYTES, BINBYTES, BINBYTES8
            head = 1 if code == 0x43 else 4 if code == 0x42 else 8
            n = int.from_bytes(_sized_text(data, at, head), "little")
            at += head
            stack.append(_sized_text(data, at, n))
            taken += _SLOT + _NUMBER + n
            at += n
        elif code == 0x47:  # BINFLOAT
            stack.append(struct.unpack_from(">d", data, at)[0])
            taken += _SLOT + _NUMBER
            at += 8
        elif code in (0x4E, 0x88, 0x89):  # NONE, NEWTRUE, NEWFALSE
            stack.append(None if code == 0x4E else code == 0x88)
            taken += _SLOT
        elif code == 0x95:  # FRAME
            _sized_text(data, at, 8)
            at += 8
        elif code == 0x80:  # PROTO
            if not 2 <= data[at] <= 5:
                raise ValueError(f"is a pickle of protocol {data[at]}, which this version can't read")
            at += 1
        elif code == 0x2E:  # STOP
            if marks or len(stack) != 1:
                raise ValueError("is a damaged pickle: it ends within what it holds")
            return stack[0]
        elif code in _REFUSED:
            raise ValueError(
                f"is a pickle that {_REFUSED[code]}: GSSR reads only plain data from pickles, and runs none"
            )
        else:
            raise ValueError(f"is a damaged pickle, or holds more than plain data: operation {code:#04x}")
        if taken > most:
            raise ValueError(
                f"would take more than {most >> 20:,} MB of memory, far more than its size: PyTorch writes no such pickle"
            )
