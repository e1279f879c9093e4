/* The old counters: memory, utilization, power, clocks, PCIe, fields. */
#include "fakenvml.h"
#include <unistd.h>

/* What is asked about a whole GPU only. */
static R enter_whole(D d, int metric) {
    R r = fake_enter(d);
    return r ? r : d->instance || !fake_supports(metric) ? fake_refuse() : OK;
}
static u32 whole_number(D d, int metric) { return (u32)fake_value(d, metric, fake_now()); }

struct memory { u64 total, free, used; };
struct memory_v2 { u32 version; u64 total, reserved, free, used; };
API R nvmlDeviceGetMemoryInfo_v2(D d, struct memory_v2 *m) {
    R r = fake_enter(d);
    u64 part = d->instance ? 8 : 1;
    if (!fake_supports(MEMORY_USED)) return fake_refuse();
    m->total = 81559 * MIB / part;
    m->reserved = 551 * MIB / part;
    m->used = (u64)fake_value(d, MEMORY_USED, fake_now()) * MIB / part;
    m->free = m->total - m->used - m->reserved;
    return r;
}
API R nvmlDeviceGetMemoryInfo(D d, struct memory *m) {
    struct memory_v2 v;
    R r = nvmlDeviceGetMemoryInfo_v2(d, &v);
    *m = (struct memory){v.total, v.free, v.total - v.free};
    return r;
}
API R nvmlDeviceGetBAR1MemoryInfo(D d, struct memory *m) {
    *m = (struct memory){131072 * MIB, 131071 * MIB, MIB};
    return fake_enter(d);
}
API R nvmlDeviceGetUtilizationRates(D d, u32 *u) {
    u[0] = whole_number(d, UTILIZATION);
    u[1] = whole_number(d, MEMORY_UTILIZATION);
    return enter_whole(d, UTILIZATION);
}
API R nvmlDeviceGetEncoderUtilization(D d, u32 *u, u32 *p) { *u = 0; *p = 100000; return fake_enter(d); }
API R nvmlDeviceGetDecoderUtilization(D d, u32 *u, u32 *p) { *u = 0; *p = 100000; return fake_enter(d); }
API R nvmlDeviceGetPowerUsage(D d, u32 *mw) {
    if (settings.delay_us) usleep(settings.delay_us);
    *mw = (u32)(fake_value(d, POWER, fake_now()) * 1000);
    return enter_whole(d, POWER);
}
API R nvmlDeviceGetEnforcedPowerLimit(D d, u32 *mw) { *mw = 700000; return enter_whole(d, POWER); }
API R nvmlDeviceGetPowerManagementLimit(D d, u32 *mw) { *mw = 700000; return enter_whole(d, POWER); }
API R nvmlDeviceGetPowerManagementDefaultLimit(D d, u32 *mw) { *mw = 700000; return enter_whole(d, POWER); }
API R nvmlDeviceGetPowerManagementLimitConstraints(D d, u32 *a, u32 *b) {
    *a = 200000;
    *b = 700000;
    return enter_whole(d, POWER);
}
static u64 millijoules(D d) {
    return (u64)((fake_integral(d->gpu, 0, POWER, fake_now()) - fake_integral(d->gpu, 0, POWER, 1.7e9)) * 1000);
}
API R nvmlDeviceGetTotalEnergyConsumption(D d, u64 *mj) { *mj = millijoules(d); return enter_whole(d, 510); }
API R nvmlDeviceGetTemperature(D d, int s, u32 *t) { (void)s; *t = whole_number(d, TEMPERATURE); return enter_whole(d, TEMPERATURE); }
API R nvmlDeviceGetTemperatureThreshold(D d, int s, u32 *t) { (void)s; *t = 90; return enter_whole(d, TEMPERATURE); }
API R nvmlDeviceGetClockInfo(D d, int c, u32 *m) { *m = c == 2 ? 2619 : whole_number(d, SM_CLOCK); return enter_whole(d, SM_CLOCK); }
API R nvmlDeviceGetMaxClockInfo(D d, int c, u32 *m) { *m = c == 2 ? 2619 : 1980; return fake_enter(d); }
API R nvmlDeviceGetApplicationsClock(D d, int c, u32 *m) { *m = c == 2 ? 2619 : 1980; return fake_enter(d); }
API R nvmlDeviceGetPerformanceState(D d, u32 *p) { *p = 0; return fake_enter(d); }
API R nvmlDeviceGetCurrentClocksEventReasons(D d, u64 *r) { *r = 4; return enter_whole(d, 507); }
API R nvmlDeviceGetCurrentClocksThrottleReasons(D d, u64 *r) { *r = 4; return enter_whole(d, 508); }
API R nvmlDeviceGetPcieThroughput(D d, int c, u32 *kb) {
    R r = enter_whole(d, 509);
    if (r) return r;
    usleep(20000);
    *kb = (u32)(fake_value(d, c == 0 ? 20 : 21, fake_now()) * 1024);
    return OK;
}
API R nvmlDeviceGetPcieReplayCounter(D d, u32 *v) { *v = 0; return fake_enter(d); }
API R nvmlDeviceGetCurrPcieLinkGeneration(D d, u32 *v) { *v = 5; return fake_enter(d); }
API R nvmlDeviceGetCurrPcieLinkWidth(D d, u32 *v) { *v = 16; return fake_enter(d); }
API R nvmlDeviceGetMaxPcieLinkGeneration(D d, u32 *v) { *v = 5; return fake_enter(d); }
API R nvmlDeviceGetMaxPcieLinkWidth(D d, u32 *v) { *v = 16; return fake_enter(d); }

