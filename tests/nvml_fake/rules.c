#include "rules.h"

#include <stdio.h>
#include <string.h>

#include "state.h"

enum { EVERYWHERE, NODE, GPU, MIG };

typedef struct {
    const char *name;
    const struct nvmlDevice_st *device;
    const Moment *moment;
    unsigned long long number;
    bool found;
} Search;

Moment rules_moment(const Tally *all, const Tally *own, const struct nvmlDevice_st *device) {
    const Tally *both[2] = {all, own};
    Moment moment;
    for (int which = 0; which < 2; which++) {
        moment.calls[which][EVERYWHERE] = tally_count(both[which], TALLY_ALL);
        moment.calls[which][NODE] = tally_count(both[which], TALLY_NODE);
        moment.calls[which][GPU] = device ? tally_count(both[which], tally_slot(device->gpu, -1)) : 0;
        moment.calls[which][MIG] = device ? tally_count(both[which], tally_slot(device->gpu, device->mig)) : 0;
    }
    return moment;
}

/* The kind of the rule's device (EVERYWHERE, NODE, GPU, MIG) if it matches this device, else -1. */
static int level_of(const char *place, const struct nvmlDevice_st *device) {
    int gpu, mig;
    if (strcmp(place, "*") == 0) return EVERYWHERE;
    if (strcmp(place, "node") == 0) return device ? -1 : NODE;
    int words = sscanf(place, "%d/%d", &gpu, &mig);
    if (!device || words < 1 || gpu != device->gpu) return -1;
    return words == 1 ? GPU : mig == device->mig ? MIG : -1;
}

static void consider(const char *rule, void *context) {
    Search *search = context;
    char name[64], place[16];
    unsigned long long number, first, last;
    if (sscanf(rule, "%63s %15s %llu %llu %llu", name, place, &number, &first, &last) != 5) return;
    bool any = strcmp(name, "*") == 0;
    if (!any && strcmp(name, search->name) != 0) return;
    int level = level_of(place, search->device);
    if (level < 0) return;
    unsigned long long calls = search->moment->calls[any ? 0 : 1][level];
    if (calls <= first || (last && calls > last)) return;
    search->number = number;
    search->found = true;
}

static Search search_for(const char *prefix, const char *name, const struct nvmlDevice_st *device,
                         const Moment *moment) {
    Search search = {name, device, moment, 0, false};
    state_each(prefix, consider, &search);
    return search;
}

unsigned long long rules_delay(const char *name, const struct nvmlDevice_st *device, const Moment *moment) {
    return search_for("delay.", name, device, moment).number;
}

bool rules_refuse(const char *name, const struct nvmlDevice_st *device, const Moment *moment, nvmlReturn_t *result) {
    Search search = search_for("fault.", name, device, moment);
    if (search.found) *result = (nvmlReturn_t)search.number;
    return search.found;
}

bool rules_lost(const struct nvmlDevice_st *device) {
    /* As for one more call now. */
    Moment next = rules_moment(tally_of("*"), NULL, device);
    for (int level = 0; level < 4; level++) next.calls[0][level]++;
    Search search = search_for("fault.", "", device, &next);
    return search.found && search.number == NVML_ERROR_GPU_IS_LOST;
}
