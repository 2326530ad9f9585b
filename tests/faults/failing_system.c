/* A system that fails on request, loaded ahead of libc: calls to files and large allocations, from `arm` to `disarm`.

   It changes nothing until it is armed, and nothing for allocations below `LARGE`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/vfs.h>

enum { NOTHING, INTERRUPT, SHORTEN, REFUSE, END, COPY_REFUSE, COPY_NOTHING, COPY_SHORTEN, COPY_THEN_REFUSE, ALLOCATE };
enum { LARGE = 64 << 10 };

static atomic_int mode, number, error;
static atomic_long calls;

void arm(int what, int which, int errno_of_it) {
    atomic_store(&calls, 0);
    atomic_store(&number, which);
    atomic_store(&error, errno_of_it);
    atomic_store(&mode, what);
}

/* How many calls of the kind there were. */
long disarm(void) {
    atomic_store(&mode, NOTHING);
    return atomic_load(&calls);
}

static void *next(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

/* -1: the call fails, with errno set. 0: it ends. Else so many bytes are asked for. */
static ssize_t asked(size_t nbytes) {
    long call = atomic_fetch_add(&calls, 1) + 1;
    switch (atomic_load(&mode)) {
    case INTERRUPT:
        if (call % 3 != 0) {
            errno = EINTR;
            return -1;
        }
        return nbytes;
    case SHORTEN:
        return nbytes > 7 ? (ssize_t)(nbytes / 3 + call % 5) : (ssize_t)nbytes;
    case REFUSE:
        if (call == atomic_load(&number)) {
            errno = atomic_load(&error);
            return -1;
        }
        return nbytes;
    case END:
        return call >= atomic_load(&number) ? 0 : (ssize_t)nbytes;
    default:
        return nbytes;
    }
}

ssize_t pread64(int file, void *into, size_t nbytes, off64_t offset) {
    ssize_t count = asked(nbytes);
    ssize_t (*real)(int, void *, size_t, off64_t) = next("pread64");
    return count <= 0 && nbytes > 0 ? count : real(file, into, count, offset);
}

ssize_t pwrite64(int file, const void *from, size_t nbytes, off64_t offset) {
    ssize_t count = asked(nbytes);
    ssize_t (*real)(int, const void *, size_t, off64_t) = next("pwrite64");
    return count <= 0 && nbytes > 0 ? count : real(file, from, count, offset);
}

/* What file system it is stays unknown where copies are to fail: the kernel then asks the system for them. */
int fstatfs(int file, struct statfs *found) {
    int (*real)(int, struct statfs *) = next("fstatfs");
    int what = atomic_load(&mode);
    if (what == INTERRUPT || (what >= COPY_REFUSE && what <= COPY_THEN_REFUSE)) {
        errno = ENOSYS;
        return -1;
    }
    return real(file, found);
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t nbytes, unsigned flags) {
    ssize_t (*real)(int, off64_t *, int, off64_t *, size_t, unsigned) = next("copy_file_range");
    long call = atomic_fetch_add(&calls, 1) + 1;
    switch (atomic_load(&mode)) {
    case INTERRUPT:
        if (call % 3 != 0) {
            errno = EINTR;
            return -1;
        }
        break;
    case COPY_REFUSE:
        errno = atomic_load(&error);
        return -1;
    case COPY_NOTHING:
        return 0;
    case COPY_THEN_REFUSE:
        if (call > 1) {
            errno = atomic_load(&error);
            return -1;
        }
        nbytes = nbytes > 1001 ? 1001 : nbytes;
        break;
    case COPY_SHORTEN:
        nbytes = nbytes > 1001 ? 1001 : nbytes;
        break;
    default:
        break;
    }
    return real(in, from, out, to, nbytes, flags);
}

/* Whether this allocation is the one that fails. */
static int is_refused(size_t nbytes) {
    if (nbytes < LARGE || atomic_load(&mode) != ALLOCATE)
        return 0;
    if (atomic_fetch_add(&calls, 1) + 1 != atomic_load(&number))
        return 0;
    errno = ENOMEM;
    return 1;
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

void *malloc(size_t nbytes) {
    return is_refused(nbytes) ? NULL : __libc_malloc(nbytes);
}

void *calloc(size_t count, size_t nbytes) {
    return is_refused(count * nbytes) ? NULL : __libc_calloc(count, nbytes);
}

void *realloc(void *old, size_t nbytes) {
    return is_refused(nbytes) ? NULL : __libc_realloc(old, nbytes);
}
