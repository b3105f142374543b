/* The calls that fill a structure with numbers. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "clock.h"

typedef unsigned int uint;
typedef unsigned long long ulonglong;

/* Clients write the version of their layout to the first member; the driver refuses unknown versions. */
#define REQUIRE_VERSION(pointer, structure, number)                                                           \
    if (!(pointer)) return NVML_ERROR_INVALID_ARGUMENT;                                                       \
    if ((pointer)->version != FAKE_VERSION(structure, number)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH

#define READ_NUMBERS(count)                                                    \
    ulonglong found[count];                                                    \
    nvmlReturn_t result = numbers(own_answer(), found, count);                   \
    (void)device;                                                              \
    if (result != NVML_SUCCESS) return result

DEVICE_CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory), (device, memory)) {
    if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
    READ_NUMBERS(3);
    *memory = (nvmlMemory_t){found[0], found[1], found[2]};
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t *memory), (device, memory)) {
    REQUIRE_VERSION(memory, nvmlMemory_v2_t, 2);
    READ_NUMBERS(4);
    *memory = (nvmlMemory_v2_t){memory->version, found[0], found[1], found[2], found[3]};
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetBAR1MemoryInfo, (nvmlDevice_t device, nvmlBAR1Memory_t *memory), (device, memory)) {
    if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
    READ_NUMBERS(3);
    *memory = (nvmlBAR1Memory_t){found[0], found[1], found[2]};
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetUtilizationRates, (nvmlDevice_t device, nvmlUtilization_t *rates), (device, rates)) {
    if (!rates) return NVML_ERROR_INVALID_ARGUMENT;
    READ_NUMBERS(2);
    *rates = (nvmlUtilization_t){(uint)found[0], (uint)found[1]};
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetTemperatureV, (nvmlDevice_t device, nvmlTemperature_v1_t *reading), (device, reading)) {
    REQUIRE_VERSION(reading, nvmlTemperature_v1_t, 1);
    ulonglong found;
    const char *text = answer_of(device, "nvmlDeviceGetTemperature.%u", (uint)reading->sensorType);
    nvmlReturn_t result = numbers(text, &found, 1);
    if (result == NVML_SUCCESS) reading->temperature = (int)found;
    return result;
}

DEVICE_CALL(nvmlDeviceGetMarginTemperature, (nvmlDevice_t device, nvmlMarginTemperature_v1_t *margin),
            (device, margin)) {
    REQUIRE_VERSION(margin, nvmlMarginTemperature_v1_t, 1);
    READ_NUMBERS(1);
    margin->marginTemperature = (int)found[0];
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetFanSpeedRPM, (nvmlDevice_t device, nvmlFanSpeedInfo_v1_t *info), (device, info)) {
    REQUIRE_VERSION(info, nvmlFanSpeedInfo_v1_t, 1);
    ulonglong found;
    (void)device;
    nvmlReturn_t result = numbers(answer(".%u", info->fan), &found, 1);
    if (result == NVML_SUCCESS) info->speed = (uint)found;
    return result;
}

/* The start in microseconds, and the duration in nanoseconds. */
DEVICE_CALL(nvmlDeviceGetViolationStatus, (nvmlDevice_t device, uint policy, nvmlViolationTime_t *time),
            (device, policy, time)) {
    ulonglong found;
    (void)device;
    if (!time) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = numbers(answer(".%u", policy), &found, 1);
    if (result == NVML_SUCCESS) *time = (nvmlViolationTime_t){clock_now_us(), found};
    return result;
}

static nvmlReturn_t pci_into(const char *text, nvmlPciInfo_t *pci) {
    ulonglong found[5];
    nvmlReturn_t result = numbers(text, found, 5);
    if (result != NVML_SUCCESS) return result;
    *pci = (nvmlPciInfo_t){.domain = (uint)found[0],
                           .bus = (uint)found[1],
                           .device = (uint)found[2],
                           .pciDeviceId = (uint)found[3],
                           .pciSubSystemId = (uint)found[4]};
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
             pci->device & 0xff);
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci), (device, pci)) {
    (void)device;
    return pci ? pci_into(own_answer(), pci) : NVML_ERROR_INVALID_ARGUMENT;
}

DEVICE_CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, (nvmlDevice_t device, uint link, nvmlPciInfo_t *pci),
            (device, link, pci)) {
    (void)device;
    return pci ? pci_into(answer(".%u", link), pci) : NVML_ERROR_INVALID_ARGUMENT;
}

