/* The library as a whole: starting and ending it, which GPUs there are, and what goes wrong on demand. */
#include "fakenvml.h"
#include <signal.h>
#include <unistd.h>

struct settings settings;
static struct device devices[MAX_GPUS][MAX_INSTANCES + 1];
static int references;
static unsigned long starts, calls, refusals;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static void read_settings(void) {
    const char *name = getenv("FAKENVML_NAME"), *period = getenv("FAKENVML_PERIOD");
    settings = (struct settings){
        .gpus = number("FAKENVML_GPUS", 4), .gpm = number("FAKENVML_GPM", 1), .arch = number("FAKENVML_ARCH", 9),
        .delay_us = number("FAKENVML_DELAY_US", 0), .no_permission = number("FAKENVML_NO_PERMISSION", 0),
        .lost_sticky = number("FAKENVML_LOST_STICKY", 0), .narrow_pcie = number("FAKENVML_NARROW_PCIE", 0),
        .period = period ? atof(period) : 10, .name = name ? name : "NVIDIA H100 FAKE",
        .command = getenv("FAKENVML_COMMAND"), .no_gpm = getenv("FAKENVML_NO_GPM"), .nan = getenv("FAKENVML_NAN"),
        .not_supported = getenv("FAKENVML_NOT_SUPPORTED"), .set = getenv("FAKENVML_SET"),
        .lost = getenv("FAKENVML_LOST"), .mig = getenv("FAKENVML_MIG"),
        .processes = getenv("FAKENVML_PROCESSES"), .xid = getenv("FAKENVML_XID"),
    };
    fake_map_control();
    if (settings.gpus > MAX_GPUS) settings.gpus = MAX_GPUS;
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        for (int i = 0; i <= MAX_INSTANCES; i++) devices[gpu][i] = (struct device){gpu, i};
}

/* Does what the file says for this device; 1 where that is to lose it. */
static int obey(D d) {
    for (;; usleep(10000)) {
        char word[16] = "";
        int gpu = -1;
        FILE *file = settings.command ? fopen(settings.command, "r") : NULL;
        if (!file) return 0;
        int n = fscanf(file, "%15s %d", word, &gpu);
        fclose(file);
        if (n < 1 || (gpu >= 0 && (!d || d->gpu != gpu))) return 0;
        if (!strcmp(word, "crash")) raise(SIGSEGV);
        if (strcmp(word, "hang")) return d && !strcmp(word, "lose");
    }
}

static int is_lost(D d) {
    static unsigned long lost_in[MAX_GPUS]; /* which start of the library it was lost in last */
    int which;
    double from, to, now = fake_now();
    int told = obey(d);
    if (!d) return 0;
    if (settings.lost && sscanf(settings.lost, "%d:%lf:%lf", &which, &from, &to) == 3 && which == d->gpu)
        told |= now >= from && now < to;
    if (told) lost_in[d->gpu] = starts;
    return told || (settings.lost_sticky && lost_in[d->gpu] == starts);
}

int fake_is_up(void) { return references > 0; }

R fake_enter(D d) {
    calls++;
    if (!references) return UNINITIALIZED;
    return is_lost(d) ? LOST : OK;
}

R fake_refuse(void) {
    refusals++;
    return NOT_SUPPORTED;
}

int fake_instances(int gpu) {
    double n = 0;
    return fake_lists(settings.mig, gpu, &n) ? (int)n : 0;
}

D fake_device(int gpu, int instance) { return &devices[gpu][instance]; }

/* How many calls there were since the process began, and how many answers were NOT_SUPPORTED. */
API unsigned long fakenvml_calls(void) { return calls; }
API unsigned long fakenvml_refusals(void) { return refusals; }

/* Whoever starts it next reads the environment anew, whatever others of this process have left open, or hang in. */
API void fakenvml_forget(void) { references = 0; settings.command = NULL; }

API R nvmlInitWithFlags(u32 flags) {
    (void)flags;
    if (!references) read_settings();
    references++;
    starts++;
    obey(NULL);
    return OK;
}
API R nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API R nvmlInit(void) { return nvmlInitWithFlags(0); }
API R nvmlShutdown(void) {
    if (!references) return UNINITIALIZED;
    references--;
    return OK;
}
API const char *nvmlErrorString(R r) {
    switch (r) {
    case OK: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case TIMEOUT: return "Timeout";
    case LOST: return "GPU is lost";
    }
    return "Unknown Error";
}
API R nvmlSystemGetDriverVersion(char *b, u32 n) { snprintf(b, n, "550.54.15"); return OK; }
API R nvmlSystemGetNVMLVersion(char *b, u32 n) { snprintf(b, n, "12.550.54.15"); return OK; }
API R nvmlSystemGetCudaDriverVersion(int *v) { *v = 12040; return OK; }
API R nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12040; return OK; }
API R nvmlSystemGetProcessName(u32 pid, char *b, u32 n) { snprintf(b, n, "proc%u", pid); return OK; }

API R nvmlDeviceGetCount_v2(u32 *n) {
    R r = fake_enter(NULL);
    *n = settings.gpus;
    return r;
}
API R nvmlDeviceGetCount(u32 *n) { return nvmlDeviceGetCount_v2(n); }
API R nvmlDeviceGetHandleByIndex_v2(u32 i, D *d) {
    if (i >= (u32)settings.gpus) return INVALID;
    *d = fake_device(i, 0);
    return fake_enter(*d);
}
API R nvmlDeviceGetHandleByIndex(u32 i, D *d) { return nvmlDeviceGetHandleByIndex_v2(i, d); }
