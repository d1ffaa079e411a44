/* Preloaded into a writer: traces what it writes and syncs, and makes chosen syncs fail.
 *
 *   SHIM_TRACE  file that gets a record per watched call, appended
 *   SHIM_WATCH  part of the paths whose writes (with their bytes) and syncs are traced; standard output always is
 *   SHIM_ACKS   part of the path of a file that is traced like standard output
 *   SHIM_FAIL   "<part of a path> <first> <count>": that sync of such a path and the count - 1 after it give EIO
 *               without syncing; count 0 means all from then on
 *   SHIM_LOSE   set: what a failed sync was to cover reads as zeros afterwards, as when the kernel drops the pages
 *
 * Every record has two numbers of one counter, taken before and after the call, so that the order of calls in different
 * threads can be told: a call happened before another if it ended before the other began. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <fcntl.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, ACK = 3 };

struct record {
    uint64_t begun, ended;
    int64_t position, result;
    uint32_t kind, path_bytes;
    uint64_t payload_bytes;
};

#define FILES 512
struct unsynced { dev_t device; ino_t inode; int64_t low, high; };

static atomic_ullong counter;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static const char *watch, *acks;
static char fail_part[256];
static long fail_first, fail_count, fail_seen;
static int loses;
static struct unsynced table[FILES];
static int tracked;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("SHIM_TRACE"), *fail = getenv("SHIM_FAIL");
    watch = getenv("SHIM_WATCH");
    acks = getenv("SHIM_ACKS");
    loses = getenv("SHIM_LOSE") != NULL;
    if (path) trace = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fail && sscanf(fail, "%255s %ld %ld", fail_part, &fail_first, &fail_count) != 3) {
        fprintf(stderr, "shim: cannot read SHIM_FAIL=%s\n", fail);
        abort();
    }
}

static uint64_t tick(void) { return atomic_fetch_add(&counter, 1); }

static const char *path_of(int fd, char *into) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, into, PATH_MAX - 1);
    into[size < 0 ? 0 : size] = 0;
    return into;
}

static int kind_of_write(int fd, const char *path) {
    if (fd == 1 || (acks && strstr(path, acks))) return ACK;
    return watch && strstr(path, watch) ? WRITE : 0;
}

static void put(int kind, const char *path, uint64_t begun, int64_t position, int64_t result, const struct iovec *data,
                int count) {
    if (trace < 0 || !kind) return;
    struct record record = {begun, tick(), position, result, kind, strlen(path), 0};
    struct iovec *all = malloc(sizeof *all * (count + 2));
    for (int i = 0; i < count; i++) record.payload_bytes += (all[i + 2] = data[i]).iov_len;
    all[0] = (struct iovec){&record, sizeof record};
    all[1] = (struct iovec){(void *)path, record.path_bytes};
    size_t want = sizeof record + record.path_bytes + record.payload_bytes;
    int head = count + 2 > IOV_MAX ? IOV_MAX : count + 2;
    pthread_mutex_lock(&lock);
    size_t done = syscall(SYS_writev, trace, all, head);
    if (head < count + 2) done += syscall(SYS_writev, trace, all + head, count + 2 - head);
    pthread_mutex_unlock(&lock);
    free(all);
    if (done != want) {
        fprintf(stderr, "shim: the trace could not be written\n");
        abort();
    }
}

static struct unsynced *entry_of(int fd) {
    struct stat found;
    if (fstat(fd, &found)) return NULL;
    for (int i = 0; i < tracked; i++)
        if (table[i].device == found.st_dev && table[i].inode == found.st_ino) return &table[i];
    if (tracked == FILES) {
        fprintf(stderr, "shim: more than %d files\n", FILES);
        abort();
    }
    table[tracked] = (struct unsynced){found.st_dev, found.st_ino, INT64_MAX, 0};
    return &table[tracked++];
}

static void remember(int fd, const char *path, int64_t position, int64_t size) {
    if (!loses || size <= 0 || position < 0 || !fail_part[0] || !strstr(path, fail_part)) return;
    pthread_mutex_lock(&lock);
    struct unsynced *entry = entry_of(fd);
    if (entry && position < entry->low) entry->low = position;
    if (entry && position + size > entry->high) entry->high = position + size;
    pthread_mutex_unlock(&lock);
}

static int must_fail(const char *path) {
    if (!fail_part[0] || !strstr(path, fail_part)) return 0;
    pthread_mutex_lock(&lock);
    long number = ++fail_seen;
    pthread_mutex_unlock(&lock);
    return number >= fail_first && (fail_count == 0 || number < fail_first + fail_count);
}

static void settle(int fd, const char *path, int lost) {
    static const char zeros[1 << 16];
    if (!loses || !fail_part[0] || !strstr(path, fail_part)) return;
    pthread_mutex_lock(&lock);
    struct unsynced *entry = entry_of(fd);
    int64_t low = entry ? entry->low : 0, high = entry ? entry->high : 0;
    if (entry) *entry = (struct unsynced){entry->device, entry->inode, INT64_MAX, 0};
    pthread_mutex_unlock(&lock);
    for (; lost && low < high; low += sizeof zeros) {
        size_t size = high - low < (int64_t)sizeof zeros ? (size_t)(high - low) : sizeof zeros;
        syscall(SYS_pwrite64, fd, zeros, size, low);
    }
}

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define TRACED(call, at, data, count) \
    char name[PATH_MAX]; \
    path_of(fd, name); \
    int kind = kind_of_write(fd, name); \
    uint64_t begun = tick(); \
    ssize_t result = call; \
    int error = errno; \
    put(kind, name, begun, at, result, data, count); \
    remember(fd, name, at, result); \
    errno = error; \
    return result

ssize_t write(int fd, const void *buffer, size_t size) {
    REAL(write);
    struct iovec data = {(void *)buffer, size};
    TRACED(real(fd, buffer, size), -1, &data, 1);
}

ssize_t writev(int fd, const struct iovec *data, int count) {
    REAL(writev);
    TRACED(real(fd, data, count), -1, data, count);
}

ssize_t pwrite64(int fd, const void *buffer, size_t size, off64_t at) {
    REAL(pwrite64);
    struct iovec data = {(void *)buffer, size};
    TRACED(real(fd, buffer, size, at), at, &data, 1);
}

ssize_t pwrite(int fd, const void *buffer, size_t size, off_t at) { return pwrite64(fd, buffer, size, at); }

ssize_t pwritev64(int fd, const struct iovec *data, int count, off64_t at) {
    REAL(pwritev64);
    TRACED(real(fd, data, count, at), at, data, count);
}

ssize_t pwritev(int fd, const struct iovec *data, int count, off_t at) { return pwritev64(fd, data, count, at); }

ssize_t pwritev64v2(int fd, const struct iovec *data, int count, off64_t at, int flags) {
    REAL(pwritev64v2);
    TRACED(real(fd, data, count, at, flags), at, data, count);
}

ssize_t pwritev2(int fd, const struct iovec *data, int count, off_t at, int flags) {
    return pwritev64v2(fd, data, count, at, flags);
}

static int synced(int fd, int (*real)(int)) {
    char name[PATH_MAX];
    path_of(fd, name);
    uint64_t begun = tick();
    int fails = must_fail(name), result = -1, error = EIO;
    if (!fails) {
        result = real(fd);
        error = errno;
    }
    settle(fd, name, fails);
    put(watch && strstr(name, watch) ? SYNC : 0, name, begun, -1, result, NULL, 0);
    errno = error;
    return result;
}

int fsync(int fd) {
    REAL(fsync);
    return synced(fd, real);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return synced(fd, real);
}
