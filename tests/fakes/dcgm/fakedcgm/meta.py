"""The functions of dcgm_fields: what a field is."""

import ctypes
from typing import Any

from fakedcgm.structs import _dcgmGetFunctionPointer


class c_dcgm_field_meta_t(ctypes.Structure):
    _fields_ = (
        ("fieldId", ctypes.c_short), ("fieldType", ctypes.c_char), ("size", ctypes.c_ubyte), ("tag", ctypes.c_char * 48),
        ("scope", ctypes.c_int), ("nvmlFieldId", ctypes.c_int), ("entityLevel", ctypes.c_uint),
        ("valueFormat", ctypes.c_void_p),
    )  # fmt: skip


def DcgmFieldsInit() -> None:
    assert _dcgmGetFunctionPointer("DcgmFieldsInit")() == 0


def DcgmFieldGetById(fieldId: int) -> Any:
    """None where there is no such field."""
    DcgmFieldsInit()
    function = _dcgmGetFunctionPointer("DcgmFieldGetById")
    function.restype = ctypes.POINTER(c_dcgm_field_meta_t)
    found = function(ctypes.c_uint16(fieldId))
    return found.contents if found else None