DEVICE_CALL(nvmlDeviceGetPciInfoExt, (nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci), (device, pci)) {
    enum { DISPLAY_CONTROLLER = 3, OF_3D = 2 };
    REQUIRE_VERSION(pci, nvmlPciInfoExt_v1_t, 1);
    nvmlPciInfo_t found;
    nvmlReturn_t result = pci_into(answer_of(device, "nvmlDeviceGetPciInfo_v3"), &found);
    if (result != NVML_SUCCESS) return result;
    *pci = (nvmlPciInfoExt_v1_t){pci->version,      found.domain,         found.bus,          found.device,
                                 found.pciDeviceId, found.pciSubSystemId, DISPLAY_CONTROLLER, OF_3D, {0}};
    memcpy(pci->busId, found.busId, sizeof pci->busId);
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetDetailedEccErrors,
            (nvmlDevice_t device, uint error, uint counter, nvmlEccErrorCounts_t *counts),
            (device, error, counter, counts)) {
    ulonglong found[4];
    (void)device;
    if (!counts) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = numbers(answer(".%u.%u", error, counter), found, 4);
    if (result == NVML_SUCCESS) *counts = (nvmlEccErrorCounts_t){found[0], found[1], found[2], found[3]};
    return result;
}

DEVICE_CALL(nvmlDeviceGetSramEccErrorStatus, (nvmlDevice_t device, nvmlEccSramErrorStatus_v1_t *status),
            (device, status)) {
    REQUIRE_VERSION(status, nvmlEccSramErrorStatus_v1_t, 1);
    READ_NUMBERS(12);
    *status = (nvmlEccSramErrorStatus_v1_t){status->version, found[0], found[1], found[2], found[3], found[4], found[5],
                                            found[6], found[7], found[8], found[9], found[10], (uint)found[11]};
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetRemappedRows,
            (nvmlDevice_t device, uint *corrected, uint *uncorrected, uint *pending, uint *failed),
            (device, corrected, uncorrected, pending, failed)) {
    if (!corrected || !uncorrected || !pending || !failed) return NVML_ERROR_INVALID_ARGUMENT;
    READ_NUMBERS(4);
    *corrected = (uint)found[0];
    *uncorrected = (uint)found[1];
    *pending = (uint)found[2];
    *failed = (uint)found[3];
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetRowRemapperHistogram, (nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *values),
            (device, values)) {
    if (!values) return NVML_ERROR_INVALID_ARGUMENT;
    READ_NUMBERS(5);
    *values = (nvmlRowRemapperHistogramValues_t){(uint)found[0], (uint)found[1], (uint)found[2], (uint)found[3],
                                                 (uint)found[4]};
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetRepairStatus, (nvmlDevice_t device, nvmlRepairStatus_v1_t *status), (device, status)) {
    REQUIRE_VERSION(status, nvmlRepairStatus_v1_t, 1);
    READ_NUMBERS(2);
    *status = (nvmlRepairStatus_v1_t){status->version, (uint)found[0], (uint)found[1]};
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetAddressingMode, (nvmlDevice_t device, nvmlDeviceAddressingMode_v1_t *mode), (device, mode)) {
    REQUIRE_VERSION(mode, nvmlDeviceAddressingMode_v1_t, 1);
    READ_NUMBERS(1);
    mode->value = (uint)found[0];
    return NVML_SUCCESS;
}

/* Structures with a single number and no version. */
#define NUMBER_IN(function, structure, member)                                          \
    DEVICE_CALL(function, (nvmlDevice_t device, structure *status), (device, status)) { \
        if (!status) return NVML_ERROR_INVALID_ARGUMENT;                                \
        READ_NUMBERS(1);                                                                \
        status->member = (uint)found[0];                                                \
        return NVML_SUCCESS;                                                            \
    }

NUMBER_IN(nvmlDeviceGetUnrepairableMemoryFlag_v1, nvmlUnrepairableMemoryStatus_v1_t, bUnrepairableMemory)
NUMBER_IN(nvmlDeviceGetC2cModeInfoV, nvmlC2cModeInfo_v1_t, isC2cEnabled)

/* Affinities: the words of the answer; the rest of the set is empty. */
static nvmlReturn_t set_into(const char *text, uint size, unsigned long *set) {
    if (!size || !set) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t refusal = refusal_in(text);
    if (refusal != NVML_SUCCESS) return refusal;
    memset(set, 0, size * sizeof *set);
    int used;
    for (uint at = 0; at < size && sscanf(text, "%lu%n", &set[at], &used) == 1; at++) text += used;
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlDeviceGetCpuAffinity, (nvmlDevice_t device, uint size, unsigned long *set), (device, size, set)) {
    (void)device;
    return set_into(own_answer(), size, set);
}

DEVICE_CALL(nvmlDeviceGetMemoryAffinity, (nvmlDevice_t device, uint size, unsigned long *set, uint scope),
            (device, size, set, scope)) {
    (void)device;
    (void)scope;
    return set_into(own_answer(), size, set);
}

DEVICE_CALL(nvmlDeviceGetEncoderStats, (nvmlDevice_t device, uint *sessions, uint *fps, uint *latency),
            (device, sessions, fps, latency)) {
    if (!sessions || !fps || !latency) return NVML_ERROR_INVALID_ARGUMENT;
    READ_NUMBERS(3);
    *sessions = (uint)found[0];
    *fps = (uint)found[1];
    *latency = (uint)found[2];
    return NVML_SUCCESS;
}
