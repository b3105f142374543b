/* Faults of the state file: `fault.N=<call or *> <device> <code> <first> <last>` refuses calls,
 * `delay.N=<call or *> <device> <microseconds> <first> <last>` delays them. A rule applies to the calls after the
 * `first` that was counted for its call and device, until the `last` (0: for ever). */
#pragma once
#include <stdbool.h>

#include "call.h"

/* The number of calls so far. */
typedef struct {
    unsigned long long calls[2][4]; /* any function, this one; everywhere, at the node, on the GPU, on the MIG device */
} Moment;

Moment rules_moment(const Tally *all, const Tally *own, const struct nvmlDevice_st *device);

/* The delay of the call in microseconds. */
unsigned long long rules_delay(const char *name, const struct nvmlDevice_st *device, const Moment *moment);

/* Whether the call is refused, and the error. */
bool rules_refuse(const char *name, const struct nvmlDevice_st *device, const Moment *moment, nvmlReturn_t *result);

/* Whether the device is off the bus: every call on it would get GPU_IS_LOST. */
bool rules_lost(const struct nvmlDevice_st *device);
