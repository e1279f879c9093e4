/* MIG from the GPU's side: its GPU instances, all of the profile 1g.10gb, and their one compute instance each. The handles of
 * both are those of the MIG device that they make up. */
#include "fakenvml.h"

enum { SLICES = 7, PROFILE = 19, VERSION_MISMATCH = 25 }; /* 19: the id of 1g in what the driver lists */
enum { PROFILES = 18, COMPUTE_PROFILES = 9 }; /* beyond the last an index is invalid: DCGM counts up until it is told so */

struct placement { u32 start, size; };
struct gpu_profile { u32 id, p2p, slices, instances, sms, copy, dec, enc, jpeg, ofa; u64 memory_mib; };
struct gpu_profile_v2 { u32 version; struct { u32 id, p2p, slices, instances, sms, copy, dec, enc, jpeg, ofa; } u; u64 memory_mib; char name[96]; };
struct compute_profile { u32 id, slices, instances, sms, copy, dec, enc, jpeg, ofa; };
struct compute_profile_v2 { u32 version; struct compute_profile profile; char name[96]; };
struct gpu_instance { D device; u32 id, profile; struct placement placement; };
struct compute_instance { D device, gpu_instance; u32 id, profile; struct placement placement; };

/* What is asked about a GPU in MIG mode only. */
static R enter(D gpu) {
    R r = fake_enter(gpu);
    return r ? r : gpu->instance ? INVALID : fake_instances(gpu->gpu) ? OK : fake_refuse();
}

API R nvmlDeviceGetGpuInstanceProfileInfo(D gpu, u32 profile, struct gpu_profile *info) {
    R r = enter(gpu);
    if (!r && profile >= PROFILES) return INVALID;
    if (r || profile) return r ? r : fake_refuse();
    *info = (struct gpu_profile){.id = PROFILE, .slices = 1, .instances = SLICES, .sms = 16, .copy = 1, .dec = 1, .memory_mib = 9856};
    return OK;
}
API R nvmlDeviceGetGpuInstanceProfileInfoV(D gpu, u32 profile, struct gpu_profile_v2 *info) {
    struct gpu_profile old;
    if (info->version != (sizeof *info | 2u << 24)) return VERSION_MISMATCH;
    R r = nvmlDeviceGetGpuInstanceProfileInfo(gpu, profile, &old);
    if (r) return r;
    memcpy(&info->u, &old, sizeof info->u);
    info->memory_mib = old.memory_mib;
    snprintf(info->name, sizeof info->name, "MIG 1g.10gb");
    return OK;
}
API R nvmlDeviceGetGpuInstanceRemainingCapacity(D gpu, u32 profile, u32 *n) {
    R r = enter(gpu);
    if (r || profile != PROFILE) return r ? r : fake_refuse();
    *n = SLICES - fake_instances(gpu->gpu);
    return OK;
}
API R nvmlDeviceGetGpuInstancePossiblePlacements_v2(D gpu, u32 profile, struct placement *places, u32 *n) {
    R r = enter(gpu);
    if (r || profile != PROFILE) return r ? r : fake_refuse();
    for (u32 i = 0; places && i < SLICES; i++) places[i] = (struct placement){i, 1};
    *n = SLICES;
    return OK;
}
API R nvmlDeviceGetGpuInstancePossiblePlacements(D gpu, u32 profile, struct placement *places, u32 *n) {
    return nvmlDeviceGetGpuInstancePossiblePlacements_v2(gpu, profile, places, n);
}
API R nvmlDeviceGetGpuInstances(D gpu, u32 profile, D *found, u32 *n) {
    R r = enter(gpu);
    if (r) return r;
    *n = profile == PROFILE ? fake_instances(gpu->gpu) : 0;
    for (u32 i = 0; i < *n; i++) found[i] = fake_device(gpu->gpu, i + 1);
    return OK;
}
API R nvmlDeviceGetGpuInstanceById(D gpu, u32 id, D *found) {
    R r = enter(gpu);
    int instance = (int)id - FIRST_GPU_INSTANCE + 1;
    if (r) return r;
    if (instance < 1 || instance > fake_instances(gpu->gpu)) return NOT_FOUND;
    *found = fake_device(gpu->gpu, instance);
    return OK;
}
API R nvmlGpuInstanceGetInfo(D instance, struct gpu_instance *info) {
    *info = (struct gpu_instance){
        fake_device(instance->gpu, 0), instance->instance + FIRST_GPU_INSTANCE - 1, PROFILE, {instance->instance - 1, 1}};
    return fake_enter(instance);
}
API R nvmlGpuInstanceGetComputeInstanceProfileInfo(D instance, u32 profile, u32 engines, struct compute_profile *info) {
    R r = fake_enter(instance);
    if (!r && profile >= COMPUTE_PROFILES) return INVALID;
    if (r || profile || engines) return r ? r : fake_refuse();
    *info = (struct compute_profile){.slices = 1, .instances = 1, .sms = 16, .copy = 1, .dec = 1};
    return OK;
}
API R nvmlGpuInstanceGetComputeInstanceProfileInfoV(D instance, u32 profile, u32 engines, struct compute_profile_v2 *info) {
    if (info->version != (sizeof *info | 2u << 24)) return VERSION_MISMATCH;
    R r = nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, profile, engines, &info->profile);
    if (!r) snprintf(info->name, sizeof info->name, "MIG 1g.10gb");
    return r;
}
API R nvmlGpuInstanceGetComputeInstanceRemainingCapacity(D instance, u32 profile, u32 *n) {
    R r = fake_enter(instance);
    if (r || profile) return r ? r : fake_refuse();
    *n = 0;
    return OK;
}
API R nvmlGpuInstanceGetComputeInstances(D instance, u32 profile, D *found, u32 *n) {
    R r = fake_enter(instance);
    if (r) return r;
    *n = profile ? 0 : 1;
    if (*n) *found = instance;
    return OK;
}
API R nvmlGpuInstanceGetComputeInstanceById(D instance, u32 id, D *found) {
    R r = fake_enter(instance);
    if (r || id) return r ? r : NOT_FOUND;
    *found = instance;
    return OK;
}
API R nvmlComputeInstanceGetInfo_v2(D instance, struct compute_instance *info) {
    *info = (struct compute_instance){fake_device(instance->gpu, 0), instance, 0, 0, {0, 1}};
    return fake_enter(instance);
}
API R nvmlComputeInstanceGetInfo(D instance, struct compute_instance *info) { return nvmlComputeInstanceGetInfo_v2(instance, info); }
