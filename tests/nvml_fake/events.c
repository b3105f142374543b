/* Event sets: `event.N=<gpu> <type> <data> <gpu instance> <compute instance>`, N counts up from 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "call.h"
#include "clock.h"
#include "devices.h"
#include "rules.h"
#include "state.h"

typedef unsigned int uint;
typedef unsigned long long ulonglong;

/* The recorded event types of a GPU, and the first event; events before the registration are lost. */
typedef struct {
    ulonglong types, after;
} Registration;

struct nvmlEventSet_st {
    Registration gpus[FAKE_GPUS];
    ulonglong delivered;
    /* inotify's descriptor of the folder with the state file: changes wake waiting calls. */
    int folder;
    struct nvmlEventSet_st *next;
};

static nvmlEventSet_t sets;

static nvmlEventSet_t *place_of(nvmlEventSet_t wanted) {
    nvmlEventSet_t *place = &sets;
    while (*place && *place != wanted) place = &(*place)->next;
    return place;
}

static bool is_set(nvmlEventSet_t wanted) { return wanted && *place_of(wanted); }

static int watched_folder(void) {
    char path[FAKE_PATH_MAX];
    int folder = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (folder >= 0 && state_path("", path) && inotify_add_watch(folder, path, IN_MOVED_TO) >= 0) return folder;
    if (folder >= 0) close(folder);
    return -1;
}

NODE_CALL(nvmlEventSetCreate, (nvmlEventSet_t *set), (set)) {
    if (!set) return NVML_ERROR_INVALID_ARGUMENT;
    int folder = watched_folder();
    nvmlEventSet_t new = folder < 0 ? NULL : calloc(1, sizeof *new);
    if (!new) return NVML_ERROR_UNKNOWN;
    new->folder = folder;
    new->next = sets;
    *set = sets = new;
    return NVML_SUCCESS;
}

NODE_CALL(nvmlEventSetFree, (nvmlEventSet_t set), (set)) {
    if (!is_set(set)) return NVML_ERROR_INVALID_ARGUMENT;
    *place_of(set) = set->next;
    close(set->folder);
    free(set);
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceRegisterEvents, (nvmlDevice_t device, ulonglong types, nvmlEventSet_t set),
            (device, types, set)) {
    ulonglong supported;
    if (!is_set(set) || device->mig >= 0) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = numbers(answer_of(device, "nvmlDeviceGetSupportedEventTypes"), &supported, 1);
    if (result != NVML_SUCCESS) return result;
    if (types & ~supported) return NVML_ERROR_NOT_SUPPORTED;
    Registration *registration = &set->gpus[device->gpu];
    if (!registration->types) registration->after = state_number("node.events");
    registration->types |= types;
    return NVML_SUCCESS;
}

static uint instance_of(const char *word) { return *word == '-' ? ~0u : (uint)strtoul(word, NULL, 10); }

/* Whether the set gets the event of this number. */
static bool is_for(nvmlEventSet_t set, ulonglong number, nvmlEventData_t *data) {
    char key[FAKE_KEY_MAX], gpu_instance[16], compute_instance[16];
    uint gpu;
    snprintf(key, sizeof key, "event.%08llu", number);
    const char *text = state_get(key);
    if (!text) return false;
    int words = sscanf(text, "%u %llu %llu %15s %15s", &gpu, &data->eventType, &data->eventData, gpu_instance,
                       compute_instance);
    if (words != 5 || gpu >= FAKE_GPUS) return false;
    if (number <= set->gpus[gpu].after || !(set->gpus[gpu].types & data->eventType)) return false;
    data->device = devices_handle((int)gpu, -1);
    data->gpuInstanceId = instance_of(gpu_instance);
    data->computeInstanceId = instance_of(compute_instance);
    return true;
}

static bool deliver(nvmlEventSet_t set, nvmlEventData_t *data) {
    ulonglong last = state_number("node.events");
    while (set->delivered < last)
        if (is_for(set, ++set->delivered, data)) return true;
    return false;
}

static bool lost_one(nvmlEventSet_t set) {
    for (int gpu = 0; gpu < FAKE_GPUS; gpu++)
        if (set->gpus[gpu].types && rules_lost(devices_handle(gpu, -1))) return true;
    return false;
}

/* Sleeps until an event or the timeout, like a driver. With a lost GPU in the set it returns at once every time, so
 * callers that do not pause themselves spin. */
NODE_CALL(nvmlEventSetWait_v2, (nvmlEventSet_t set, nvmlEventData_t *data, uint milliseconds),
          (set, data, milliseconds)) {
    if (!is_set(set) || !data) return NVML_ERROR_INVALID_ARGUMENT;
    ulonglong end = clock_monotonic_us() + (ulonglong)milliseconds * 1000;
    while (is_set(set)) {
        if (deliver(set, data)) return NVML_SUCCESS;
        if (lost_one(set)) return NVML_ERROR_GPU_IS_LOST;
        ulonglong now = clock_monotonic_us();
        if (now >= end) return NVML_ERROR_TIMEOUT;
        call_sleep(set->folder, (uint)((end - now + 999) / 1000));
    }
    return NVML_ERROR_UNKNOWN;
}
