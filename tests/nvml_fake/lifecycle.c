#include "lifecycle.h"

#include <stddef.h>

#include "call.h"
#include "devices.h"
#include "state.h"

static unsigned int initialised;

bool lifecycle_initialised(void) { return initialised > 0; }

static nvmlReturn_t initialise(void) {
    const char *kernel = state_get("node.kernel");
    if (!kernel) return NVML_ERROR_DRIVER_NOT_LOADED;
    /* Library and kernel module come from one package; an upgrade without a restart leaves the old module. */
    if (state_number("node.kernel") != (unsigned long long)nvml_level) return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    if (initialised++ == 0) devices_remember();
    return NVML_SUCCESS;
}

EARLY_CALL(nvmlInitWithFlags, (unsigned int flags), (flags)) {
    (void)flags;
    return initialise();
}

EARLY_CALL(nvmlInit_v2, (void), ()) { return initialise(); }

NODE_CALL(nvmlShutdown, (void), ()) {
    initialised--;
    return NVML_SUCCESS;
}

NODE_CALL(nvmlSystemGetDriverVersion, (char *version, unsigned int length), (version, length)) {
    return text_into(own_answer(), version, length);
}

EARLY_CALL(nvmlSystemGetNVMLVersion, (char *version, unsigned int length), (version, length)) {
    return text_into(own_answer(), version, length);
}

static nvmlReturn_t cuda_version(int *version) {
    unsigned long long number;
    if (!version) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = numbers(answer_of(NULL, "nvmlSystemGetCudaDriverVersion"), &number, 1);
    if (result == NVML_SUCCESS) *version = (int)number;
    return result;
}

EARLY_CALL(nvmlSystemGetCudaDriverVersion, (int *version), (version)) { return cuda_version(version); }

EARLY_CALL(nvmlSystemGetCudaDriverVersion_v2, (int *version), (version)) { return cuda_version(version); }

NODE_CALL(nvmlSystemGetProcessName, (unsigned int pid, char *name, unsigned int length), (pid, name, length)) {
    const char *text = answer(".%u", pid);
    return text ? text_into(text, name, length) : NVML_ERROR_NOT_FOUND;
}
