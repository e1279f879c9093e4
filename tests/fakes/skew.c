/* A clock that is wrong, preloaded, for one process and its children:
 *   SKEW_SECONDS=3.5   the system's clock is that far ahead
 *   SKEW_FILE=FILE     double[2], which may change at any time: seconds the system's clock was set by (0), and seconds for
 *                      which the machine was suspended (1)
 *   SKEW_FAST=1        select(), and a sleep until a time of the monotonic clock, do not sleep: what they would have slept
 *                      is added to the second number, so that hours pass in the time that is needed to work through them */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static volatile double nothing[2], *moved;

static volatile double *moves(void) {
    if (!moved) {
        const char *path = getenv("SKEW_FILE");
        int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof nothing, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0) close(fd);
        moved = map == MAP_FAILED ? nothing : map;
    }
    return moved;
}

static double skew(void) {
    const char *text = getenv("SKEW_SECONDS");
    return text ? atof(text) : 0.0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(id, now);
    int of_system = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
    if (!failed && (of_system || id == CLOCK_BOOTTIME)) {
        double ahead = moves()[1] + (of_system ? moves()[0] + skew() : 0.0);
        long long ns = now->tv_sec * 1000000000LL + now->tv_nsec + (long long)(ahead * 1e9);
        now->tv_sec = ns / 1000000000LL;
        now->tv_nsec = ns % 1000000000LL;
    }
    return failed;
}

int select(int n, fd_set *readable, fd_set *writable, fd_set *broken, struct timeval *timeout) {
    static int (*real)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
    if (!real) real = (int (*)(int, fd_set *, fd_set *, fd_set *, struct timeval *))dlsym(RTLD_NEXT, "select");
    if (!timeout || !getenv("SKEW_FAST")) return real(n, readable, writable, broken, timeout);
    struct timeval none = {0, 0};
    int ready = real(n, readable, writable, broken, &none);
    if (ready == 0) moves()[1] += timeout->tv_sec + timeout->tv_usec / 1e6;
    return ready;
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *until, struct timespec *left) {
    static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
    if (!real) real = (int (*)(clockid_t, int, const struct timespec *, struct timespec *))dlsym(RTLD_NEXT, "clock_nanosleep");
    if (id != CLOCK_MONOTONIC || flags != TIMER_ABSTIME || !getenv("SKEW_FAST")) return real(id, flags, until, left);
    struct timespec now;
    clock_gettime(id, &now);
    double seconds = until->tv_sec - now.tv_sec + (until->tv_nsec - now.tv_nsec) / 1e9;
    if (seconds > 0) moves()[1] += seconds;
    return 0;
}
