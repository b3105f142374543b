#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rules.h"
#include "state.h"

static struct nvmlDevice_st handles[FAKE_GPUS][FAKE_PLACES_OF_GPU];
static bool remembered[FAKE_GPUS][FAKE_MIGS];

nvmlDevice_t devices_handle(int gpu, int mig) {
    nvmlDevice_t handle = &handles[gpu][mig + 1];
    *handle = (struct nvmlDevice_st){gpu, mig};
    return handle;
}

bool devices_known(nvmlDevice_t device) {
    return device >= &handles[0][0] && device <= &handles[FAKE_GPUS - 1][FAKE_PLACES_OF_GPU - 1];
}

/* The numbers in a list of the state file; returns how many. */
static int listed(const char *key, int *found, int limit) {
    const char *text = state_get(key);
    int count = 0;
    for (char *end; text && count < limit; text = end) {
        long number = strtol(text, &end, 10);
        if (end == text) break;
        found[count++] = (int)number;
    }
    return count;
}

static int gpus_now(int gpus[FAKE_GPUS]) { return listed("node.gpus", gpus, FAKE_GPUS); }

static int migs_now(int gpu, int migs[FAKE_MIGS]) {
    char key[FAKE_KEY_MAX];
    snprintf(key, sizeof key, "node.migs.%d", gpu);
    return listed(key, migs, FAKE_MIGS);
}

static int position(const int *numbers, int count, int wanted) {
    for (int at = 0; at < count; at++)
        if (numbers[at] == wanted) return at;
    return -1;
}

static int index_of(int gpu) {
    int gpus[FAKE_GPUS];
    return position(gpus, gpus_now(gpus), gpu);
}

nvmlReturn_t devices_presence(const struct nvmlDevice_st *device) {
    int migs[FAKE_MIGS];
    if (!device) return NVML_ERROR_INVALID_ARGUMENT;
    if (index_of(device->gpu) < 0) return NVML_ERROR_GPU_IS_LOST;
    if (device->mig < 0) return NVML_SUCCESS;
    bool there = position(migs, migs_now(device->gpu, migs), device->mig) >= 0;
    return there ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

void devices_remember(void) {
    memset(remembered, 0, sizeof remembered);
    for (int gpu = 0; gpu < FAKE_GPUS; gpu++) {
        int migs[FAKE_MIGS];
        for (int at = migs_now(gpu, migs) - 1; at >= 0; at--) remembered[gpu][migs[at]] = true;
    }
}

/* Returns a handle, unless a rule for the device lets this call fail. */
static nvmlReturn_t give(int gpu, int mig, nvmlDevice_t *device) {
    nvmlDevice_t handle = devices_handle(gpu, mig);
    nvmlReturn_t result = call_found(handle);
    if (result == NVML_SUCCESS) *device = handle;
    return result;
}

NODE_CALL(nvmlDeviceGetCount_v2, (unsigned int *count), (count)) {
    int gpus[FAKE_GPUS];
    if (!count) return NVML_ERROR_INVALID_ARGUMENT;
    *count = (unsigned int)gpus_now(gpus);
    return NVML_SUCCESS;
}

NODE_CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *device), (index, device)) {
    int gpus[FAKE_GPUS];
    if (!device || index >= (unsigned int)gpus_now(gpus)) return NVML_ERROR_INVALID_ARGUMENT;
    return give(gpus[index], -1, device);
}

static bool has_bus(int gpu, const unsigned int wanted[3]) {
    unsigned long long found[3];
    if (numbers(answer_of(devices_handle(gpu, -1), "nvmlDeviceGetPciInfo_v3"), found, 3) != NVML_SUCCESS) return false;
    return found[0] == wanted[0] && found[1] == wanted[1] && found[2] == wanted[2];
}

static bool read_bus(const char *text, unsigned int bus[3]) {
    unsigned int function = 0;
    if (sscanf(text, "%x:%x:%x.%x", &bus[0], &bus[1], &bus[2], &function) >= 3) return function == 0;
    bus[0] = 0;
    return sscanf(text, "%x:%x.%x", &bus[1], &bus[2], &function) == 3 && function == 0;
}

