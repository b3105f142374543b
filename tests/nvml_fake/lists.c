/* The calls that return lists: processes and their utilization, samples, retired pages. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "clock.h"
#include "state.h"

typedef unsigned int uint;
typedef unsigned long long ulonglong;

static uint words_in(const char *text) {
    uint words = 0;
    for (const char *at = text; at && *at; at++) words += *at != ' ' && (at == text || at[-1] == ' ');
    return words;
}

/* The next word, NULL after the last; `text` then points behind the word. */
static const char *next_word(const char **text, char word[96]) {
    int used = 0;
    if (sscanf(*text, "%95s%n", word, &used) != 1) return NULL;
    *text += used;
    return word;
}

/* `12:34:-`: the numbers between the colons; `-` is all ones, the driver's value for unknown. */
static void parts_of(const char *word, ulonglong *parts, int count) {
    for (int at = 0; at < count; at++) {
        parts[at] = word && *word != '-' ? strtoull(word, NULL, 10) : ULLONG_MAX;
        word = word ? strchr(word, ':') : NULL;
        if (word) word++;
    }
}

static nvmlProcessInfo_t process_of(const char *word) {
    ulonglong parts[4];
    parts_of(word, parts, 4);
    return (nvmlProcessInfo_t){(uint)parts[0], parts[1], (uint)parts[2], (uint)parts[3]};
}

/* The number of additional processes by now: `<call>.growth=<processes> <calls before the first>`. */
static uint grown(nvmlDevice_t device, const char *list) {
    ulonglong found[2];
    if (numbers(answer_of(device, "%s.growth", list), found, 2) != NVML_SUCCESS) return 0;
    return (uint)(found[0] * (call_count() - found[1]));
}

/* Some drivers wrote longer entries than callers expect, who then read the next entry at a wrong offset. */
static void write_entry(char *infos, uint place, uint room, const nvmlProcessInfo_t *process) {
    size_t stride = (size_t)state_number("node.process_entry_bytes");
    char entry[64] = {0};
    memcpy(entry, process, sizeof *process);
    if ((place + 1) * stride <= room * sizeof *process) memcpy(infos + place * stride, entry, stride);
}

static nvmlReturn_t processes(nvmlDevice_t device, const char *list, uint *count, nvmlProcessInfo_t *infos) {
    enum { FIRST_NEW_PID = 100000, NEW_MEMORY = 1 << 20 };
    char word[96];
    const char *text = answer_of(device, "%s", list);
    nvmlReturn_t refusal = refusal_in(text);
    if (!count) return NVML_ERROR_INVALID_ARGUMENT;
    if (refusal != NVML_SUCCESS) return refusal;
    uint room = *count, more = grown(device, list);
    *count = words_in(text) + more;
    if (*count > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    if (*count && !infos) return NVML_ERROR_INVALID_ARGUMENT;
    uint place = 0;
    while (next_word(&text, word)) {
        nvmlProcessInfo_t process = process_of(word);
        write_entry((char *)infos, place++, room, &process);
    }
    for (uint each = 0; each < more; each++) {
        nvmlProcessInfo_t process = {FIRST_NEW_PID + each, NEW_MEMORY, UINT_MAX, UINT_MAX};
        write_entry((char *)infos, place++, room, &process);
    }
    return NVML_SUCCESS;
}

#define PROCESSES(function, list)                                                                             \
    DEVICE_CALL(function, (nvmlDevice_t device, uint *count, nvmlProcessInfo_t *infos), (device, count, infos)) { \
        return processes(device, list, count, infos);                                                         \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, "nvmlDeviceGetComputeRunningProcesses")
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "nvmlDeviceGetComputeRunningProcesses")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, "nvmlDeviceGetGraphicsRunningProcesses")
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "nvmlDeviceGetGraphicsRunningProcesses")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, "nvmlDeviceGetMPSComputeRunningProcesses")
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "nvmlDeviceGetMPSComputeRunningProcesses")

/* `pid:sm:memory:encoder:decoder:age in microseconds`, followed by jpeg and OFA for the newer call. */
typedef struct {
    ulonglong pid, sm, memory, encoder, decoder, time, jpeg, ofa;
} Use;

static Use use_of(const char *word) {
    ulonglong parts[8];
    parts_of(word, parts, 8);
    ulonglong age = parts[5] == ULLONG_MAX ? 0 : parts[5];
    return (Use){parts[0], parts[1], parts[2], parts[3], parts[4], clock_now_us() - age, parts[6], parts[7]};
}

/* A request for the size returns the size of the driver's buffer. */
enum { BUFFER_OF_USES = 100 };

