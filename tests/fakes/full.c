/* A disk that is full, for the process that this is preloaded into: while the file $FULL_FILE is there, recordings in
   $FULL_DIR (run.sql..., and files without names) can't grow (it holds "grow"), or can't be written at all ("write"). Its second word is the error number, its third how many
   such calls still succeed. What a file gives back by being truncated can be written again. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static long calls, room;

static int below(int fd) {
    const char *folder = getenv("FULL_DIR");
    char link[64], path[PATH_MAX];
    if (!folder) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    if (strncmp(path, folder, strlen(folder)) || path[strlen(folder)] != '/') return 0;
    const char *name = path + strlen(folder) + 1;
    return *name == '#' || !strncmp(name, "run.sql", 7);
}

/* The error of a call that would make the file `end` bytes long (-1: it doesn't write), 0 when it succeeds. */
static int full(int fd, off_t end) {
    const char *name = getenv("FULL_FILE");
    char how[16] = "";
    int error = ENOSPC;
    long after = 0;
    struct stat status;
    if (!name) return 0;
    FILE *file = fopen(name, "re");
    if (!file) return 0;
    int n = fscanf(file, "%15s %d %ld", how, &error, &after);
    fclose(file);
    if (n < 1 || !below(fd) || fstat(fd, &status) || !S_ISREG(status.st_mode)) return 0;
    if (__sync_fetch_and_add(&calls, 1) < after) return 0;
    if (!strcmp(how, "write")) return error;
    off_t more = end - status.st_size;
    if (more <= 0) return 0;
    if (room >= more) { room -= more; return 0; }
    return error;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static ssize_t at(int fd, const void *data, size_t n, off_t offset, ssize_t (*real)(int, const void *, size_t, off_t)) {
    int error = full(fd, offset + (off_t)n);
    if (error) { errno = error; return -1; }
    return real(fd, data, n, offset);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t offset) { return at(fd, data, n, offset, REAL(pwrite)); }
ssize_t pwrite64(int fd, const void *data, size_t n, off_t offset) { return at(fd, data, n, offset, REAL(pwrite64)); }

ssize_t write(int fd, const void *data, size_t n) {
    off_t offset = lseek(fd, 0, SEEK_CUR);
    int error = offset < 0 ? 0 : full(fd, offset + (off_t)n);
    if (error) { errno = error; return -1; }
    return REAL(write)(fd, data, n);
}

static int cut(int fd, off_t length, int (*real)(int, off_t)) {
    struct stat status;
    int error = full(fd, length);
    if (error) { errno = error; return -1; }
    if (below(fd) && !fstat(fd, &status) && status.st_size > length) room += status.st_size - length;
    return real(fd, length);
}

int ftruncate(int fd, off_t length) { return cut(fd, length, REAL(ftruncate)); }
int ftruncate64(int fd, off_t length) { return cut(fd, length, REAL(ftruncate64)); }

int posix_fallocate(int fd, off_t offset, off_t length) {
    int error = full(fd, offset + length);
    return error ? error : REAL(posix_fallocate)(fd, offset, length);
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
    int error = full(fd, offset + length);
    return error ? error : REAL(posix_fallocate64)(fd, offset, length);
}
