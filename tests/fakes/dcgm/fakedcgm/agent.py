"""The functions of dcgm_agent, with the bindings' names and arguments, over the library."""

from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, byref, c_double, c_int, c_int32, c_int64, c_uint, c_uint16, c_uint32, c_void_p
from ctypes import py_object as c_object
from typing import Any

from fakedcgm import structs
from fakedcgm.structs import _dcgmGetFunctionPointer

dcgmFieldValueEntityEnumeration_f = CFUNCTYPE(
    c_int32, c_uint32, c_uint32, POINTER(structs.c_dcgmFieldValue_v1), c_int32, c_void_p
)

dcgmFP = _dcgmGetFunctionPointer


def _call(function: str, *arguments: Any) -> int:
    """Text goes as bytes; a code that is not 0 is raised."""
    plain = [text.encode() if isinstance(text, str) else text for text in arguments]
    return structs._dcgmCheckReturn(dcgmFP(function)(*plain))


def dcgmInit() -> int:
    return _call("dcgmInit", byref(c_void_p()))


def dcgmVersionInfo() -> Any:
    answer = structs.c_dcgmVersionInfo_v2()
    answer.version = structs.dcgmVersionInfo_version2
    _call("dcgmVersionInfo", byref(answer))
    return answer


def dcgmStartEmbedded(opMode: int) -> c_void_p:
    handle = c_void_p()
    _call("dcgmStartEmbedded", opMode, byref(handle))
    return handle


def dcgmStopEmbedded(dcgm_handle: c_void_p) -> int:
    return _call("dcgmStopEmbedded", dcgm_handle)


def dcgmConnect_v2(
    ip_address: str, connectParams: Any, version: int = structs.c_dcgmConnectV2Params_version
) -> c_void_p:
    connectParams.version = version
    handle = c_void_p()
    _call("dcgmConnect_v2", ip_address, byref(connectParams), byref(handle))
    return handle


def dcgmDisconnect(dcgm_handle: c_void_p) -> int:
    return _call("dcgmDisconnect", dcgm_handle)


def dcgmGetAllDevices(dcgm_handle: c_void_p) -> list[int]:
    ids = (c_uint * structs.DCGM_MAX_NUM_DEVICES)()
    count = c_uint()
    _call("dcgmGetAllDevices", dcgm_handle, ids, byref(count))
    return list(ids[: count.value])


def dcgmGetGpuInstanceHierarchy(dcgm_handle: c_void_p) -> Any:
    answer = structs.c_dcgmMigHierarchy_v2()
    answer.version = structs.c_dcgmMigHierarchy_version2
    _call("dcgmGetGpuInstanceHierarchy", dcgm_handle, byref(answer))
    return answer


def dcgmGroupCreate(dcgm_handle: c_void_p, kind: int, groupName: str) -> c_void_p:
    group = c_void_p()
    _call("dcgmGroupCreate", dcgm_handle, kind, groupName, byref(group))
    return group


def dcgmGroupAddEntity(dcgm_handle: c_void_p, group_id: c_void_p, entityGroupId: int, entityId: int) -> int:
    return _call("dcgmGroupAddEntity", dcgm_handle, group_id, entityGroupId, entityId)


def dcgmGroupDestroy(dcgm_handle: c_void_p, group_id: c_void_p) -> int:
    return _call("dcgmGroupDestroy", dcgm_handle, group_id)


def dcgmFieldGroupCreate(dcgm_handle: c_void_p, fieldIds: Sequence[int], fieldGroupName: str) -> c_void_p:
    group = c_void_p()
    ids = (c_uint16 * len(fieldIds))(*fieldIds)
    _call("dcgmFieldGroupCreate", dcgm_handle, c_int32(len(fieldIds)), byref(ids), fieldGroupName, byref(group))
    return group


def dcgmFieldGroupDestroy(dcgm_handle: c_void_p, fieldGroupId: c_void_p) -> int:
    return _call("dcgmFieldGroupDestroy", dcgm_handle, fieldGroupId)


def dcgmUpdateAllFields(dcgm_handle: c_void_p, waitForUpdate: int) -> int:
    return _call("dcgmUpdateAllFields", dcgm_handle, c_int(waitForUpdate))


def dcgmWatchFields(
    dcgm_handle: c_void_p, groupId: c_void_p, fieldGroupId: c_void_p, updateFreq: int, maxKeepAge: float,
    maxKeepSamples: int,
) -> int:  # fmt: skip
    numbers = c_int64(updateFreq), c_double(maxKeepAge), c_int32(maxKeepSamples)
    return _call("dcgmWatchFields", dcgm_handle, groupId, fieldGroupId, *numbers)


def dcgmUnwatchFields(dcgm_handle: c_void_p, groupId: c_void_p, fieldGroupId: c_void_p) -> int:
    return _call("dcgmUnwatchFields", dcgm_handle, groupId, fieldGroupId)


def dcgmGetValuesSince_v2(
    dcgm_handle: c_void_p, groupId: c_void_p, fieldGroupId: c_void_p, sinceTimestamp: int, enumCB: Any, userData: Any
) -> int:
    following = c_int64()
    since = c_int64(sinceTimestamp)
    _call(
        "dcgmGetValuesSince_v2",
        dcgm_handle,
        groupId,
        fieldGroupId,
        since,
        byref(following),
        enumCB,
        c_object(userData),
    )
    return following.value


def dcgmEntitiesGetLatestValues(dcgmHandle: c_void_p, entities: list[Any], fieldIds: Sequence[int], flags: int) -> Any:
    values = (structs.c_dcgmFieldValue_v2 * (len(fieldIds) * len(entities)))()
    pairs = (structs.c_dcgmGroupEntityPair_t * len(entities))(*entities)
    ids = (c_uint16 * len(fieldIds))(*fieldIds)
    counts = c_uint(len(entities)), c_uint(len(fieldIds))
    _call("dcgmEntitiesGetLatestValues", dcgmHandle, pairs, counts[0], ids, counts[1], flags, values)
    return values


def dcgmProfGetSupportedMetricGroups(dcgmHandle: c_void_p, gpuId: int) -> Any:
    answer = structs.c_dcgmProfGetMetricGroups_v3()
    answer.version = structs.dcgmProfGetMetricGroups_version3
    answer.gpuId = gpuId
    _call("dcgmProfGetSupportedMetricGroups", dcgmHandle, byref(answer))
    return answer


def dcgmProfPause(dcgmHandle: c_void_p) -> int:
    return _call("dcgmProfPause", dcgmHandle)


def dcgmProfResume(dcgmHandle: c_void_p) -> int:
    return _call("dcgmProfResume", dcgmHandle)
