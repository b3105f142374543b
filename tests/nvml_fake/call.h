/* What every call has in common: it is counted, rules of the state file may delay or refuse it, it is refused before
 * the initialisation and for a device that is lost, and its answer is looked up under its own name. One lock is held
 * from its begin to its end, except while it waits. */
#pragma once
#include <stdbool.h>

#include "nvml_types.h"
#include "tally.h"

struct nvmlDevice_st {
    int gpu, mig; /* mig -1: the GPU itself */
};

typedef struct {
    const char *name;
    const struct nvmlDevice_st *device; /* NULL: a call without a device */
    Tally *tally;
    nvmlReturn_t result;
} Call;

/* What a function remembers of its own name. */
typedef struct {
    const char *name;
    Tally *tally;
} Function;

typedef enum { BEFORE_INIT, ON_NODE, ON_DEVICE } Kind;

/* Begins a call of this thread. False: it is refused with call->result. Every call_begin needs its call_end. */
bool call_begin(Call *call, Function *function, Kind kind, nvmlDevice_t device);
void call_end(void);

/* For a call that finds its device by itself: counts it for the device; what the rules say of it there. */
nvmlReturn_t call_found(const struct nvmlDevice_st *device);

/* Lets the other threads in for a while, and reads the state file again. */
void call_wait(unsigned int microseconds);

/* The same until something comes into a folder that inotify watches, at most so long. */
void call_sleep(int folder, unsigned int milliseconds);

/* Spends the CPU time that `cost.<what>` or `cost.default` has in µs, with the lock held as a driver does, and counts it
 * under "driver µs". Nothing where the state file has no costs. */
void call_spend(const char *what, ...) __attribute__((format(printf, 1, 2)));

/* How often this function was called at this place by now, this call included. */
unsigned long long call_count(void);

/* The text that answers this call; NULL where the state file has none. */
const char *own_answer(void);

/* The same with selectors as for printf (".%u"). */
const char *answer(const char *selectors, ...) __attribute__((format(printf, 1, 2)));

/* The same for a key that is not the call's own name. */
const char *answer_of(const struct nvmlDevice_st *device, const char *key, ...) __attribute__((format(printf, 2, 3)));

/* Takes an answer apart: the numbers in it, or the error that it is, or NOT_SUPPORTED where there is none. Fewer words
 * than wanted are a fault of the profile and UNKNOWN. */
nvmlReturn_t numbers(const char *text, unsigned long long *found, int wanted);

/* How far the number that ends at `end` has moved by now: `648920~3000` swings by so much, `8123456789+648` grows by so
 * much a second. 0 for one that stands still. */
double moved(const char *end);

/* The same for a text that goes into a buffer of the caller. */
nvmlReturn_t text_into(const char *text, char *buffer, unsigned int length);

/* The error that an answer is: "!15"; SUCCESS if it is an answer. */
nvmlReturn_t refusal_in(const char *text);

/* The branch of the driver that this library was built as. */
extern const int nvml_level;

#define FAKE_CALL(function, kind, on, parameters, arguments)                                       \
    static nvmlReturn_t answer_##function parameters;                                              \
    nvmlReturn_t function parameters {                                                             \
        static Function self = {#function, 0};                                                     \
        Call call;                                                                                 \
        if (call_begin(&call, &self, kind, on)) call.result = answer_##function arguments;         \
        call_end();                                                                                \
        return call.result;                                                                        \
    }                                                                                              \
    static nvmlReturn_t answer_##function parameters

/* A call on `device`, one without, and one that is allowed before the initialisation; the answer's body follows. */
#define DEVICE_CALL(function, parameters, arguments) FAKE_CALL(function, ON_DEVICE, device, parameters, arguments)
#define NODE_CALL(function, parameters, arguments) FAKE_CALL(function, ON_NODE, 0, parameters, arguments)
#define EARLY_CALL(function, parameters, arguments) FAKE_CALL(function, BEFORE_INIT, 0, parameters, arguments)
