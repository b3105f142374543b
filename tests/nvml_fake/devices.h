/* The devices: which handles there are, which devices are there now, how a handle is found. */
#pragma once
#include <stdbool.h>

#include "call.h"

/* Whether a handle is one of ours; what it points to may be anything else. */
bool devices_known(nvmlDevice_t device);

/* SUCCESS; GPU_IS_LOST for a GPU that is not there any more, INVALID_ARGUMENT for a MIG device or for no handle. */
nvmlReturn_t devices_presence(const struct nvmlDevice_st *device);

/* The handle of a GPU (mig -1) or a MIG device. */
nvmlDevice_t devices_handle(int gpu, int mig);

/* MIG devices that are made later are not found before the next initialisation. */
void devices_remember(void);
