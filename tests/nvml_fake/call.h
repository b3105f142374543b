/* Common to all calls: they are counted, rules of the state file may delay or refuse them, they are refused before
 * the initialisation and for a lost device, and their answer is looked up by name. A lock is held from begin to end
 * of a call, except while it waits. */
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

/* The cached counter row of a function. */
typedef struct {
    const char *name;
    Tally *tally;
} Function;

typedef enum { BEFORE_INIT, ON_NODE, ON_DEVICE } Kind;

/* Begins a call of this thread. Returns false if it is refused with call->result. Each call_begin needs a call_end. */
bool call_begin(Call *call, Function *function, Kind kind, nvmlDevice_t device);
void call_end(void);

/* For a call that finds its device itself: counts it for the device, and returns the result of the device's rules. */
nvmlReturn_t call_found(const struct nvmlDevice_st *device);

/* Releases the lock for a while, then reads the state file again. */
void call_wait(unsigned int microseconds);

/* The same until a watched folder of inotify changes, but no longer than this time. */
void call_sleep(int folder, unsigned int milliseconds);

/* Uses the CPU time of `cost.<what>` or `cost.default` in µs, with the lock held like a driver, and counts it under
 * "driver µs". Does nothing if the state file has no costs. */
void call_spend(const char *what, ...) __attribute__((format(printf, 1, 2)));

/* How often this function was called for this device, including this call. */
unsigned long long call_count(void);

/* The answer to this call; NULL if the state file has none. */
const char *own_answer(void);

/* The same with selectors as for printf (".%u"). */
const char *answer(const char *selectors, ...) __attribute__((format(printf, 1, 2)));

/* The same for a key that is not the call's own name. */
const char *answer_of(const struct nvmlDevice_st *device, const char *key, ...) __attribute__((format(printf, 2, 3)));

/* Parses an answer: its numbers, its error, or NOT_SUPPORTED if there is no answer. Too few words are a mistake of the
 * profile and UNKNOWN. */
nvmlReturn_t numbers(const char *text, unsigned long long *found, int wanted);

/* The current change of the number that ends at `end`: `648920~3000` varies by 3000, `8123456789+648` grows by 648 per
 * second. 0 for a constant number. */
double moved(const char *end);

/* The same for a text that is copied into the caller's buffer. */
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

/* A call on `device`, a call without, and a call that is allowed before the initialisation; the body follows. */
#define DEVICE_CALL(function, parameters, arguments) FAKE_CALL(function, ON_DEVICE, device, parameters, arguments)
#define NODE_CALL(function, parameters, arguments) FAKE_CALL(function, ON_NODE, 0, parameters, arguments)
#define EARLY_CALL(function, parameters, arguments) FAKE_CALL(function, BEFORE_INIT, 0, parameters, arguments)
