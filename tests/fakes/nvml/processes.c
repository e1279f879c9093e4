/* Processes on the GPUs, as the file FAKENVML_PROCESSES has them at each call, one a line: GPU, instance (0: the whole GPU), pid,
 * memory in MiB (-1: not available), SM utilization in percent (-1: no sample), and c (compute), g (graphics) or b (both). */
#include "fakenvml.h"

enum { INSUFFICIENT = 7, RUNNING = 520, UTILIZATION_OF_PROCESSES = 521, NEVER_ENOUGH = 525 };

struct process { u32 pid; u64 memory; u32 gpu_instance, compute_instance; };
struct utilization { u32 pid; u64 stamp; u32 sm, memory, encoder, decoder; };
struct line { int gpu, instance; long pid; double mib, sm; char kind; };

static int next(FILE *file, D d, struct line *l) {
    while (fscanf(file, "%d %d %ld %lf %lf %c", &l->gpu, &l->instance, &l->pid, &l->mib, &l->sm, &l->kind) == 6)
        if (l->gpu == d->gpu && l->instance == d->instance) return 1;
    return 0;
}

static R running(D d, u32 *n, struct process *found, char kind) {
    R r = fake_enter(d);
    struct line l;
    u32 count = 0, room = *n;
    FILE *file = settings.processes ? fopen(settings.processes, "r") : NULL;
    if (!r && !fake_supports(RUNNING)) r = fake_refuse();
    for (; !r && file && next(file, d, &l);) {
        if (l.kind != kind && l.kind != 'b') continue;
        if (count < room && found)
            found[count] = (struct process){(u32)l.pid, l.mib < 0 ? ~0ull : (u64)(l.mib * MIB), 0xffffffff, 0xffffffff};
        count++;
    }
    if (file) fclose(file);
    if (r) return r;
    *n = fake_supports(NEVER_ENOUGH) ? count : room + 1;
    return *n > room ? INSUFFICIENT : OK;
}
API R nvmlDeviceGetComputeRunningProcesses_v3(D d, u32 *n, struct process *found) { return running(d, n, found, 'c'); }
API R nvmlDeviceGetGraphicsRunningProcesses_v3(D d, u32 *n, struct process *found) { return running(d, n, found, 'g'); }
API R nvmlDeviceGetComputeRunningProcesses_v2(D d, u32 *n, struct process *found) { return running(d, n, found, 'c'); }
API R nvmlDeviceGetGraphicsRunningProcesses_v2(D d, u32 *n, struct process *found) { return running(d, n, found, 'g'); }

/* One sample a sixth of a second; none for who did nothing. */
API R nvmlDeviceGetProcessUtilization(D d, struct utilization *found, u32 *n, u64 last) {
    R r = fake_enter(d);
    struct line l;
    u32 count = 0;
    u64 stamp = (u64)(fake_now() * 6) * 1000000 / 6;
    FILE *file;
    if (r) return r;
    if (d->instance || !fake_supports(UTILIZATION_OF_PROCESSES)) return fake_refuse();
    file = settings.processes ? fopen(settings.processes, "r") : NULL;
    for (; file && next(file, d, &l);) {
        if (l.sm < 0 || stamp <= last) continue;
        if (found && count < *n) found[count] = (struct utilization){(u32)l.pid, stamp, (u32)l.sm, 0, 0, 0};
        count++;
    }
    if (file) fclose(file);
    r = !count ? NOT_FOUND : !found || count > *n ? INSUFFICIENT : OK;
    *n = count;
    return r;
}
