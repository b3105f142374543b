/* Counts calls in a file shared by all processes, so that tests can check the number of calls, and rules can start and
 * end at a number of calls. tests/kits/fake_nvml/tally.py reads it. */
#pragma once
#include <stdint.h>

#define FAKE_GPUS 64
/* A GPU itself and its MIG devices. */
#define FAKE_PLACES_OF_GPU 8
#define FAKE_MIGS (FAKE_PLACES_OF_GPU - 1)
#define TALLY_ALL 0
#define TALLY_NODE 1
#define TALLY_SLOTS (2 + FAKE_GPUS * FAKE_PLACES_OF_GPU)

typedef struct {
    char name[56];
    uint64_t state;
    uint64_t counts[TALLY_SLOTS];
} Tally;

/* The column of a GPU (mig -1) or a MIG device. */
int tally_slot(int gpu, int mig);

/* The row of a call, NULL if the file cannot be written or is full. */
Tally *tally_of(const char *name);

/* Adds `more` for all devices, for this device, and for the GPU of a MIG device. */
void tally_add(Tally *tally, int slot, uint64_t more);

uint64_t tally_count(const Tally *tally, int slot);
