/* All calls whose answer is a number, two numbers, or a text: one line each. */
#include "call.h"

typedef unsigned int uint;
typedef unsigned long long ulonglong;

/* `value = first number of the answer`, with none to three selectors in the key. */
#define NUMBER(function, type)                                                 \
    DEVICE_CALL(function, (nvmlDevice_t device, type *value), (device, value)) \
    GIVES_NUMBER(type, own_answer())
#define NUMBER_BY(function, type)                                                                \
    DEVICE_CALL(function, (nvmlDevice_t device, uint one, type *value), (device, one, value))    \
    GIVES_NUMBER(type, answer(".%u", one))
#define NUMBER_BY_TWO(function, type)                                                                            \
    DEVICE_CALL(function, (nvmlDevice_t device, uint one, uint two, type *value), (device, one, two, value))     \
    GIVES_NUMBER(type, answer(".%u.%u", one, two))
#define NUMBER_BY_THREE(function, type)                                                                          \
    DEVICE_CALL(function, (nvmlDevice_t device, uint one, uint two, uint three, type *value),                    \
                (device, one, two, three, value))                                                                \
    GIVES_NUMBER(type, answer(".%u.%u.%u", one, two, three))

#define GIVES_NUMBER(type, text)                                   \
    {                                                              \
        ulonglong found;                                           \
        if (!value) return NVML_ERROR_INVALID_ARGUMENT;            \
        nvmlReturn_t result = numbers(text, &found, 1);            \
        if (result == NVML_SUCCESS) *value = (type)found;          \
        (void)device;                                              \
        return result;                                             \
    }

#define TWO_NUMBERS(function, type)                                                              \
    DEVICE_CALL(function, (nvmlDevice_t device, type *one, type *two), (device, one, two)) {     \
        ulonglong found[2];                                                                      \
        if (!one || !two) return NVML_ERROR_INVALID_ARGUMENT;                                    \
        nvmlReturn_t result = numbers(own_answer(), found, 2);                                     \
        if (result != NVML_SUCCESS) return result;                                               \
        *one = (type)found[0];                                                                   \
        *two = (type)found[1];                                                                   \
        (void)device;                                                                            \
        return NVML_SUCCESS;                                                                     \
    }

#define TEXT(function)                                                                                         \
    DEVICE_CALL(function, (nvmlDevice_t device, char *text, uint length), (device, text, length)) {            \
        (void)device;                                                                                          \
        return text_into(own_answer(), text, length);                                                            \
    }

TEXT(nvmlDeviceGetName)
TEXT(nvmlDeviceGetUUID)
TEXT(nvmlDeviceGetSerial)
TEXT(nvmlDeviceGetBoardPartNumber)
TEXT(nvmlDeviceGetVbiosVersion)
TEXT(nvmlDeviceGetInforomImageVersion)

NUMBER(nvmlDeviceGetMinorNumber, uint)
NUMBER(nvmlDeviceGetModuleId, uint)
NUMBER(nvmlDeviceGetBoardId, uint)
NUMBER(nvmlDeviceGetMultiGpuBoard, uint)
NUMBER(nvmlDeviceGetBrand, uint)
NUMBER(nvmlDeviceGetArchitecture, uint)
NUMBER(nvmlDeviceGetNumGpuCores, uint)
NUMBER(nvmlDeviceGetMemoryBusWidth, uint)
NUMBER(nvmlDeviceGetBusType, uint)
NUMBER(nvmlDeviceGetNumaNodeId, uint)
NUMBER(nvmlDeviceGetInforomConfigurationChecksum, uint)
NUMBER(nvmlDeviceGetPersistenceMode, uint)
NUMBER(nvmlDeviceGetComputeMode, uint)
NUMBER(nvmlDeviceGetDisplayMode, uint)
NUMBER(nvmlDeviceGetDisplayActive, uint)
NUMBER(nvmlDeviceGetVirtualizationMode, uint)
NUMBER(nvmlDeviceGetAccountingMode, uint)
NUMBER(nvmlDeviceGetDefaultEccMode, uint)
NUMBER(nvmlDeviceGetGpuInstanceId, uint)
NUMBER(nvmlDeviceGetComputeInstanceId, uint)
TWO_NUMBERS(nvmlDeviceGetCudaComputeCapability, int)
TWO_NUMBERS(nvmlDeviceGetEccMode, uint)
TWO_NUMBERS(nvmlDeviceGetMigMode, uint)
TWO_NUMBERS(nvmlDeviceGetGspFirmwareMode, uint)
TWO_NUMBERS(nvmlDeviceGetDriverModel, uint)
TWO_NUMBERS(nvmlDeviceGetDriverModel_v2, uint)
TWO_NUMBERS(nvmlDeviceGetGpuOperationMode, uint)

