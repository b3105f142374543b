/* The memory layout of our structures, for the test that compares them with pynvml's. */
#include <stddef.h>

#include "nvml_types.h"

typedef struct {
    const char *structure, *member;
    size_t offset, size;
} Row;

#define WHOLE(structure) {#structure, "", 0, sizeof(structure)}
#define MEMBER(structure, member) {#structure, #member, offsetof(structure, member), sizeof(((structure *)0)->member)}

static const Row rows[] = {
    WHOLE(nvmlPciInfo_t), MEMBER(nvmlPciInfo_t, domain), MEMBER(nvmlPciInfo_t, busId),
    MEMBER(nvmlPciInfo_t, pciSubSystemId),
    WHOLE(nvmlPciInfoExt_v1_t), MEMBER(nvmlPciInfoExt_v1_t, baseClass), MEMBER(nvmlPciInfoExt_v1_t, busId),
    WHOLE(nvmlMemory_t), MEMBER(nvmlMemory_t, total), MEMBER(nvmlMemory_t, free), MEMBER(nvmlMemory_t, used),
    WHOLE(nvmlMemory_v2_t), MEMBER(nvmlMemory_v2_t, total), MEMBER(nvmlMemory_v2_t, reserved),
    MEMBER(nvmlMemory_v2_t, free), MEMBER(nvmlMemory_v2_t, used),
    WHOLE(nvmlBAR1Memory_t), MEMBER(nvmlBAR1Memory_t, bar1Total), MEMBER(nvmlBAR1Memory_t, bar1Free),
    MEMBER(nvmlBAR1Memory_t, bar1Used),
    WHOLE(nvmlUtilization_t), MEMBER(nvmlUtilization_t, memory),
    WHOLE(nvmlTemperature_v1_t), MEMBER(nvmlTemperature_v1_t, sensorType), MEMBER(nvmlTemperature_v1_t, temperature),
    WHOLE(nvmlMarginTemperature_v1_t), MEMBER(nvmlMarginTemperature_v1_t, marginTemperature),
    WHOLE(nvmlFanSpeedInfo_v1_t), MEMBER(nvmlFanSpeedInfo_v1_t, speed),
    WHOLE(nvmlViolationTime_t), MEMBER(nvmlViolationTime_t, violationTime),
    WHOLE(nvmlEccErrorCounts_t), MEMBER(nvmlEccErrorCounts_t, deviceMemory),
    WHOLE(nvmlEccSramErrorStatus_v1_t), MEMBER(nvmlEccSramErrorStatus_v1_t, aggregateUncParity),
    MEMBER(nvmlEccSramErrorStatus_v1_t, volatileCor), MEMBER(nvmlEccSramErrorStatus_v1_t, bThresholdExceeded),
    WHOLE(nvmlRowRemapperHistogramValues_t), MEMBER(nvmlRowRemapperHistogramValues_t, none),
    WHOLE(nvmlRepairStatus_v1_t), MEMBER(nvmlRepairStatus_v1_t, bTpcRepairPending),
    WHOLE(nvmlDeviceAddressingMode_v1_t), MEMBER(nvmlDeviceAddressingMode_v1_t, value),
    WHOLE(nvmlC2cModeInfo_v1_t),
    WHOLE(nvmlGpuFabricInfo_t), MEMBER(nvmlGpuFabricInfo_t, cliqueId), MEMBER(nvmlGpuFabricInfo_t, state),
    WHOLE(nvmlGpuFabricInfo_v2_t), MEMBER(nvmlGpuFabricInfo_v2_t, state), MEMBER(nvmlGpuFabricInfo_v2_t, healthMask),
    WHOLE(nvmlGpuFabricInfo_v3_t), MEMBER(nvmlGpuFabricInfo_v3_t, healthMask),
    MEMBER(nvmlGpuFabricInfo_v3_t, healthSummary),
    WHOLE(nvmlPlatformInfo_v2_t), MEMBER(nvmlPlatformInfo_v2_t, chassisSerialNumber),
    MEMBER(nvmlPlatformInfo_v2_t, moduleId),
    WHOLE(nvmlFieldValue_t), MEMBER(nvmlFieldValue_t, scopeId), MEMBER(nvmlFieldValue_t, timestamp),
    MEMBER(nvmlFieldValue_t, latencyUsec), MEMBER(nvmlFieldValue_t, valueType), MEMBER(nvmlFieldValue_t, nvmlReturn),
    MEMBER(nvmlFieldValue_t, value),
    WHOLE(nvmlValue_t), WHOLE(nvmlSample_t), MEMBER(nvmlSample_t, sampleValue),
    WHOLE(nvmlProcessInfo_t), MEMBER(nvmlProcessInfo_t, usedGpuMemory), MEMBER(nvmlProcessInfo_t, gpuInstanceId),
    MEMBER(nvmlProcessInfo_t, computeInstanceId),
    WHOLE(nvmlProcessUtilizationSample_t), MEMBER(nvmlProcessUtilizationSample_t, timeStamp),
    MEMBER(nvmlProcessUtilizationSample_t, decUtil),
    WHOLE(nvmlProcessUtilizationInfo_v1_t), MEMBER(nvmlProcessUtilizationInfo_v1_t, pid),
    MEMBER(nvmlProcessUtilizationInfo_v1_t, ofaUtil),
    WHOLE(nvmlProcessesUtilizationInfo_v1_t), MEMBER(nvmlProcessesUtilizationInfo_v1_t, lastSeenTimeStamp),
    MEMBER(nvmlProcessesUtilizationInfo_v1_t, procUtilArray),
    WHOLE(nvmlDeviceAttributes_t), MEMBER(nvmlDeviceAttributes_t, memorySizeMB),
    WHOLE(nvmlGpuInstancePlacement_t), WHOLE(nvmlGpuInstanceInfo_t), MEMBER(nvmlGpuInstanceInfo_t, placement),
    WHOLE(nvmlGpuInstanceProfileInfo_t), MEMBER(nvmlGpuInstanceProfileInfo_t, memorySizeMB),
    WHOLE(nvmlGpuInstanceProfileInfo_v2_t), MEMBER(nvmlGpuInstanceProfileInfo_v2_t, memorySizeMB),
    MEMBER(nvmlGpuInstanceProfileInfo_v2_t, name),
    WHOLE(nvmlEventData_t), MEMBER(nvmlEventData_t, eventType), MEMBER(nvmlEventData_t, computeInstanceId),
    WHOLE(nvmlGpmMetric_t), MEMBER(nvmlGpmMetric_t, value), MEMBER(nvmlGpmMetric_t, metricInfo),
    MEMBER(nvmlGpmMetricsGet_t, sample1), MEMBER(nvmlGpmMetricsGet_t, sample2), MEMBER(nvmlGpmMetricsGet_t, metrics),
    WHOLE(nvmlGpmSupport_t), MEMBER(nvmlGpmSupport_t, isSupportedDevice),
};

/* The row with this number; 0 after the last row. `member` is empty for a structure as a whole. */
int fakeNvmlLayout(unsigned int number, const char **structure, const char **member, size_t *offset, size_t *size) {
    if (number >= sizeof rows / sizeof *rows) return 0;
    *structure = rows[number].structure;
    *member = rows[number].member;
    *offset = rows[number].offset;
    *size = rows[number].size;
    return 1;
}
