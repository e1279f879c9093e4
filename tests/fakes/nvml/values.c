/* What the GPUs measure: the closed form, its integral, and what overrides it. */
#include "fakenvml.h"
#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const struct { int metric; double mean, amp; } forms[] = {
    {1, 90, 8}, {2, 80, 15}, {3, 40, 10}, {4, 10, 5}, {5, 50, 20}, {6, 2, 1}, {7, 45, 20}, {8, 3, 2}, {9, 1, 1},
    {10, 60, 25}, {11, 5, 4}, {12, 20, 10}, {13, 3, 2},                  /* % */
    {20, 1000, 500}, {21, 2000, 900}, {60, 30000, 9000}, {61, 31000, 9000},
    {100, 5000, 100}, {101, 5000, 100}, {102, 5000, 100}, {103, 5000, 100}, /* MiB/s */
    {POWER, 500, 150}, {TEMPERATURE, 60, 10}, {SM_CLOCK, 1700, 200}, {MEMORY_USED, 40000, 10000},
    {UTILIZATION, 90, 10}, {MEMORY_UTILIZATION, 50, 30}, {MEMORY_TEMPERATURE, 55, 5},
};

static double (*control)[METRICS];

static double stopped_at; /* 0: time passes */

API void fakenvml_stop_at(double now) { stopped_at = now; }

double fake_now(void) {
    struct timespec t;
    if (stopped_at > 0) return stopped_at;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int form(int metric, double *mean, double *amp) {
    static signed char place[METRICS]; /* 1 + index into forms; 0: not looked for, -1: not there */
    if (metric < 0 || metric >= METRICS) return 0;
    for (size_t i = 0; !place[metric] && i < sizeof forms / sizeof *forms; i++)
        if (forms[i].metric == metric) place[metric] = i + 1;
    if (!place[metric]) place[metric] = -1;
    if (place[metric] < 0) return 0;
    *mean = forms[place[metric] - 1].mean;
    *amp = forms[place[metric] - 1].amp;
    return 1;
}

int fake_is_metric(int metric) {
    double mean, amp;
    return form(metric, &mean, &amp);
}

int fake_lists(const char *list, int number, double *value) {
    while (list && *list) {
        char *end;
        long n = strtol(list, &end, 10);
        if (end == list) return 0;
        double v = *end == ':' ? strtod(end + 1, &end) : NAN;
        if (n == number) {
            if (value) *value = v;
            return 1;
        }
        list = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

API void fakenvml_support_no_more(const char *list) { settings.not_supported = list; }

int fake_supports(int metric) { return !fake_lists(settings.not_supported, metric, NULL); }

void fake_map_control(void) {
    const char *path = getenv("FAKENVML_CTL");
    size_t size = sizeof(double) * MAX_GPUS * METRICS;
    control = NULL;
    if (!path) return;
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    if (fd < 0) return;
    if (lseek(fd, 0, SEEK_END) < (off_t)size) {
        double none = NAN;
        lseek(fd, 0, SEEK_SET);
        for (size_t i = 0; i < MAX_GPUS * METRICS; i++)
            if (write(fd, &none, sizeof none) != sizeof none) break;
    }
    void *p = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED) control = p;
    close(fd);
}

double fake_override(int gpu, int metric) {
    double value;
    if (control && !isnan(control[gpu][metric])) return control[gpu][metric];
    return fake_lists(settings.set, metric, &value) ? value : NAN;
}

/* The angle at t, small: the sine of 1e9 costs ten times as much. */
static double angle(int gpu, int instance, double t) {
    return 2 * M_PI * fmod(t, settings.period) / settings.period + gpu + 0.5 * instance;
}

double fake_value(D d, int metric, double t) {
    double mean, amp, fixed = fake_override(d->gpu, metric);
    if (!isnan(fixed)) return fixed;
    if (!form(metric, &mean, &amp)) return 0;
    return mean + amp * sin(angle(d->gpu, d->instance, t));
}

double fake_integral(int gpu, int instance, int metric, double t) {
    double mean, amp, w = 2 * M_PI / settings.period;
    if (!form(metric, &mean, &amp)) return 0;
    return mean * t - amp / w * cos(angle(gpu, instance, t));
}

/* The exact mean of a metric between two unix times; instance 0 is the whole GPU. */
API double fakenvml_expected_of(int gpu, int instance, int metric, double t1, double t2) {
    if (!fake_is_metric(metric)) return NAN;
    if (!fake_is_up()) settings.period = getenv("FAKENVML_PERIOD") ? atof(getenv("FAKENVML_PERIOD")) : 10; /* another process's */
    return (fake_integral(gpu, instance, metric, t2) - fake_integral(gpu, instance, metric, t1)) / (t2 - t1);
}

API double fakenvml_expected(int gpu, int metric, double t1, double t2) {
    return fakenvml_expected_of(gpu, 0, metric, t1, t2);
}
