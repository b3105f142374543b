/* Clocks, in microseconds: NVML's timestamps are since 1970; durations use the monotonic clock. */
#pragma once
#include <time.h>

static inline unsigned long long clock_read_us(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

static inline unsigned long long clock_now_us(void) { return clock_read_us(CLOCK_REALTIME); }

static inline unsigned long long clock_monotonic_us(void) { return clock_read_us(CLOCK_MONOTONIC); }

/* The CPU time of this thread. */
static inline unsigned long long clock_cpu_us(void) { return clock_read_us(CLOCK_THREAD_CPUTIME_ID); }
