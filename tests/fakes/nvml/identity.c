/* Who the GPUs and their instances are: UUIDs, names, places, MIG. */
#include "fakenvml.h"
#include <strings.h>

/* UUIDs differ from node to node. */
static u32 salt(void) {
    const char *s = getenv("FAKENVML_NODE");
    u32 h = 0;
    if (!s) s = getenv("SLURMD_NODENAME");
    while (s && *s) h = h * 31 + (unsigned char)*s++;
    return h & 0xffff;
}
static void uuid(D d, char *b, u32 n) {
    snprintf(b, n, "%s-fa4e0000-%04x-4000-8%03x-%012x", d->instance ? "MIG" : "GPU", salt(), d->instance, d->gpu + 1);
}
static void bus(int i, char *b, u32 n, int digits) {
    snprintf(b, n, digits == 4 ? "%04X:%02X:00.0" : "%08X:%02X:00.0", 0, 0x10 * (i + 1));
}

API R nvmlDeviceGetHandleByUUID(const char *s, D *d) {
    char b[96];
    for (int gpu = 0; gpu < settings.gpus; gpu++)
        for (int i = 0; i <= fake_instances(gpu); i++) {
            uuid(fake_device(gpu, i), b, sizeof b);
            if (strcmp(b, s)) continue;
            *d = fake_device(gpu, i);
            return fake_enter(*d);
        }
    return fake_enter(NULL) ? fake_enter(NULL) : NOT_FOUND;
}
API R nvmlDeviceGetHandleByPciBusId_v2(const char *s, D *d) {
    char b[32], c[32];
    for (int i = 0; i < settings.gpus; i++) {
        bus(i, b, sizeof b, 8);
        bus(i, c, sizeof c, 4);
        if (strcasecmp(b, s) && strcasecmp(c, s)) continue;
        *d = fake_device(i, 0);
        return fake_enter(*d);
    }
    return NOT_FOUND;
}
API R nvmlDeviceGetUUID(D d, char *b, u32 n) { uuid(d, b, n); return fake_enter(d); }
API R nvmlDeviceGetName(D d, char *b, u32 n) {
    snprintf(b, n, d->instance ? "%s MIG 1g.10gb" : "%s", settings.name);
    return fake_enter(d);
}
API R nvmlDeviceGetSerial(D d, char *b, u32 n) { snprintf(b, n, "165000000%d", d->gpu); return fake_enter(d); }
API R nvmlDeviceGetIndex(D d, u32 *i) { *i = d->gpu; return d->instance ? NOT_SUPPORTED : fake_enter(d); }
API R nvmlDeviceGetMinorNumber(D d, u32 *i) { *i = d->gpu; return fake_enter(d); }
API R nvmlDeviceGetBrand(D d, int *b) { *b = 2; return fake_enter(d); }
API R nvmlDeviceGetArchitecture(D d, u32 *a) { *a = settings.arch; return fake_enter(d); }
API R nvmlDeviceGetCudaComputeCapability(D d, int *major, int *minor) {
    *major = settings.arch >= 9 ? settings.arch : 8;
    *minor = settings.arch == 8 ? 9 : 0;
    return fake_enter(d);
}
API R nvmlDeviceGetNumGpuCores(D d, u32 *n) { *n = 132 * (settings.arch == 7 ? 64 : 128); return fake_enter(d); }
API R nvmlDeviceGetVirtualizationMode(D d, int *m) { *m = 0; return fake_enter(d); }
struct pci { char legacy[16]; u32 domain, bus, device, devid, subsys; char busid[32]; };
API R nvmlDeviceGetPciInfo_v3(D d, struct pci *p) {
    memset(p, 0, sizeof *p);
    bus(d->gpu, p->legacy, sizeof p->legacy, 4);
    bus(d->gpu, p->busid, sizeof p->busid, 8);
    p->bus = 0x10 * (d->gpu + 1);
    p->devid = 0x233010DE;
    p->subsys = 0x16C110DE;
    return fake_enter(d);
}
API R nvmlDeviceGetVbiosVersion(D d, char *b, u32 n) { snprintf(b, n, "96.00.00.00.01"); return fake_enter(d); }
API R nvmlDeviceGetInforomImageVersion(D d, char *b, u32 n) { snprintf(b, n, "G520.0200.00.05"); return fake_enter(d); }
API R nvmlDeviceGetPersistenceMode(D d, int *m) { *m = 1; return fake_enter(d); }
API R nvmlDeviceGetComputeMode(D d, int *m) { *m = 0; return fake_enter(d); }
API R nvmlDeviceGetEccMode(D d, int *a, int *b) { *a = *b = 1; return fake_enter(d); }

API R nvmlDeviceGetMigMode(D d, u32 *current, u32 *pending) {
    if (settings.arch == 8) return fake_refuse();
    *current = *pending = fake_instances(d->gpu) > 0;
    return fake_enter(d);
}
API R nvmlDeviceGetMaxMigDeviceCount(D d, u32 *n) { *n = MAX_INSTANCES; return fake_enter(d); }
API R nvmlDeviceGetMigDeviceHandleByIndex(D d, u32 i, D *instance) {
    if (d->instance || i >= MAX_INSTANCES) return INVALID;
    if ((int)i >= fake_instances(d->gpu)) return NOT_FOUND;
    *instance = fake_device(d->gpu, i + 1);
    return fake_enter(d);
}
API R nvmlDeviceIsMigDeviceHandle(D d, u32 *is) { *is = d->instance > 0; return fake_enter(d); }
API R nvmlDeviceGetGpuInstanceId(D d, u32 *id) { *id = d->instance + FIRST_GPU_INSTANCE - 1; return d->instance ? fake_enter(d) : NOT_SUPPORTED; }
API R nvmlDeviceGetComputeInstanceId(D d, u32 *id) { *id = 0; return d->instance ? fake_enter(d) : NOT_SUPPORTED; }
API R nvmlDeviceGetDeviceHandleFromMigDeviceHandle(D d, D *parent) {
    *parent = fake_device(d->gpu, 0);
    return d->instance ? fake_enter(d) : INVALID;
}
struct attributes { u32 sms, copy, dec, enc, jpeg, ofa, gi, ci; u64 memory_mib; };
API R nvmlDeviceGetAttributes_v2(D d, struct attributes *a) {
    *a = (struct attributes){.sms = 16, .copy = 1, .gi = 1, .ci = 1, .memory_mib = 9856};
    return d->instance ? fake_enter(d) : fake_refuse();
}
