/* nvmlDeviceGetFieldValues: each field has its own code, type and time. `field.<id>.<scope>=<kind> <value>`. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "clock.h"
#include "state.h"

typedef unsigned int uint;
typedef unsigned long long ulonglong;
typedef enum { DOUBLE, UINT, ULONG, ULLONG, LLONG, INT, USHORT } Kind_of_value;

static const char *const kinds[] = {"double", "uint", "ulong", "ullong", "llong", "int", "ushort"};

/* Fields with a number of another call: the call, the word of its answer, and the type. */
static const struct {
    uint id;
    const char *call;
    int word;
    Kind_of_value kind;
} same_as_call[] = {
    {1, "nvmlDeviceGetEccMode", 0, UINT},
    {2, "nvmlDeviceGetEccMode", 1, UINT},
    {3, "nvmlDeviceGetTotalEccErrors.0.0", 0, ULLONG},
    {4, "nvmlDeviceGetTotalEccErrors.1.0", 0, ULLONG},
    {5, "nvmlDeviceGetTotalEccErrors.0.1", 0, ULLONG},
    {6, "nvmlDeviceGetTotalEccErrors.1.1", 0, ULLONG},
    {31, "nvmlDeviceGetRetiredPagesPendingStatus", 0, UINT},
    {83, "nvmlDeviceGetTotalEnergyConsumption", 0, ULLONG},
    {94, "nvmlDeviceGetPcieReplayCounter", 0, UINT},
    {142, "nvmlDeviceGetRemappedRows", 0, UINT},
    {143, "nvmlDeviceGetRemappedRows", 1, UINT},
    {144, "nvmlDeviceGetRemappedRows", 2, UINT},
    {145, "nvmlDeviceGetRemappedRows", 3, UINT},
    {187, "nvmlDeviceGetPowerManagementLimitConstraints", 0, UINT},
    {188, "nvmlDeviceGetPowerManagementLimitConstraints", 1, UINT},
    {189, "nvmlDeviceGetPowerManagementDefaultLimit", 0, UINT},
    {190, "nvmlDeviceGetEnforcedPowerLimit", 0, UINT},
    {192, "nvmlDeviceGetPowerManagementLimit", 0, UINT},
};

static void fill(nvmlFieldValue_t *field, Kind_of_value kind, const char *text) {
    char *end;
    double number = strtod(text, &end), more = moved(end);
    long long whole = (long long)more;
    field->valueType = kind;
    switch (kind) {
        case DOUBLE: field->value.dVal = number + more; break;
        case UINT: field->value.uiVal = (uint)(strtoul(text, NULL, 10) + (ulonglong)whole); break;
        case ULONG: field->value.ulVal = strtoul(text, NULL, 10) + (ulonglong)whole; break;
        case ULLONG: field->value.ullVal = strtoull(text, NULL, 10) + (ulonglong)whole; break;
        case LLONG: field->value.sllVal = strtoll(text, NULL, 10) + whole; break;
        case INT: field->value.siVal = (int)(strtol(text, NULL, 10) + whole); break;
        case USHORT: field->value.usVal = (unsigned short)(strtoul(text, NULL, 10) + (ulonglong)whole); break;
    }
}

static nvmlReturn_t fill_from_call(nvmlDevice_t device, nvmlFieldValue_t *field) {
    for (size_t row = 0; row < sizeof same_as_call / sizeof *same_as_call; row++) {
        if (same_as_call[row].id != field->fieldId || field->scopeId != 0) continue;
        const char *text = answer_of(device, "%s", same_as_call[row].call);
        nvmlReturn_t refusal = refusal_in(text);
        if (refusal != NVML_SUCCESS) return refusal;
        for (int word = 0; word < same_as_call[row].word && (text = strchr(text, ' ')); word++) text++;
        if (!text) return NVML_ERROR_UNKNOWN;
        fill(field, same_as_call[row].kind, text);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t fill_from_text(const char *text, nvmlFieldValue_t *field) {
    nvmlReturn_t refusal = refusal_in(text);
    const char *space = strchr(text, ' ');
    if (refusal != NVML_SUCCESS) return refusal;
    for (int kind = DOUBLE; space && kind <= USHORT; kind++) {
        if (strncmp(text, kinds[kind], (size_t)(space - text)) != 0) continue;
        fill(field, (Kind_of_value)kind, space + 1);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_UNKNOWN;
}

static const char *field_answer(nvmlDevice_t device, const nvmlFieldValue_t *field) {
    char scope[16] = "all";
    if (field->scopeId != UINT_MAX) snprintf(scope, sizeof scope, "%u", field->scopeId);
    return answer_of(device, "field.%u.%s", field->fieldId, scope);
}

static void answer_field(nvmlDevice_t device, nvmlFieldValue_t *field) {
    enum { TYPICAL_COST_US = 4 };
    const char *text = field_answer(device, field);
    *field = (nvmlFieldValue_t){.fieldId = field->fieldId, .scopeId = field->scopeId};
    /* The driver does the same with ECC counters while ECC is off. */
    if (text && strcmp(text, "blank") == 0) return;
    field->timestamp = (long long)clock_now_us();
    field->latencyUsec = TYPICAL_COST_US;
    if (field->fieldId >= state_number("node.field_limit")) field->nvmlReturn = NVML_ERROR_INVALID_ARGUMENT;
    else field->nvmlReturn = text ? fill_from_text(text, field) : fill_from_call(device, field);
    if (field->nvmlReturn == NVML_SUCCESS) call_spend("field.%u", field->fieldId);
}

DEVICE_CALL(nvmlDeviceGetFieldValues, (nvmlDevice_t device, int count, nvmlFieldValue_t *values),
            (device, count, values)) {
    if (!values || count < 0) return NVML_ERROR_INVALID_ARGUMENT;
    /* A driver that refuses the whole call because of one field. */
    for (int at = 0; at < count; at++)
        if (values[at].fieldId && values[at].fieldId == state_number("node.hated_field")) return NVML_ERROR_INVALID_ARGUMENT;
    for (int at = 0; at < count; at++) answer_field(device, &values[at]);
    return NVML_SUCCESS;
}
