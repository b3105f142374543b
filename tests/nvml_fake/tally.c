#include "tally.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"

enum { ROWS = 256, FREE = 0, CLAIMED = 1, NAMED = 2 };

static Tally *rows(void) {
    static Tally *mapped;
    char path[FAKE_PATH_MAX];
    if (mapped || !state_path("calls", path)) return mapped;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return NULL;
    if (ftruncate(file, sizeof(Tally) * ROWS) == 0) {
        void *memory = mmap(NULL, sizeof(Tally) * ROWS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (memory != MAP_FAILED) mapped = memory;
    }
    close(file);
    return mapped;
}

int tally_slot(int gpu, int mig) { return 2 + gpu * FAKE_PLACES_OF_GPU + mig + 1; }

Tally *tally_of(const char *name) {
    Tally *row = rows();
    for (Tally *end = row ? row + ROWS : row; row < end; row++) {
        uint64_t free = FREE;
        if (__atomic_compare_exchange_n(&row->state, &free, CLAIMED, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            strncpy(row->name, name, sizeof row->name - 1);
            __atomic_store_n(&row->state, NAMED, __ATOMIC_RELEASE);
            return row;
        }
        /* Another process is writing its name there; if it was killed meanwhile, the row remains unused. */
        for (int spin = 0; spin < 1000 && __atomic_load_n(&row->state, __ATOMIC_ACQUIRE) != NAMED; spin++) usleep(10);
        if (strncmp(row->name, name, sizeof row->name) == 0) return row;
    }
    return NULL;
}

static void add(uint64_t *count, uint64_t more) { __atomic_fetch_add(count, more, __ATOMIC_RELAXED); }

void tally_add(Tally *tally, int slot, uint64_t more) {
    if (!tally) return;
    add(&tally->counts[TALLY_ALL], more);
    add(&tally->counts[slot], more);
    int mig = slot > TALLY_NODE ? (slot - 2) % FAKE_PLACES_OF_GPU : 0;
    if (mig) add(&tally->counts[slot - mig], more);
}

uint64_t tally_count(const Tally *tally, int slot) {
    return tally ? __atomic_load_n(&tally->counts[slot], __ATOMIC_RELAXED) : 0;
}