NODE_CALL(nvmlDeviceGetHandleByPciBusId_v2, (const char *pciBusId, nvmlDevice_t *device), (pciBusId, device)) {
    int gpus[FAKE_GPUS];
    unsigned int bus[3];
    if (!pciBusId || !device || !read_bus(pciBusId, bus)) return NVML_ERROR_INVALID_ARGUMENT;
    int count = gpus_now(gpus);
    for (int at = 0; at < count; at++)
        if (has_bus(gpus[at], bus)) return give(gpus[at], -1, device);
    return NVML_ERROR_NOT_FOUND;
}

static bool has_uuid(int gpu, int mig, const char *uuid) {
    const char *own = answer_of(devices_handle(gpu, mig), "nvmlDeviceGetUUID");
    return own && strcasecmp(own, uuid) == 0;
}

NODE_CALL(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device), (uuid, device)) {
    int gpus[FAKE_GPUS], migs[FAKE_MIGS];
    if (!uuid || !device) return NVML_ERROR_INVALID_ARGUMENT;
    int count = gpus_now(gpus);
    /* The search may touch all GPUs, so a single lost GPU lets the call fail. */
    for (int at = 0; at < count; at++)
        if (rules_lost(devices_handle(gpus[at], -1))) return NVML_ERROR_GPU_IS_LOST;
    for (int at = 0; at < count; at++) {
        if (has_uuid(gpus[at], -1, uuid)) return give(gpus[at], -1, device);
        for (int mig = migs_now(gpus[at], migs) - 1; mig >= 0; mig--)
            if (has_uuid(gpus[at], migs[mig], uuid)) return give(gpus[at], migs[mig], device);
    }
    return NVML_ERROR_NOT_FOUND;
}

DEVICE_CALL(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned int *index), (device, index)) {
    if (!index) return NVML_ERROR_INVALID_ARGUMENT;
    *index = (unsigned int)(device->mig >= 0 ? device->mig : index_of(device->gpu));
    return NVML_SUCCESS;
}

static bool mig_is_on(nvmlDevice_t device) {
    unsigned long long current = 0;
    return numbers(answer_of(device, "nvmlDeviceGetMigMode"), &current, 1) == NVML_SUCCESS && current == 1;
}

DEVICE_CALL(nvmlDeviceGetMaxMigDeviceCount, (nvmlDevice_t device, unsigned int *count), (device, count)) {
    if (!count || device->mig >= 0) return NVML_ERROR_INVALID_ARGUMENT;
    *count = mig_is_on(device) ? FAKE_MIGS : 0;
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetMigDeviceHandleByIndex, (nvmlDevice_t device, unsigned int index, nvmlDevice_t *migDevice),
            (device, index, migDevice)) {
    int migs[FAKE_MIGS];
    if (!migDevice || device->mig >= 0) return NVML_ERROR_INVALID_ARGUMENT;
    if (!answer_of(device, "nvmlDeviceGetMigMode")) return NVML_ERROR_NOT_SUPPORTED;
    if (index >= FAKE_MIGS) return NVML_ERROR_INVALID_ARGUMENT;
    bool there = position(migs, migs_now(device->gpu, migs), (int)index) >= 0;
    if (!mig_is_on(device) || !there || !remembered[device->gpu][index]) return NVML_ERROR_NOT_FOUND;
    return give(device->gpu, (int)index, migDevice);
}

DEVICE_CALL(nvmlDeviceIsMigDeviceHandle, (nvmlDevice_t device, unsigned int *isMigDevice), (device, isMigDevice)) {
    if (!isMigDevice) return NVML_ERROR_INVALID_ARGUMENT;
    *isMigDevice = device->mig >= 0;
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, (nvmlDevice_t device, nvmlDevice_t *parent),
            (device, parent)) {
    if (!parent || device->mig < 0) return NVML_ERROR_INVALID_ARGUMENT;
    *parent = devices_handle(device->gpu, -1);
    return NVML_SUCCESS;
}
