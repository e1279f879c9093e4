"""What the dcgm_structs of both versions have in common: return codes, structures, the error class."""

import ctypes
from ctypes import c_byte, c_char, c_double, c_int, c_int64, c_short, c_uint, c_uint32, c_ushort
from typing import Any

from fakedcgm.client import library_is_missing
from fakedcgm.library import load

DCGM_MAX_STR_LENGTH = 256
DCGM_MAX_BLOB_LENGTH = 4096
DCGM_MAX_NUM_DEVICES = 32
DCGM_OPERATION_MODE_AUTO = 1
DCGM_GROUP_EMPTY = 1
DCGM_GROUP_ALL_GPUS = 0x7FFFFFFF
DCGM_FV_FLAG_LIVE_DATA = 1

CODES = {
    "OK": 0, "BADPARAM": -1, "GENERIC_ERROR": -3, "NOT_SUPPORTED": -6, "INIT_ERROR": -7, "UNINITIALIZED": -10,
    "TIMEOUT": -11, "VER_MISMATCH": -12, "UNKNOWN_FIELD": -13, "NO_DATA": -14, "NOT_WATCHED": -16, "NO_PERMISSION": -17,
    "GPU_IS_LOST": -18, "FUNCTION_NOT_FOUND": -20, "CONNECTION_NOT_VALID": -21, "GROUP_INCOMPATIBLE": -23,
    "MAX_LIMIT": -24, "LIBRARY_NOT_FOUND": -25, "DUPLICATE_KEY": -26, "REQUIRES_ROOT": -29, "MODULE_NOT_LOADED": -33,
    "IN_USE": -34, "PROFILING_NOT_SUPPORTED": -36, "PROFILING_LIBRARY_ERROR": -37, "PROFILING_MULTI_PASS": -38,
    "NVML_NOT_LOADED": -56,
}  # fmt: skip
globals().update({f"DCGM_ST_{name}": code for name, code in CODES.items()})