NUMBER_BY(nvmlDeviceGetTemperature, uint)
NUMBER_BY(nvmlDeviceGetTemperatureThreshold, uint)
NUMBER(nvmlDeviceGetNumFans, uint)
NUMBER(nvmlDeviceGetFanSpeed, uint)
NUMBER_BY(nvmlDeviceGetFanSpeed_v2, uint)
NUMBER_BY(nvmlDeviceGetTargetFanSpeed, uint)
TWO_NUMBERS(nvmlDeviceGetMinMaxFanSpeed, uint)

NUMBER(nvmlDeviceGetPowerUsage, uint)
NUMBER(nvmlDeviceGetPowerManagementMode, uint)
NUMBER(nvmlDeviceGetPowerManagementLimit, uint)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, uint)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, uint)
NUMBER(nvmlDeviceGetPowerSource, uint)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, ulonglong)
TWO_NUMBERS(nvmlDeviceGetPowerManagementLimitConstraints, uint)

NUMBER(nvmlDeviceGetPerformanceState, uint)
NUMBER(nvmlDeviceGetPowerState, uint)
NUMBER_BY(nvmlDeviceGetClockInfo, uint)
NUMBER_BY(nvmlDeviceGetMaxClockInfo, uint)
NUMBER_BY(nvmlDeviceGetApplicationsClock, uint)
NUMBER_BY(nvmlDeviceGetDefaultApplicationsClock, uint)
NUMBER_BY(nvmlDeviceGetMaxCustomerBoostClock, uint)
NUMBER_BY_TWO(nvmlDeviceGetClock, uint)

TWO_NUMBERS(nvmlDeviceGetEncoderUtilization, uint)
TWO_NUMBERS(nvmlDeviceGetDecoderUtilization, uint)
TWO_NUMBERS(nvmlDeviceGetJpgUtilization, uint)
TWO_NUMBERS(nvmlDeviceGetOfaUtilization, uint)

NUMBER_BY_TWO(nvmlDeviceGetTotalEccErrors, ulonglong)
NUMBER_BY_THREE(nvmlDeviceGetMemoryErrorCounter, ulonglong)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, uint)

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, uint)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, uint)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, uint)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, uint)
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, uint)
NUMBER(nvmlDeviceGetPcieSpeed, uint)
NUMBER(nvmlDeviceGetPcieLinkMaxSpeed, uint)
NUMBER(nvmlDeviceGetPcieReplayCounter, uint)
NUMBER_BY(nvmlDeviceGetPcieThroughput, uint)

NUMBER_BY(nvmlDeviceGetNvLinkState, uint)
NUMBER_BY(nvmlDeviceGetNvLinkVersion, uint)
NUMBER_BY(nvmlDeviceGetNvLinkRemoteDeviceType, uint)
NUMBER_BY_TWO(nvmlDeviceGetNvLinkCapability, uint)
NUMBER_BY_TWO(nvmlDeviceGetNvLinkErrorCounter, ulonglong)

NUMBER(nvmlDeviceGetSupportedEventTypes, ulonglong)

/* A buffer whose length is fixed by the interface. */
DEVICE_CALL(nvmlDeviceGetGspFirmwareVersion, (nvmlDevice_t device, char *version), (device, version)) {
    enum { LENGTH = 0x40 };
    (void)device;
    return text_into(own_answer(), version, LENGTH);
}

DEVICE_CALL(nvmlDeviceGetInforomVersion, (nvmlDevice_t device, uint object, char *version, uint length),
            (device, object, version, length)) {
    (void)device;
    return text_into(answer(".%u", object), version, length);
}

/* Two names of one reading; the state file uses the newer name. */
#define SAME_NUMBER(function, type, other)                                     \
    DEVICE_CALL(function, (nvmlDevice_t device, type *value), (device, value)) \
    GIVES_NUMBER(type, answer_of(device, other))

SAME_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, ulonglong, "nvmlDeviceGetCurrentClocksEventReasons")
SAME_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, ulonglong, "nvmlDeviceGetCurrentClocksEventReasons")
SAME_NUMBER(nvmlDeviceGetSupportedClocksEventReasons, ulonglong, "nvmlDeviceGetSupportedClocksEventReasons")
SAME_NUMBER(nvmlDeviceGetSupportedClocksThrottleReasons, ulonglong, "nvmlDeviceGetSupportedClocksEventReasons")

/* The connection of two devices: the answer of the first, with the number of the second as selector. */
DEVICE_CALL(nvmlDeviceGetTopologyCommonAncestor, (nvmlDevice_t device, nvmlDevice_t other, uint *value),
            (device, other, value))
GIVES_NUMBER(uint, answer(".%d", other ? other->gpu : -1))

DEVICE_CALL(nvmlDeviceGetP2PStatus, (nvmlDevice_t device, nvmlDevice_t other, uint index, uint *value),
            (device, other, index, value))
GIVES_NUMBER(uint, answer(".%d.%u", other ? other->gpu : -1, index))
