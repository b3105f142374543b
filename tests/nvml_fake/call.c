#define _GNU_SOURCE
#include "call.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "devices.h"
#include "lifecycle.h"
#include "rules.h"
#include "state.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread Call *current;

static int slot_of(const struct nvmlDevice_st *device) {
    return device ? tally_slot(device->gpu, device->mig) : TALLY_NODE;
}

/* Counts the call. Its rules apply to the counts at this time, however many calls follow while this call waits. */
static Moment count(const struct nvmlDevice_st *device) {
    static Tally *all;
    if (!all) all = tally_of("*");
    tally_add(all, slot_of(device), 1);
    tally_add(current->tally, slot_of(device), 1);
    return rules_moment(all, current->tally, device);
}

/* The rule is checked repeatedly, so that a hanging call continues when its rule is removed. */
static void delay(const struct nvmlDevice_st *device, const Moment *moment) {
    enum { SLICE = 10000 };
    unsigned long long begin = clock_monotonic_us();
    for (;;) {
        unsigned long long wanted = rules_delay(current->name, device, moment);
        unsigned long long waited = clock_monotonic_us() - begin;
        if (waited >= wanted) return;
        call_wait(wanted - waited < SLICE ? (unsigned int)(wanted - waited) : SLICE);
    }
}

static bool refused(const struct nvmlDevice_st *device, nvmlReturn_t *result) {
    Moment moment = count(device);
    delay(device, &moment);
    return rules_refuse(current->name, device, &moment, result);
}

bool call_begin(Call *call, Function *function, Kind kind, nvmlDevice_t device) {
    pthread_mutex_lock(&lock);
    state_refresh();
    if (!function->tally) function->tally = tally_of(function->name);
    *call = (Call){function->name, devices_known(device) ? device : NULL, function->tally, NVML_SUCCESS};
    current = call;
    if (refused(call->device, &call->result)) return false;
    if (kind != BEFORE_INIT && !lifecycle_initialised()) call->result = NVML_ERROR_UNINITIALIZED;
    else if (kind == ON_DEVICE) call->result = devices_presence(call->device);
    if (call->result == NVML_SUCCESS && kind != BEFORE_INIT) call_spend("%s", call->name);
    return call->result == NVML_SUCCESS;
}

void call_end(void) {
    current = NULL;
    pthread_mutex_unlock(&lock);
}

nvmlReturn_t call_found(const struct nvmlDevice_st *device) {
    nvmlReturn_t result = NVML_SUCCESS;
    return refused(device, &result) ? result : NVML_SUCCESS;
}

void call_wait(unsigned int microseconds) {
    pthread_mutex_unlock(&lock);
    usleep(microseconds);
    pthread_mutex_lock(&lock);
    state_refresh();
}

void call_sleep(int folder, unsigned int milliseconds) {
    char names[4096];
    struct pollfd changes = {.fd = folder, .events = POLLIN};
    pthread_mutex_unlock(&lock);
    poll(&changes, 1, (int)milliseconds);
    while (read(folder, names, sizeof names) > 0) continue;
    pthread_mutex_lock(&lock);
    state_refresh();
}

void call_spend(const char *what, ...) {
    static Tally *spent;
    char key[FAKE_KEY_MAX] = "cost.";
    if (!state_get("cost.default")) return;
    va_list arguments;
    va_start(arguments, what);
    vsnprintf(key + strlen(key), sizeof key - strlen(key), what, arguments);
    va_end(arguments);
    unsigned long long cost = state_number(state_get(key) ? key : "cost.default");
    for (unsigned long long begin = clock_cpu_us(); clock_cpu_us() - begin < cost;) continue;
    if (!spent) spent = tally_of("driver µs");
    tally_add(spent, slot_of(current->device), cost);
}

unsigned long long call_count(void) { return tally_count(current->tally, slot_of(current->device)); }

static int place_into(char *key, const struct nvmlDevice_st *device) {
    if (!device) return snprintf(key, FAKE_KEY_MAX, "node.");
    if (device->mig < 0) return snprintf(key, FAKE_KEY_MAX, "gpu.%d.", device->gpu);
    return snprintf(key, FAKE_KEY_MAX, "mig.%d.%d.", device->gpu, device->mig);
}

const char *own_answer(void) { return answer_of(current->device, "%s", current->name); }

const char *answer(const char *selectors, ...) {
    char key[FAKE_KEY_MAX];
    int length = place_into(key, current->device);
    length += snprintf(key + length, (size_t)(FAKE_KEY_MAX - length), "%s", current->name);
    va_list arguments;
    va_start(arguments, selectors);
    vsnprintf(key + length, (size_t)(FAKE_KEY_MAX - length), selectors, arguments);
    va_end(arguments);
    return state_get(key);
}

const char *answer_of(const struct nvmlDevice_st *device, const char *format, ...) {
    char key[FAKE_KEY_MAX];
    int length = place_into(key, device);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key + length, (size_t)(FAKE_KEY_MAX - length), format, arguments);
    va_end(arguments);
    return state_get(key);
}

nvmlReturn_t refusal_in(const char *text) {
    if (!text) return NVML_ERROR_NOT_SUPPORTED;
    return *text == '!' ? (nvmlReturn_t)strtoul(text + 1, NULL, 10) : NVML_SUCCESS;
}

/* A number between -1 and 1 that differs for each tenth of a second and each GPU. */
static double swing(unsigned long long now_us) {
    enum { STEP_US = 100000, STEPS = 171, PHASE = 37 };
    int gpu = current->device ? current->device->gpu : 0;
    int step = (int)((now_us / STEP_US + (unsigned long long)(gpu * PHASE)) % STEPS);
    return 1.0 - 4.0 * abs(step - STEPS / 2) / STEPS;
}

double moved(const char *end) {
    unsigned long long now = clock_monotonic_us();
    if (*end == '~') return strtod(end + 1, NULL) * swing(now);
    return *end == '+' ? strtod(end + 1, NULL) * (double)now / 1e6 : 0.0;
}

nvmlReturn_t numbers(const char *text, unsigned long long *found, int wanted) {
    nvmlReturn_t refusal = refusal_in(text);
    for (int index = 0; refusal == NVML_SUCCESS && index < wanted; index++) {
        char *end;
        found[index] = strtoull(text, &end, 10);
        if (end == text) return NVML_ERROR_UNKNOWN;
        found[index] += (unsigned long long)(long long)moved(end);
        text = end + strcspn(end, " ");
    }
    return refusal;
}

nvmlReturn_t text_into(const char *text, char *buffer, unsigned int length) {
    nvmlReturn_t refusal = refusal_in(text);
    if (refusal != NVML_SUCCESS) return refusal;
    if (!buffer) return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}
