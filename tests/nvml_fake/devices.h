/* The devices: handles, present devices, and how a handle is found. */
#pragma once
#include <stdbool.h>

#include "call.h"

/* Whether a handle is valid; an invalid handle may point to anything. */
bool devices_known(nvmlDevice_t device);

/* SUCCESS, GPU_IS_LOST for a removed GPU, INVALID_ARGUMENT for a removed MIG device or an invalid handle. */
nvmlReturn_t devices_presence(const struct nvmlDevice_st *device);

/* The handle of a GPU (mig -1) or a MIG device. */
nvmlDevice_t devices_handle(int gpu, int mig);

/* MIG devices that are created later are only found after the next initialisation. */
void devices_remember(void);