static nvmlReturn_t uses(nvmlDevice_t device, const char **text, uint *count, const void *room) {
    *text = answer_of(device, "nvmlDeviceGetProcessUtilization");
    nvmlReturn_t refusal = refusal_in(*text);
    if (!count || refusal != NVML_SUCCESS) return count ? refusal : NVML_ERROR_INVALID_ARGUMENT;
    if (room && *count >= words_in(*text)) return NVML_SUCCESS;
    *count = BUFFER_OF_USES;
    return NVML_ERROR_INSUFFICIENT_SIZE;
}

DEVICE_CALL(nvmlDeviceGetProcessUtilization,
            (nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples, uint *count, ulonglong last_seen),
            (device, samples, count, last_seen)) {
    const char *text;
    char word[96];
    nvmlReturn_t result = uses(device, &text, count, samples);
    if (result != NVML_SUCCESS) return result;
    uint filled = 0;
    while (next_word(&text, word)) {
        Use use = use_of(word);
        if (use.time <= last_seen) continue;
        samples[filled++] = (nvmlProcessUtilizationSample_t){(uint)use.pid,    use.time,          (uint)use.sm,
                                                             (uint)use.memory, (uint)use.encoder, (uint)use.decoder};
    }
    *count = filled;
    return filled ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

DEVICE_CALL(nvmlDeviceGetProcessesUtilizationInfo, (nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info),
            (device, info)) {
    const char *text;
    char word[96];
    if (!info) return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != FAKE_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = uses(device, &text, &info->processSamplesCount, info->procUtilArray);
    if (result != NVML_SUCCESS) return result;
    uint filled = 0;
    while (next_word(&text, word)) {
        Use use = use_of(word);
        if (use.time <= info->lastSeenTimeStamp) continue;
        info->procUtilArray[filled++] = (nvmlProcessUtilizationInfo_v1_t){
            use.time,          (uint)use.pid,     (uint)use.sm,  (uint)use.memory,
            (uint)use.encoder, (uint)use.decoder, (uint)use.jpeg, (uint)use.ofa};
    }
    info->processSamplesCount = filled;
    return filled ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* The samples of a kind, the newest last; one was taken every 167 ms. */
DEVICE_CALL(nvmlDeviceGetSamples,
            (nvmlDevice_t device, uint kind, ulonglong last_seen, uint *value_type, uint *count, nvmlSample_t *samples),
            (device, kind, last_seen, value_type, count, samples)) {
    enum { PERIOD_US = 167000, UINT_VALUE = 1 };
    char word[96];
    const char *text = answer_of(device, "nvmlDeviceGetSamples.%u", kind);
    nvmlReturn_t refusal = refusal_in(text);
    if (!count || !value_type || (samples && !*count)) return NVML_ERROR_INVALID_ARGUMENT;
    if (refusal != NVML_SUCCESS) return refusal;
    *value_type = UINT_VALUE;
    uint all = words_in(text), filled = 0;
    if (!samples) {
        *count = all;
        return NVML_SUCCESS;
    }
    for (uint at = 0; next_word(&text, word) && filled < *count; at++) {
        ulonglong time = clock_now_us() - (ulonglong)(all - 1 - at) * PERIOD_US;
        if (time > last_seen) samples[filled++] = (nvmlSample_t){time, {.uiVal = (uint)strtoul(word, NULL, 10)}};
    }
    *count = filled;
    return filled ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

/* The addresses of the pages that were retired for a cause. */
static nvmlReturn_t pages(const char *text, uint *count, ulonglong *addresses) {
    nvmlReturn_t refusal = refusal_in(text);
    if (!count) return NVML_ERROR_INVALID_ARGUMENT;
    if (refusal != NVML_SUCCESS) return refusal;
    uint room = *count;
    *count = words_in(text);
    if (*count > room) return NVML_ERROR_INSUFFICIENT_SIZE;
    return *count && !addresses ? NVML_ERROR_INVALID_ARGUMENT : numbers(text, addresses, (int)*count);
}

DEVICE_CALL(nvmlDeviceGetRetiredPages, (nvmlDevice_t device, uint cause, uint *count, ulonglong *addresses),
            (device, cause, count, addresses)) {
    (void)device;
    return pages(answer(".%u", cause), count, addresses);
}

DEVICE_CALL(nvmlDeviceGetRetiredPages_v2,
            (nvmlDevice_t device, uint cause, uint *count, ulonglong *addresses, ulonglong *times),
            (device, cause, count, addresses, times)) {
    nvmlReturn_t result = pages(answer_of(device, "nvmlDeviceGetRetiredPages.%u", cause), count, addresses);
    for (uint at = 0; result == NVML_SUCCESS && times && at < *count; at++) times[at] = clock_now_us();
    return result;
}
