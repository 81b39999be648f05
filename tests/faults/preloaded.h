/* What the libraries that are loaded into a broker have in common: the call that they stand before, and open(2), whose
 * last argument is there for some flags only. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/types.h>

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

#define REAL(name) ((__typeof__(&name))real(#name))

/* Each library's own. */
static int opened(int (*next)(const char *, int, ...), const char *path, int flags, mode_t mode);

#define OPENING(name)                                                           \
    int name(const char *path, int flags, ...) {                                \
        mode_t mode = 0;                                                        \
        if (flags & (O_CREAT | O_TMPFILE)) {                                    \
            va_list rest;                                                       \
            va_start(rest, flags);                                              \
            mode = va_arg(rest, mode_t);                                        \
            va_end(rest);                                                       \
        }                                                                       \
        return opened(REAL(name), path, flags, mode);                           \
    }

OPENING(open)
OPENING(open64)