/* Fields: id, metric, unit per metric unit, whether it counts up, and its type (1 u32, 3 u64). */
static const struct { u32 id; int metric; double factor; int counter, type; } fields[] = {
    {82, MEMORY_TEMPERATURE, 1, 0, 1}, {83, POWER, 1000, 1, 3},
    {138, 61, 1024, 1, 3}, {139, 60, 1024, 1, 3}, {185, POWER, 1000, 0, 1}, {186, POWER, 1000, 0, 1},
    {197, 20, (double)MIB, 1, 3}, {198, 21, (double)MIB, 1, 3},
};
struct field { u32 id, scope; i64 ts, latency; int type; R ret; union { double d; u32 ui; u64 ull; i64 sll; } v; };
API R nvmlDeviceGetFieldValues(D d, int n, struct field *f) {
    R r = fake_enter(d);
    double now = fake_now();
    if (!r && !fake_supports(999)) r = TIMEOUT;
    for (int i = 0; i < n && !r; i++) {
        f[i].ts = (i64)(now * 1e6);
        f[i].latency = 1;
        f[i].ret = NOT_SUPPORTED;
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
            if (fields[k].id != f[i].id || d->instance || !fake_supports(1000 + f[i].id)) continue;
            double v = fields[k].counter ? fake_integral(d->gpu, 0, fields[k].metric, now) - fake_integral(d->gpu, 0, fields[k].metric, 1.7e9)
                                         : fake_value(d, fields[k].metric, now);
            f[i].ret = OK;
            f[i].type = fields[k].type;
            f[i].v.ull = (u64)(v * fields[k].factor);
            if (settings.narrow_pcie && f[i].id >= 197) f[i].v.ull &= 0xffffffff;
        }
        if (f[i].ret) fake_refuse();
    }
    return r;
}
struct sample { u64 ts; union { double d; u32 ui; u64 ull; i64 sll; } v; };
API R nvmlDeviceGetSamples(D d, int type, u64 last, int *value_type, u32 *n, struct sample *s) {
    static const int metrics[] = {POWER, UTILIZATION, MEMORY_UTILIZATION};
    R r = fake_enter(d);
    u64 end = (u64)(fake_now() * 50); /* a raster of 20 ms, the last 2 s */
    u32 k = 0;
    if (r) return r;
    if (type < 0 || type > 2 || d->instance) return fake_refuse();
    *value_type = 1;
    if (!s) {
        *n = 100;
        return OK;
    }
    for (u64 i = end - 100; i <= end && k < *n; i++) {
        u64 ts = i * 20000;
        if (ts <= last) continue;
        s[k].ts = ts;
        s[k++].v.ui = (u32)(fake_value(d, metrics[type], ts * 1e-6) * (type == 0 ? 1000 : 1));
    }
    *n = k;
    return k ? OK : NOT_FOUND;
}

enum { UNCORRECTED = 480, REMAPPED = 481, ECC = 523, ROWS = 524 };
API R nvmlDeviceGetTotalEccErrors(D d, int type, int counter, u64 *n) {
    R r = enter_whole(d, ECC);
    if (r) return r;
    *n = type == 1 && counter == 0 ? (u64)fake_value(d, UNCORRECTED, fake_now()) : 0;
    return OK;
}
API R nvmlDeviceGetRemappedRows(D d, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    u32 *all[] = {corrected, uncorrected, pending, failed};
    R r = enter_whole(d, ROWS);
    for (int i = 0; !r && i < 4; i++) *all[i] = whole_number(d, REMAPPED + i);
    return r;
}
