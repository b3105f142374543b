/* nvmlErrorString, which needs no device, no driver and no initialisation. */
#include "nvml_types.h"

static const char *const words[] = {
    [0] = "Success",
    [1] = "Uninitialized",
    [2] = "Invalid Argument",
    [3] = "Not Supported",
    [4] = "Insufficient Permissions",
    [5] = "Already Initialized",
    [6] = "Not Found",
    [7] = "Insufficient Size",
    [8] = "Insufficient External Power",
    [9] = "Driver Not Loaded",
    [10] = "Timeout",
    [11] = "Interrupt Request Issue",
    [12] = "NVML Shared Library Not Found",
    [13] = "Function Not Found",
    [14] = "Corrupted infoROM",
    [15] = "GPU is lost",
    [16] = "GPU requires restart",
    [17] = "The operating system has blocked the request",
    [18] = "Driver/library version mismatch",
    [19] = "In use by another client",
    [20] = "Insufficient Memory",
    [21] = "No data",
    [22] = "The requested vgpu operation is not available on target device, because ECC is enabled",
    [23] = "Insufficient resources",
    [24] = "The requested frequency is not supported",
    [26] = "Requested functionality has been deprecated",
};

/* Later codes have no text, like in the vendor's library. */
const char *nvmlErrorString(nvmlReturn_t result) {
    unsigned int number = (unsigned int)result;
    const char *found = number < sizeof words / sizeof *words ? words[number] : 0;
    return found ? found : "Unknown Error";
}
