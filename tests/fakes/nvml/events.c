/* Events: the XIDs of a file, and that of a GPU that falls off the bus. */
#include "fakenvml.h"
#include <unistd.h>

enum { XID = 8, SUPPORTED = 0x49f, FELL_OFF_THE_BUS = 79, NO_INSTANCE = 0xffffffff }; /* event types are bits */

struct events { u64 wanted[MAX_GPUS]; int told[MAX_GPUS]; long read; };
struct event { D device; u64 type, data; };
struct event_v2 { D device; u64 type, data; u32 gpu_instance, compute_instance; };

/* The next XID after the byte ``from``; the byte behind it, or 0 when there is none yet. */
static long next(long from, int *gpu, u32 *code) {
    FILE *file = settings.xid ? fopen(settings.xid, "r") : NULL;
    long end = 0;
    if (!file) return 0;
    if (!fseek(file, from, SEEK_SET) && fscanf(file, "%d %u", gpu, code) == 2) end = ftell(file);
    fclose(file);
    return end;
}

API R nvmlEventSetCreate(struct events **set) {
    int gpu;
    u32 code;
    if (!fake_is_up()) return UNINITIALIZED;
    *set = calloc(1, sizeof **set);
    for (long end; (end = next((*set)->read, &gpu, &code));) (*set)->read = end;
    return OK;
}
API R nvmlEventSetFree(struct events *set) { free(set); return OK; }

API R nvmlDeviceGetSupportedEventTypes(D d, u64 *types) {
    *types = SUPPORTED;
    return d->instance ? fake_refuse() : fake_enter(d);
}
API R nvmlDeviceRegisterEvents(D d, u64 types, struct events *set) {
    R r = fake_enter(d);
    if (!r && !fake_supports(522)) return fake_refuse();
    if (r || d->instance || types & ~(u64)SUPPORTED) return r ? r : fake_refuse();
    set->wanted[d->gpu] |= types;
    return OK;
}
API R nvmlEventSetWait_v2(struct events *set, struct event_v2 *event, u32 timeout_ms) {
    for (u32 waited = 0;; waited += 10) {
        int of;
        u32 code;
        for (long end; (end = next(set->read, &of, &code));) {
            set->read = end;
            if (of < 0 || of >= settings.gpus || !(set->wanted[of] & XID)) continue;
            *event = (struct event_v2){fake_device(of, 0), XID, code, NO_INSTANCE, NO_INSTANCE};
            return OK;
        }
        for (int gpu = 0; gpu < settings.gpus; gpu++) {
            if (!(set->wanted[gpu] & XID)) continue;
            int lost = fake_enter(fake_device(gpu, 0)) == LOST, news = lost && !set->told[gpu];
            set->told[gpu] = lost;
            if (!news) continue;
            *event = (struct event_v2){fake_device(gpu, 0), XID, FELL_OFF_THE_BUS, NO_INSTANCE, NO_INSTANCE};
            return OK;
        }
        if (!fake_is_up()) return UNINITIALIZED;
        if (waited >= timeout_ms) return TIMEOUT;
        usleep(10000);
    }
}
API R nvmlEventSetWait(struct events *set, struct event *event, u32 timeout_ms) {
    struct event_v2 v = {0};
    R r = nvmlEventSetWait_v2(set, &v, timeout_ms);
    *event = (struct event){v.device, v.type, v.data};
    return r;
}
