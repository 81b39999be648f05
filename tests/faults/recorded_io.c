/* Preloaded into a broker: keeps every call that changes files under a folder, in the order in which they took effect,
 * with what was written. Compiled by power_cuts.py; recorded_disk.py reads what it wrote.
 *
 *   RECORDED_FOLDER  only files below it count
 *   RECORDED_TO      the file to which the calls are added
 *   RECORDED_END     once there is such a file, the process ends before its next call, as by kill -9
 *
 * A call: seconds of CLOCK_MONOTONIC just before it (double), kind(1), size of path(4), number(8), size of data(4),
 * path, data. Of a sync there are two, one when it begins and one when it is over: what is written in between is not
 * promised by it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "preloaded.h"

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static int trace = -2;

struct __attribute__((packed)) head {
    double seconds;
    char kind;
    uint32_t path_size;
    uint64_t number;
    uint32_t data_size;
};

static int is_below(const char *path) {
    const char *folder = getenv("RECORDED_FOLDER");
    size_t size = folder == NULL ? 0 : strlen(folder);
    return size > 0 && strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == 0);
}

/* Whether the file counts; its path as it is now. */
static int is_ours(int file, char *path, size_t room) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, room - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return is_below(path);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void keep(double seconds, char kind, const char *path, uint64_t number, const void *data, size_t size) {
    if (trace == -2) {
        const char *name = getenv("RECORDED_TO");
        int file = name == NULL ? -1 : REAL(open)(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        /* Out of the way of a process that is just opening its standard streams. */
        trace = file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 100);
        close(file);
    }
    struct head head = {seconds, kind, (uint32_t)strlen(path), number, (uint32_t)size};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, strlen(path)}, {(void *)data, size}};
    /* A trace with a hole would show what never was. */
    if (trace < 0 || REAL(writev)(trace, parts, 3) != (ssize_t)(sizeof head + strlen(path) + size)) abort();
}

/* From outside it could be killed between a call and its record. */
static void begin_call(void) {
    const char *end = getenv("RECORDED_END");
    pthread_mutex_lock(&one_at_a_time);
    if (end != NULL && access(end, F_OK) == 0) {
        kill(getpid(), SIGKILL);
        for (;;) pause();
    }
}

#define LOCKED(type, call)                        \
    begin_call();                                 \
    double begin = now();                         \
    type result = call

#define UNLOCKED                                  \
    pthread_mutex_unlock(&one_at_a_time);         \
    return result

ssize_t write(int file, const void *data, size_t size) {
    char path[512];
    if (!is_ours(file, path, sizeof path)) return REAL(write)(file, data, size);
    LOCKED(ssize_t, REAL(write)(file, data, size));
    if (result > 0)
        keep(begin, 'w', path, (uint64_t)(lseek(file, 0, SEEK_CUR) - result), data, (size_t)result);
    UNLOCKED;
}

#define PLACING(name, type)                                                     \
    ssize_t name(int file, const void *data, size_t size, type at) {            \
        char path[512];                                                         \
        if (!is_ours(file, path, sizeof path)) return REAL(name)(file, data, size, at); \
        LOCKED(ssize_t, REAL(name)(file, data, size, at));                      \
        if (result > 0) keep(begin, 'w', path, (uint64_t)at, data, (size_t)result); \
        UNLOCKED;                                                               \
    }

PLACING(pwrite, off_t)
PLACING(pwrite64, off64_t)

#define SYNCING(name)                                                           \
    int name(int file) {                                                        \
        char path[512];                                                         \
        if (!is_ours(file, path, sizeof path)) return REAL(name)(file);         \
        begin_call();                                                           \
        keep(now(), 'b', path, (uint64_t)file, "", 0);                          \
        pthread_mutex_unlock(&one_at_a_time);                                   \
        int result = REAL(name)(file);                                          \
        pthread_mutex_lock(&one_at_a_time);                                     \
        if (result == 0) keep(now(), 'e', path, (uint64_t)file, "", 0);         \
        UNLOCKED;                                                               \
    }

SYNCING(fsync)
SYNCING(fdatasync)

#define CUTTING(name, type)                                                     \
    int name(int file, type size) {                                             \
        char path[512];                                                         \
        if (!is_ours(file, path, sizeof path)) return REAL(name)(file, size);   \
        LOCKED(int, REAL(name)(file, size));                                    \
        if (result == 0) keep(begin, 't', path, (uint64_t)size, "", 0);         \
        UNLOCKED;                                                               \
    }

CUTTING(ftruncate, off_t)
CUTTING(ftruncate64, off64_t)

int rename(const char *from, const char *to) {
    if (!is_below(to)) return REAL(rename)(from, to);
    LOCKED(int, REAL(rename)(from, to));
    if (result == 0) keep(begin, 'r', to, 0, from, strlen(from));
    UNLOCKED;
}

int unlink(const char *path) {
    if (!is_below(path)) return REAL(unlink)(path);
    LOCKED(int, REAL(unlink)(path));
    if (result == 0) keep(begin, 'u', path, 0, "", 0);
    UNLOCKED;
}

int mkdir(const char *path, mode_t mode) {
    if (!is_below(path)) return REAL(mkdir)(path, mode);
    LOCKED(int, REAL(mkdir)(path, mode));
    if (result == 0) keep(begin, 'm', path, 0, "", 0);
    UNLOCKED;
}

static int opened(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    if (!(flags & (O_CREAT | O_TRUNC)) || !is_below(path)) return next(path, flags, mode);
    LOCKED(int, next(path, flags, mode));
    if (result >= 0) keep(begin, 'o', path, (flags & O_TRUNC) != 0, "", 0);
    UNLOCKED;
}
