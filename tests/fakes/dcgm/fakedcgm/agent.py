"""The functions of dcgm_agent, with the bindings' names and arguments, over ``fakedcgm.client``."""

import ctypes
import itertools
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_int32, c_uint32, c_void_p
from typing import Any

from fakedcgm import structs
from fakedcgm.client import CONNECTION_NOT_VALID, Embedded, Remote
from fakedcgm.engine import Refused

dcgmFieldValueEntityEnumeration_f = CFUNCTYPE(
    c_int32, c_uint32, c_uint32, POINTER(structs.c_dcgmFieldValue_v1), c_int32, c_void_p
)

MAJOR = 4
VERSION = "4.6.0"
_handles: dict[int, Remote | Embedded] = {}
_serial = itertools.count(1)


def _ask(handle: c_void_p, name: str, *arguments: Any) -> Any:
    connection = _handles.get(handle.value or 0)
    try:
        if connection is None:
            raise Refused(CONNECTION_NOT_VALID)
        return connection.request(MAJOR, name, arguments)
    except Refused as refused:
        raise structs.error_of(refused) from None


def _open(make: Callable[[], Remote | Embedded]) -> c_void_p:
    try:
        connection = make()
    except Refused as refused:
        raise structs.error_of(refused) from None
    number = next(_serial)
    _handles[number] = connection
    return c_void_p(number)


def dcgmInit() -> int:
    if not structs.loaded:
        raise structs.DCGMError(structs.CODES["UNINITIALIZED"])
    return 0


def dcgmVersionInfo() -> Any:
    text = f"version:{VERSION};arch:x86_64;buildtype:Release".encode()
    return structs.c_dcgmVersionInfo_v2(0, text)


def dcgmStartEmbedded(opMode: int) -> c_void_p:
    del opMode
    return _open(Embedded)


def dcgmStopEmbedded(dcgm_handle: c_void_p) -> int:
    return dcgmDisconnect(dcgm_handle)


def dcgmConnect_v2(
    ip_address: str, connectParams: Any, version: int = structs.c_dcgmConnectV2Params_version
) -> c_void_p:
    connectParams.version = version
    seconds = (connectParams.timeoutMs or 5000) / 1000
    return _open(lambda: Remote(ip_address, bool(connectParams.addressIsUnixSocket), seconds))


def dcgmDisconnect(dcgm_handle: c_void_p) -> int:
    connection = _handles.pop(dcgm_handle.value or 0, None)
    if connection is None:
        raise structs.error_of(Refused(CONNECTION_NOT_VALID))
    connection.close()
    return 0


def dcgmGetAllDevices(dcgm_handle: c_void_p) -> list[int]:
    return list(_ask(dcgm_handle, "devices"))


def dcgmGetGpuInstanceHierarchy(dcgm_handle: c_void_p) -> Any:
    answer = structs.c_dcgmMigHierarchy_v2()
    entries = _ask(dcgm_handle, "hierarchy")
    answer.count = len(entries)
    for entry, (group, number, parent_group, parent, instance, compute) in zip(
        answer.entityList, entries, strict=False
    ):
        entry.entity.entityGroupId, entry.entity.entityId = group, number
        entry.parent.entityGroupId, entry.parent.entityId = parent_group, parent
        entry.info.nvmlInstanceId, entry.info.nvmlComputeInstanceId = instance, compute
    return answer


def dcgmEntitiesGetLatestValues(dcgmHandle: c_void_p, entities: list[Any], fieldIds: list[int], flags: int) -> Any:
    assert flags == structs.DCGM_FV_FLAG_LIVE_DATA, "only live reads are simulated"
    pairs = [(pair.entityGroupId, pair.entityId) for pair in entities]
    values = _ask(dcgmHandle, "latest_live", pairs, list(fieldIds))
    answer = (structs.c_dcgmFieldValue_v2 * len(values))()
    for item, value in zip(answer, values, strict=True):
        item.entityGroupId, item.entityId = value[:2]
        _fill(item, value)
    return answer


def dcgmGroupCreate(dcgm_handle: c_void_p, type: int, groupName: str) -> c_void_p:
    return c_void_p(_ask(dcgm_handle, "group_create", type, groupName))


def dcgmGroupAddEntity(dcgm_handle: c_void_p, group_id: c_void_p, entityGroupId: int, entityId: int) -> int:
    _ask(dcgm_handle, "group_add", group_id.value, entityGroupId, entityId)
    return 0


def dcgmGroupDestroy(dcgm_handle: c_void_p, group_id: c_void_p) -> int:
    _ask(dcgm_handle, "group_destroy", group_id.value)
    return 0


def dcgmFieldGroupCreate(dcgm_handle: c_void_p, fieldIds: list[int], fieldGroupName: str) -> c_void_p:
    return c_void_p(_ask(dcgm_handle, "fields_create", list(fieldIds), fieldGroupName))


def dcgmFieldGroupDestroy(dcgm_handle: c_void_p, fieldGroupId: c_void_p) -> int:
    _ask(dcgm_handle, "fields_destroy", fieldGroupId.value)
    return 0


def dcgmWatchFields(
    dcgm_handle: c_void_p, groupId: c_void_p, fieldGroupId: c_void_p, updateFreq: int, maxKeepAge: float,
    maxKeepSamples: int,
) -> int:  # fmt: skip
    _ask(dcgm_handle, "watch", groupId.value, fieldGroupId.value, updateFreq, maxKeepAge, maxKeepSamples)
    return 0


def dcgmUnwatchFields(dcgm_handle: c_void_p, groupId: c_void_p, fieldGroupId: c_void_p) -> int:
    _ask(dcgm_handle, "unwatch", groupId.value, fieldGroupId.value)
    return 0


def dcgmGetValuesSince_v2(
    dcgm_handle: c_void_p, groupId: c_void_p, fieldGroupId: c_void_p, sinceTimestamp: int, enumCB: Any, userData: Any
) -> int:
    next_since, values = _ask(dcgm_handle, "values_since", groupId.value, fieldGroupId.value, sinceTimestamp)
    item = structs.c_dcgmFieldValue_v1()
    for value in values:
        _fill(item, value)
        if enumCB(value[0], value[1], ctypes.byref(item), 1, userData):
            break
    return int(next_since)


def dcgmProfGetSupportedMetricGroups(dcgmHandle: c_void_p, gpuId: int) -> Any:
    answer = structs.c_dcgmProfGetMetricGroups_v3()
    groups = _ask(dcgmHandle, "supported", gpuId)
    answer.gpuId, answer.numMetricGroups = gpuId, len(groups)
    for group, (major, fields) in zip(answer.metricGroups, groups, strict=False):
        group.majorId, group.numFieldIds = major, len(fields)
        group.fieldIds[: len(fields)] = fields
    return answer


def dcgmProfPause(dcgmHandle: c_void_p) -> int:
    _ask(dcgmHandle, "pause", True)
    return 0


def dcgmProfResume(dcgmHandle: c_void_p) -> int:
    _ask(dcgmHandle, "pause", False)
    return 0


def _fill(item: Any, value: tuple[Any, ...]) -> None:
    _, _, item.fieldId, item.fieldType, item.status, item.ts, content = value
    if item.fieldType == ord("s"):
        item.value.str = str(content).encode()
    elif item.fieldType == ord("d"):
        item.value.dbl = content
    else:
        item.value.i64 = content
