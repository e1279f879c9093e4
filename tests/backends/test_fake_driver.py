"""The stand-in for NVIDIA's driver: what a hostengine asks of it that nothing here does, events and the parts of MIG."""

import ctypes
import time
from ctypes import byref, c_char, c_uint, c_ulonglong, c_void_p

import pynvml
import pytest


@pytest.fixture
def driver(fake_driver, monkeypatch):
    """The library with one GPU of three instances and one without."""

    def load(**settings):
        library = fake_driver.load(monkeypatch, gpus=2, mig="0:3", **settings)
        assert library.nvmlInit_v2() == 0
        loaded.append(library)
        return library

    loaded = []
    yield load
    for library in loaded:
        library.nvmlShutdown()


def gpu(library, index):
    handle = c_void_p()
    assert library.nvmlDeviceGetHandleByIndex_v2(index, byref(handle)) == 0
    return handle


def test_gpu_instances_and_their_compute_instances_make_up_the_mig_devices(driver):
    library = driver()
    whole = gpu(library, 0)
    profile = pynvml.c_nvmlGpuInstanceProfileInfo_t()
    assert library.nvmlDeviceGetGpuInstanceProfileInfo(whole, 0, byref(profile)) == 0
    assert library.nvmlDeviceGetGpuInstanceProfileInfo(whole, 1, byref(profile)) == pynvml.NVML_ERROR_NOT_SUPPORTED
    handles, count = (c_void_p * 7)(), c_uint()
    assert library.nvmlDeviceGetGpuInstances(whole, profile.id, handles, byref(count)) == 0
    found = []
    for handle in handles[: count.value]:
        info, compute, parts = pynvml.c_nvmlGpuInstanceInfo_t(), pynvml.c_nvmlComputeInstanceInfo_t(), c_uint()
        part, same = c_void_p(), c_void_p()
        assert library.nvmlGpuInstanceGetInfo(c_void_p(handle), byref(info)) == 0
        assert ctypes.cast(info.device, c_void_p).value == whole.value
        assert library.nvmlDeviceGetGpuInstanceById(whole, info.id, byref(same)) == 0 and same.value == handle
        assert library.nvmlGpuInstanceGetComputeInstances(c_void_p(handle), 0, byref(part), byref(parts)) == 0
        assert parts.value == 1
        assert library.nvmlComputeInstanceGetInfo_v2(part, byref(compute)) == 0
        found.append((info.id, compute.id))
    devices, most = [], c_uint()
    assert library.nvmlDeviceGetMaxMigDeviceCount(whole, byref(most)) == 0
    for index in range(most.value):
        device, instance, part_id, parent = c_void_p(), c_uint(), c_uint(), c_void_p()
        if library.nvmlDeviceGetMigDeviceHandleByIndex(whole, index, byref(device)):
            continue
        assert library.nvmlDeviceGetGpuInstanceId(device, byref(instance)) == 0
        assert library.nvmlDeviceGetComputeInstanceId(device, byref(part_id)) == 0
        assert library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device, byref(parent)) == 0
        assert parent.value == whole.value
        devices.append((instance.value, part_id.value))
    assert found == devices == [(7, 0), (8, 0), (9, 0)]


def test_whoever_counts_up_the_profiles_comes_to_an_end(driver):
    """DCGM asks for one profile after another until an index is invalid; "not supported" is one that this GPU lacks."""
    library = driver()
    profile, compute = pynvml.c_nvmlGpuInstanceProfileInfo_t(), pynvml.c_nvmlComputeInstanceProfileInfo_t()
    instances, count = (c_void_p * 7)(), c_uint()
    whole = gpu(library, 0)
    assert library.nvmlDeviceGetGpuInstances(whole, 19, instances, byref(count)) == 0

    def of_the_gpu(index):
        return library.nvmlDeviceGetGpuInstanceProfileInfo(whole, index, byref(profile))

    def of_an_instance(index):
        return library.nvmlGpuInstanceGetComputeInstanceProfileInfo(c_void_p(instances[0]), index, 0, byref(compute))

    for ask in (of_the_gpu, of_an_instance):
        answers = [ask(index) for index in range(40)]
        assert answers[0] == 0 and pynvml.NVML_ERROR_NOT_SUPPORTED in answers
        assert answers[-1] == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_a_gpu_without_mig_has_no_instances(driver):
    library = driver()
    handles, count = (c_void_p * 7)(), c_uint()
    assert (
        library.nvmlDeviceGetGpuInstances(gpu(library, 1), 19, handles, byref(count)) == pynvml.NVML_ERROR_NOT_SUPPORTED
    )


@pytest.mark.parametrize("name", ["nvmlEventSetWait", "nvmlEventSetWait_v2"])
def test_an_event_comes_when_a_gpu_is_lost_and_else_the_wait_times_out(driver, tmp_path, name):
    command = tmp_path / "command"
    library = driver(command=command)
    wait = getattr(library, name)
    events, types = c_void_p(), c_ulonglong()
    event = pynvml.c_nvmlEventData_t()
    assert library.nvmlEventSetCreate(byref(events)) == 0
    assert library.nvmlDeviceGetSupportedEventTypes(gpu(library, 1), byref(types)) == 0
    assert types.value & pynvml.nvmlEventTypeXidCriticalError
    for index in (0, 1):
        assert library.nvmlDeviceRegisterEvents(gpu(library, index), c_ulonglong(8), events) == 0
    begun = time.monotonic()
    assert wait(events, byref(event), 50) == pynvml.NVML_ERROR_TIMEOUT
    assert time.monotonic() - begun >= 0.05
    command.write_text("lose 1")
    assert wait(events, byref(event), 5000) == 0
    assert (event.eventType, event.eventData) == (pynvml.nvmlEventTypeXidCriticalError, 79)
    assert ctypes.cast(event.device, c_void_p).value == gpu_address(library, 1)
    assert wait(events, byref(event), 0) == pynvml.NVML_ERROR_TIMEOUT, "said once"
    assert library.nvmlEventSetFree(events) == 0


def gpu_address(library, index):
    """Where a GPU's handle points, also while it is lost."""
    handle = c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(index, byref(handle))
    return handle.value


def test_versions_of_structures_are_looked_at(driver):
    library = driver()
    info = pynvml.c_nvmlGpuInstanceProfileInfo_v2_t()
    info.version = 1
    assert library.nvmlDeviceGetGpuInstanceProfileInfoV(gpu(library, 0), 0, byref(info)) == 25
    info.version = ctypes.sizeof(info) | 2 << 24
    assert library.nvmlDeviceGetGpuInstanceProfileInfoV(gpu(library, 0), 0, byref(info)) == 0
    assert (info.id, info.memorySizeMB) == (19, 9856)
    assert bytes((c_char * 96).from_buffer(info, type(info).name.offset)).split(b"\0")[0] == b"MIG 1g.10gb"
