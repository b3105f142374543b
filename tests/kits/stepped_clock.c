/*
 * A wall clock that tests can set: preloaded into a process, it adds the nanoseconds in the file named by
 * TELEMETRY_TEST_CLOCK to CLOCK_REALTIME. The monotonic clock is unchanged, as when a real clock is set.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define SLICE (20LL * 1000000LL)

static const volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("TELEMETRY_TEST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *page = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (page != MAP_FAILED)
        offset = page;
}

static int real_clock(clockid_t clock, struct timespec *at)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, at);
}

static int64_t nanoseconds(const struct timespec *at)
{
    return (int64_t)at->tv_sec * SECOND + at->tv_nsec;
}

static struct timespec timespec_of(int64_t at)
{
    struct timespec result = {at / SECOND, at % SECOND};
    return result;
}

static int64_t wall_now(void)
{
    struct timespec now;
    real_clock(CLOCK_REALTIME, &now);
    return nanoseconds(&now) + (offset ? *offset : 0);
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int result = real_clock(clock, at);
    if (result == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *at = timespec_of(nanoseconds(at) + *offset);
    return result;
}

int gettimeofday(struct timeval *at, void *zone)
{
    int64_t now = wall_now();
    (void)zone;
    at->tv_sec = now / SECOND;
    at->tv_usec = now % SECOND / 1000;
    return 0;
}

time_t time(time_t *at)
{
    time_t now = wall_now() / SECOND;
    if (at)
        *at = now;
    return now;
}

/* Locks of Python before 3.11 wait for a time of day, so setting the clock prolongs or ends the wait. */
int sem_timedwait(sem_t *semaphore, const struct timespec *deadline)
{
    static int (*real)(sem_t *, const struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "sem_timedwait");
    for (;;) {
        struct timespec now;
        int64_t left = nanoseconds(deadline) - wall_now();
        real_clock(CLOCK_REALTIME, &now);
        struct timespec until = timespec_of(nanoseconds(&now) + (left < 0 ? 0 : left < SLICE ? left : SLICE));
        if (real(semaphore, &until) == 0)
            return 0;
        if (errno != ETIMEDOUT || left <= SLICE)
            return -1;
    }
}
