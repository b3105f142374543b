/* What the state file says goes wrong: `fault.N=<call or *> <place> <code> <first> <last>` refuses calls,
 * `delay.N=<call or *> <place> <microseconds> <first> <last>` makes them late. A rule holds for the calls after the
 * `first` that were counted for its call and place, until the `last` of them (0: for ever). */
#pragma once
#include <stdbool.h>

#include "call.h"

/* How often something was called by now. */
typedef struct {
    unsigned long long calls[2][4]; /* any function, this one; everywhere, at the node, on the GPU, on the MIG device */
} Moment;

Moment rules_moment(const Tally *all, const Tally *own, const struct nvmlDevice_st *device);

/* How long the call is to take, in microseconds. */
unsigned long long rules_delay(const char *name, const struct nvmlDevice_st *device, const Moment *moment);

/* Whether the call is refused, and with what. */
bool rules_refuse(const char *name, const struct nvmlDevice_st *device, const Moment *moment, nvmlReturn_t *result);

/* Whether the device is off the bus: every call on it would get GPU_IS_LOST. */
bool rules_lost(const struct nvmlDevice_st *device);