class DCGMError(Exception):
    """An error code, in ``value``."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        names = {code: name for name, code in CODES.items()}
        return names.get(self.value, "unknown error").replace("_", " ").capitalize()


_classes = {code: type(f"DCGMError_{name}", (DCGMError,), {}) for name, code in CODES.items()}


def dcgmExceptionClass(error_code: int) -> Any:
    return _classes.get(error_code)


def _dcgmCheckReturn(ret: int) -> int:
    """Raise what stands for this code, unless it is OK."""
    if ret:
        raise _classes.get(ret, DCGMError)(ret)
    return ret


MAJOR = 4
"""Of which version the library is."""

_dcgmLib: ctypes.CDLL | None = None


def _dcgmInit(libDcgmPath: str | None = None) -> None:
    """Load the library; the stand-in has its own, wherever one is said to be."""
    del libDcgmPath
    global _dcgmLib
    if library_is_missing():
        _dcgmCheckReturn(CODES["LIBRARY_NOT_FOUND"])
    if _dcgmLib is None:
        try:
            _dcgmLib = load(MAJOR)
        except OSError:
            _dcgmCheckReturn(CODES["LIBRARY_NOT_FOUND"])


def _dcgmGetFunctionPointer(name: str) -> Any:
    """A function of the library, to be called with what ctypes takes."""
    if _dcgmLib is None:
        raise DCGMError(CODES["UNINITIALIZED"])
    try:
        return getattr(_dcgmLib, name)
    except AttributeError:
        raise DCGMError(CODES["FUNCTION_NOT_FOUND"]) from None


def make_dcgm_version(struct: type[ctypes.Structure], version: int) -> int:
    """What the ``version`` of a structure says: its size and its number."""
    return ctypes.sizeof(struct) | version << 24


class _Decoding(ctypes.Structure):
    """As the real ones: strings come decoded."""

    def __getattribute__(self, key: str) -> Any:
        value = super().__getattribute__(key)
        return value.decode() if isinstance(value, bytes) else value


class c_dcgmConnectV2Params_v2(_Decoding):
    _fields_ = (
        ("version", c_uint), ("persistAfterDisconnect", c_uint), ("timeoutMs", c_uint), ("addressIsUnixSocket", c_uint)
    )  # fmt: skip


c_dcgmConnectV2Params_version2 = make_dcgm_version(c_dcgmConnectV2Params_v2, 2)
c_dcgmConnectV2Params_version = c_dcgmConnectV2Params_version2


class c_dcgmGroupEntityPair_t(_Decoding):
    _fields_ = (("entityGroupId", c_uint32), ("entityId", c_uint32))


class c_dcgmMigEntityInfo_t(_Decoding):
    _fields_ = (
        ("gpuUuid", c_char * 128), ("nvmlGpuIndex", c_uint), ("nvmlInstanceId", c_uint),
        ("nvmlComputeInstanceId", c_uint), ("nvmlMigProfileId", c_uint), ("nvmlProfileSlices", c_uint),
    )  # fmt: skip


class c_dcgmMigHierarchyInfo_v2(_Decoding):
    _fields_ = (
        ("entity", c_dcgmGroupEntityPair_t), ("parent", c_dcgmGroupEntityPair_t), ("info", c_dcgmMigEntityInfo_t)
    )  # fmt: skip


class c_dcgmMigHierarchy_v2(_Decoding):
    _fields_ = (
        ("version", c_uint), ("count", c_uint), ("entityList", c_dcgmMigHierarchyInfo_v2 * (DCGM_MAX_NUM_DEVICES * 14))
    )  # fmt: skip


c_dcgmMigHierarchy_version2 = make_dcgm_version(c_dcgmMigHierarchy_v2, 2)


class c_dcgmFieldValue_v1_value(ctypes.Union):
    _fields_ = (
        ("i64", c_int64), ("dbl", c_double), ("str", c_char * DCGM_MAX_STR_LENGTH), ("blob", c_byte * DCGM_MAX_BLOB_LENGTH)
    )  # fmt: skip

    def __getattribute__(self, key: str) -> Any:
        value = super().__getattribute__(key)
        return value.decode() if isinstance(value, bytes) else value


class c_dcgmFieldValue_v1(_Decoding):
    _fields_ = (
        ("version", c_uint), ("fieldId", c_ushort), ("fieldType", c_short), ("status", c_int), ("ts", c_int64),
        ("value", c_dcgmFieldValue_v1_value),
    )  # fmt: skip


dcgmFieldValue_version1 = make_dcgm_version(c_dcgmFieldValue_v1, 1)


class c_dcgmFieldValue_v2(_Decoding):
    _fields_ = (
        ("version", c_uint), ("entityGroupId", c_uint), ("entityId", c_uint), ("fieldId", c_ushort),
        ("fieldType", c_short), ("status", c_int), ("unused", c_uint), ("ts", c_int64),
        ("value", c_dcgmFieldValue_v1_value),
    )  # fmt: skip


dcgmFieldValue_version2 = make_dcgm_version(c_dcgmFieldValue_v2, 2)


class c_dcgmProfMetricGroupInfo_v2(_Decoding):
    _fields_ = (("majorId", c_ushort), ("minorId", c_ushort), ("numFieldIds", c_uint32), ("fieldIds", c_ushort * 64))


class c_dcgmProfGetMetricGroups_v3(_Decoding):
    _fields_ = (
        ("version", c_uint32), ("unused", c_uint32), ("gpuId", c_uint32), ("numMetricGroups", c_uint32),
        ("metricGroups", c_dcgmProfMetricGroupInfo_v2 * 10),
    )  # fmt: skip


dcgmProfGetMetricGroups_version3 = make_dcgm_version(c_dcgmProfGetMetricGroups_v3, 3)


class c_dcgmVersionInfo_v2(_Decoding):
    _fields_ = (("version", c_uint32), ("rawBuildInfoString", c_char * (DCGM_MAX_STR_LENGTH * 2)))


dcgmVersionInfo_version2 = make_dcgm_version(c_dcgmVersionInfo_v2, 2)
