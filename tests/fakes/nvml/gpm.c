/* GPM: means of the profiling metrics between two samples. */
#include "fakenvml.h"
#include <math.h>
#include <unistd.h>

#define LAST 110 /* above all GPM ids the fake has */
struct gpm_sample { int gpu, instance; double t; double fixed[LAST]; };
struct gpm_metric { u32 id; R ret; double value; const char *short_name, *long_name, *unit; };
struct gpm_get { u32 version, n; struct gpm_sample *first, *second; struct gpm_metric m[]; };

static int streaming;

static int has_gpm(int gpu) { return settings.gpm && !fake_lists(settings.no_gpm, gpu, NULL); }

API R nvmlGpmQueryDeviceSupport(D d, u32 *s) {
    if (s[0] != 1) return 25;
    s[1] = has_gpm(d->gpu);
    return fake_enter(d);
}
API R nvmlGpmSampleAlloc(struct gpm_sample **s) {
    *s = calloc(1, sizeof **s);
    (*s)->gpu = -1;
    return OK;
}
API R nvmlGpmSampleFree(struct gpm_sample *s) { free(s); return OK; }

static R sample(D d, int instance, struct gpm_sample *s) {
    R r = fake_enter(d);
    if (r) return r;
    if (!has_gpm(d->gpu)) return fake_refuse();
    if (settings.no_permission) return NO_PERMISSION;
    if (settings.delay_us) usleep(settings.delay_us);
    s->gpu = d->gpu;
    s->instance = instance;
    s->t = fake_now();
    for (int m = 1; m < LAST; m++) s->fixed[m] = fake_override(d->gpu, m);
    return OK;
}
API R nvmlGpmSampleGet(D d, struct gpm_sample *s) {
    /* In MIG mode only its instances can be sampled. */
    return fake_instances(d->gpu) ? fake_refuse() : sample(d, 0, s);
}
API R nvmlGpmMigSampleGet(D d, u32 gi, struct gpm_sample *s) {
    int instance = (int)gi - FIRST_GPU_INSTANCE + 1;
    return instance < 1 || instance > fake_instances(d->gpu) ? INVALID : sample(d, instance, s);
}
API R nvmlGpmMetricsGet(struct gpm_get *q) {
    struct gpm_sample *a = q->first, *b = q->second;
    if (q->version != 1 || !a || !b || a->gpu < 0 || a->gpu != b->gpu || a->instance != b->instance) return INVALID;
    for (u32 i = 0; i < q->n; i++) {
        struct gpm_metric *m = &q->m[i];
        m->short_name = m->long_name = "fake";
        m->unit = m->id < 20 ? "%" : "MiB/s";
        m->value = 0;
        /* Links belong to the whole GPU. */
        if (m->id >= LAST || !fake_is_metric(m->id) || !fake_supports(m->id) || (a->instance && m->id >= 20)) {
            m->ret = fake_refuse();
            continue;
        }
        m->ret = OK;
        if (fake_lists(settings.nan, m->id, NULL) || b->t - a->t <= 0) m->value = NAN;
        else if (!isnan(b->fixed[m->id])) m->value = b->fixed[m->id];
        else
            m->value = (fake_integral(a->gpu, a->instance, m->id, b->t) - fake_integral(a->gpu, a->instance, m->id, a->t)) /
                       (b->t - a->t);
    }
    return OK;
}
API R nvmlGpmSetStreamingEnabled(D d, u32 s) { (void)d; streaming = s; return OK; }
API R nvmlGpmQueryIfStreamingEnabled(D d, u32 *s) { (void)d; *s = streaming; return OK; }
