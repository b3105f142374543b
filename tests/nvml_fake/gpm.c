/* GPM: two samples of a device, metrics of the time between them. `gpm.<metric>=<value>` on a GPU or MIG device. */
#include <math.h>
#include <stdlib.h>

#include "call.h"
#include "clock.h"
#include "devices.h"

typedef unsigned int uint;

struct nvmlGpmSample_st {
    struct nvmlDevice_st device;
    unsigned long long taken_us; /* 0: never */
};

/* The refresh interval of the counters; two samples within it have no difference. */
enum { REFRESH_US = 100000 };

static bool is_supported(nvmlDevice_t device) {
    unsigned long long found = 0;
    numbers(answer_of(device, "nvmlGpmQueryDeviceSupport"), &found, 1);
    return found != 0;
}

DEVICE_CALL(nvmlGpmQueryDeviceSupport, (nvmlDevice_t device, nvmlGpmSupport_t *support), (device, support)) {
    if (!support) return NVML_ERROR_INVALID_ARGUMENT;
    if (support->version != NVML_GPM_SUPPORT_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t refusal = refusal_in(own_answer());
    support->isSupportedDevice = is_supported(device);
    return refusal == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : refusal;
}

NODE_CALL(nvmlGpmSampleAlloc, (nvmlGpmSample_t *sample), (sample)) {
    if (!sample) return NVML_ERROR_INVALID_ARGUMENT;
    *sample = calloc(1, sizeof **sample);
    return *sample ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

NODE_CALL(nvmlGpmSampleFree, (nvmlGpmSample_t sample), (sample)) {
    if (!sample) return NVML_ERROR_INVALID_ARGUMENT;
    free(sample);
    return NVML_SUCCESS;
}

static nvmlReturn_t take(nvmlDevice_t device, nvmlGpmSample_t sample) {
    if (!sample) return NVML_ERROR_INVALID_ARGUMENT;
    if (!is_supported(device)) return NVML_ERROR_NOT_SUPPORTED;
    *sample = (struct nvmlGpmSample_st){*device, clock_monotonic_us()};
    return NVML_SUCCESS;
}

DEVICE_CALL(nvmlGpmSampleGet, (nvmlDevice_t device, nvmlGpmSample_t sample), (device, sample)) {
    return take(device, sample);
}

DEVICE_CALL(nvmlGpmMigSampleGet, (nvmlDevice_t device, uint instance, nvmlGpmSample_t sample),
            (device, instance, sample)) {
    unsigned long long found;
    for (int mig = 0; mig < FAKE_MIGS; mig++) {
        nvmlDevice_t each = devices_handle(device->gpu, mig);
        if (devices_presence(each) != NVML_SUCCESS) continue;
        nvmlReturn_t result = numbers(answer_of(each, "nvmlDeviceGetGpuInstanceId"), &found, 1);
        if (result == NVML_SUCCESS && found == instance) return take(each, sample);
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

static void answer_metric(const struct nvmlDevice_st *device, bool told, nvmlGpmMetric_t *metric) {
    const char *text = answer_of(device, "gpm.%u", metric->metricId);
    metric->nvmlReturn = refusal_in(text);
    metric->metricInfo.shortName = metric->metricInfo.longName = metric->metricInfo.unit = NULL;
    char *end = NULL;
    metric->value = metric->nvmlReturn == NVML_SUCCESS && told ? strtod(text, &end) : NAN;
    if (end) metric->value += moved(end);
}

NODE_CALL(nvmlGpmMetricsGet, (nvmlGpmMetricsGet_t *get), (get)) {
    if (!get) return NVML_ERROR_INVALID_ARGUMENT;
    if (get->version != NVML_GPM_METRICS_GET_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlGpmSample_t one = get->sample1, two = get->sample2;
    if (!one || !two || !one->taken_us || !two->taken_us) return NVML_ERROR_INVALID_ARGUMENT;
    if (one->device.gpu != two->device.gpu || one->device.mig != two->device.mig) return NVML_ERROR_INVALID_ARGUMENT;
    bool told = two->taken_us >= one->taken_us + REFRESH_US;
    for (uint at = 0; at < get->numMetrics; at++) answer_metric(&one->device, told, &get->metrics[at]);
    return NVML_SUCCESS;
}
