/* Preloaded into a broker: counts the calls that change files under a folder, and at one of them kills the process,
 * lets half of a write through and then kills it, or answers with an error. Compiled by syscalls.py.
 *
 *   FAULTY_FOLDER  only files below it count
 *   FAULTY_CALLS   which calls count, e.g. "write,fdatasync"; empty for all
 *   FAULTY_AT      the number of the call, from 1; 0 only counts
 *   FAULTY_ACTION  kill, tear, short (half of a write goes through, and the caller is told), or the number of an errno
 *   FAULTY_STICKY  1: every such call from then on fails
 *   FAULTY_LOG     a file to which each counted call adds its name and path
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preloaded.h"

#define PASS 0
#define FAIL 1
#define TEAR 2
#define SHORT 3

static atomic_int counted;
static int log_file = -2;

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

static int is_listed(const char *call) {
    const char *list = setting("FAULTY_CALLS"), *found = list;
    size_t size = strlen(call);
    if (*list == 0) return 1;
    while ((found = strstr(found, call)) != NULL) {
        if ((found == list || found[-1] == ',') && (found[size] == 0 || found[size] == ',')) return 1;
        found += size;
    }
    return 0;
}

static void note(const char *call, const char *path) {
    char line[600];
    if (log_file == -2) {
        const char *name = setting("FAULTY_LOG");
        __typeof__(&open) real_open = REAL(open);
        log_file = *name ? real_open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    }
    if (log_file < 0) return;
    int size = snprintf(line, sizeof line, "%s %s\n", call, path);
    __typeof__(&write) real_write = REAL(write);
    if (real_write(log_file, line, (size_t)size) < 0) return;
}

static int verdict(const char *call, const char *path) {
    const char *folder = setting("FAULTY_FOLDER"), *action = setting("FAULTY_ACTION");
    int at = atoi(setting("FAULTY_AT"));
    if (*folder == 0 || strncmp(path, folder, strlen(folder)) != 0 || !is_listed(call)) return PASS;
    int number = atomic_fetch_add(&counted, 1) + 1;
    note(call, path);
    if (at == 0 || number < at || (number > at && strcmp(setting("FAULTY_STICKY"), "1") != 0)) return PASS;
    if (strcmp(action, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(action, "tear") == 0) return TEAR;
    if (strcmp(action, "short") == 0) return SHORT;
    errno = atoi(action);
    return FAIL;
}

static int verdict_of(const char *call, int file) {
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return PASS;
    path[size] = 0;
    return verdict(call, path);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

ssize_t write(int file, const void *data, size_t size) {
    __typeof__(&write) next = REAL(write);
    int what = verdict_of("write", file);
    if (what == FAIL) return -1;
    if (what == TEAR) {
        if (next(file, data, size / 2) >= 0) die();
        die();
    }
    return next(file, data, what == SHORT ? (size + 1) / 2 : size);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    __typeof__(&writev) next = REAL(writev);
    int what = verdict_of("writev", file);
    if (what == FAIL) return -1;
    if (what == TEAR) {
        if (next(file, parts, count / 2) >= 0) die();
        die();
    }
    return next(file, parts, count);
}

static ssize_t positioned(const char *name, int file, const void *data, size_t size, off64_t at) {
    ssize_t (*next)(int, const void *, size_t, off64_t) = real(name);
    int what = verdict_of("pwrite", file);
    if (what == FAIL) return -1;
    if (what == TEAR) {
        if (next(file, data, size / 2, at) >= 0) die();
        die();
    }
    return next(file, data, size, at);
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) { return positioned("pwrite", file, data, size, at); }

ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    return positioned("pwrite64", file, data, size, at);
}

#define ON_FILE(name)                                   \
    int name(int file) {                                \
        __typeof__(&name) next = REAL(name);            \
        int what = verdict_of(#name, file);             \
        if (what == TEAR) die();                        \
        return what == FAIL ? -1 : next(file);          \
    }

ON_FILE(fsync)
ON_FILE(fdatasync)

#define TRUNCATING(name, type)                          \
    int name(int file, type size) {                     \
        __typeof__(&name) next = REAL(name);            \
        int what = verdict_of("ftruncate", file);       \
        if (what == TEAR) die();                        \
        return what == FAIL ? -1 : next(file, size);    \
    }

TRUNCATING(ftruncate, off_t)
TRUNCATING(ftruncate64, off64_t)

int rename(const char *from, const char *to) {
    __typeof__(&rename) next = REAL(rename);
    int what = verdict("rename", to);
    if (what == TEAR) die();
    return what == FAIL ? -1 : next(from, to);
}

int unlink(const char *path) {
    __typeof__(&unlink) next = REAL(unlink);
    int what = verdict("unlink", path);
    if (what == TEAR) die();
    return what == FAIL ? -1 : next(path);
}

static int opened(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode) {
    if (flags & O_CREAT) {
        int what = verdict("open", path);
        if (what == TEAR) die();
        if (what == FAIL) return -1;
    }
    return next(path, flags, mode);
}
