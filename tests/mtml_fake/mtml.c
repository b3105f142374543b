/* A libmtml.so.2 for tests: the calls that the reader makes, answered from a file that the test writes.
 *
 * MTML_FAKE names the file; it is read at every call. A line is a device, a key and the answer: "0 power 120500",
 * "0 power !5" for an error, "node count 2". Without a line the answer is "not supported". The instances of
 * card 0 are the devices 0/0, 0/1 … Every call adds its name and device to the file MTML_FAKE.calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUCCESS 0
#define INVALID_ARGUMENT 3
#define NOT_SUPPORTED 4
#define LONGEST 256

typedef struct { char place[32]; } Handle;
typedef struct {
    char sbdf[32];
    unsigned segment, bus, device, pci_device_id, pci_subsystem_id, bus_width;
    float max_speed, current_speed;
    unsigned max_width, current_width, max_generation, current_generation;
    int reserved[6];
} PciInfo;
typedef struct { unsigned bits, more; } Property;
typedef struct { unsigned version, bandwidth, links, reserved[4]; } LinkSpec;
typedef struct { unsigned utilization, period, encoder, decoder; int reserved[2]; } CodecUtilization;
typedef struct { unsigned single_bit, double_bit; } RetiredPages;

static void note(const char *place, const char *call)
{
    char path[LONGEST];
    snprintf(path, sizeof path, "%s.calls", getenv("MTML_FAKE"));
    FILE *calls = fopen(path, "a");
    if (calls != NULL) {
        fprintf(calls, "%s %s\n", call, place);
        fclose(calls);
    }
}

/* The answer of a line, or its error. */
static unsigned told(const char *place, const char *key, char *answer)
{
    char line[LONGEST], beginning[LONGEST];
    unsigned code = NOT_SUPPORTED;
    FILE *file = fopen(getenv("MTML_FAKE"), "r");
    snprintf(beginning, sizeof beginning, "%s %s ", place, key);
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, beginning, strlen(beginning)) != 0)
            continue;
        snprintf(answer, LONGEST, "%s", line + strlen(beginning));
        answer[strcspn(answer, "\n")] = '\0';
        code = answer[0] == '!' ? (unsigned)atoi(answer + 1) : SUCCESS;
    }
    if (file != NULL)
        fclose(file);
    return code;
}

static unsigned numbers(const char *place, const char *key, unsigned long long *found, int count)
{
    char answer[LONGEST], *rest = answer;
    unsigned code = told(place, key, answer);
    for (int each = 0; code == SUCCESS && each < count; each++)
        found[each] = strtoull(rest, &rest, 10);
    return code;
}

static unsigned number(const Handle *of, const char *call, const char *key, unsigned *found)
{
    unsigned long long value = 0;
    note(of->place, call);
    unsigned code = numbers(of->place, key, &value, 1);
    *found = (unsigned)value;
    return code;
}

static unsigned text(const char *place, const char *call, const char *key, char *found, unsigned size)
{
    char answer[LONGEST];
    note(place, call);
    unsigned code = told(place, key, answer);
    if (code == SUCCESS)
        snprintf(found, size, "%s", answer);
    return code;
}

static unsigned made(const char *place, const char *call, Handle **handle)
{
    note(place, call);
    *handle = malloc(sizeof **handle);
    snprintf((*handle)->place, sizeof (*handle)->place, "%s", place);
    return SUCCESS;
}

static unsigned freed(Handle *handle, const char *call)
{
    note(handle->place, call);
    free(handle);
    return SUCCESS;
}

/* --- the library */

unsigned mtmlLibraryInit(Handle **library)
{
    char answer[LONGEST];
    unsigned code = told("node", "init", answer);
    if (code != SUCCESS && code != NOT_SUPPORTED) {
        note("node", "mtmlLibraryInit");
        return code;
    }
    return made("node", "mtmlLibraryInit", library);
}
unsigned mtmlLibraryShutDown(Handle *library) { return freed(library, "mtmlLibraryShutDown"); }
unsigned mtmlLibraryInitSystem(Handle *library, Handle **system) { return made(library->place, "mtmlLibraryInitSystem", system); }
unsigned mtmlLibraryFreeSystem(Handle *system) { return freed(system, "mtmlLibraryFreeSystem"); }
unsigned mtmlLibraryGetVersion(Handle *library, char *found, unsigned size)
{
    return text(library->place, "mtmlLibraryGetVersion", "version", found, size);
}
unsigned mtmlSystemGetDriverVersion(Handle *system, char *found, unsigned size)
{
    return text(system->place, "mtmlSystemGetDriverVersion", "driver", found, size);
}
unsigned mtmlLibraryCountDevice(Handle *library, unsigned *count)
{
    return number(library, "mtmlLibraryCountDevice", "count", count);
}
unsigned mtmlLibraryInitDeviceByIndex(Handle *library, unsigned index, Handle **device)
{
    char place[32], answer[LONGEST];
    snprintf(place, sizeof place, "%u", index);
    unsigned code = told(place, "open", answer);
    if (library == NULL || (code != SUCCESS && code != NOT_SUPPORTED))
        return code;
    return made(place, "mtmlLibraryInitDeviceByIndex", device);
}
unsigned mtmlLibraryFreeDevice(Handle *device) { return freed(device, "mtmlLibraryFreeDevice"); }
const char *mtmlErrorString(unsigned code) { return code == SUCCESS ? "success" : "an error"; }

/* --- a card */

unsigned mtmlDeviceGetName(Handle *of, char *found, unsigned size) { return text(of->place, "mtmlDeviceGetName", "name", found, size); }
unsigned mtmlDeviceGetUUID(Handle *of, char *found, unsigned size) { return text(of->place, "mtmlDeviceGetUUID", "uuid", found, size); }
unsigned mtmlDeviceGetSerialNumber(Handle *of, unsigned size, char *found)
{
    return text(of->place, "mtmlDeviceGetSerialNumber", "serial", found, size);
}
unsigned mtmlDeviceGetMtBiosVersion(Handle *of, char *found, unsigned size)
{
    return text(of->place, "mtmlDeviceGetMtBiosVersion", "firmware", found, size);
}
unsigned mtmlDeviceGetPciInfo(Handle *of, PciInfo *found)
{
    unsigned long long link[4] = {0};
    memset(found, 0, sizeof *found);
    unsigned code = text(of->place, "mtmlDeviceGetPciInfo", "address", found->sbdf, sizeof found->sbdf);
    numbers(of->place, "link", link, 4);
    found->current_generation = (unsigned)link[0];
    found->max_generation = (unsigned)link[1];
    found->current_width = (unsigned)link[2];
    found->max_width = (unsigned)link[3];
    return code;
}
/* virtCap 1 bit, virtRole 3, mpcCap 1, mpcType 3, mtLinkCap 1 */
unsigned mtmlDeviceGetProperty(Handle *of, Property *found)
{
    unsigned long long told_of[3] = {0};
    note(of->place, "mtmlDeviceGetProperty");
    unsigned code = numbers(of->place, "property", told_of, 3);
    found->bits = (unsigned)(told_of[0] << 1 | told_of[1] << 4 | told_of[2] << 5);
    found->more = 0;
    return code;
}
unsigned mtmlDeviceGetPowerUsage(Handle *of, unsigned *found) { return number(of, "mtmlDeviceGetPowerUsage", "power", found); }
unsigned mtmlDeviceCountFan(Handle *of, unsigned *found) { return number(of, "mtmlDeviceCountFan", "fans", found); }
unsigned mtmlDeviceGetFanSpeed(Handle *of, unsigned fan, unsigned *found)
{
    char key[32];
    snprintf(key, sizeof key, "fan%u", fan);
    return number(of, "mtmlDeviceGetFanSpeed", key, found);
}
unsigned mtmlDeviceGetMtLinkSpec(Handle *of, LinkSpec *found)
{
    memset(found, 0, sizeof *found);
    return number(of, "mtmlDeviceGetMtLinkSpec", "links", &found->links);
}
unsigned mtmlDeviceGetMtLinkState(Handle *of, unsigned link, unsigned *found)
{
    char key[32];
    snprintf(key, sizeof key, "link%u", link);
    return number(of, "mtmlDeviceGetMtLinkState", key, found);
}
unsigned mtmlDeviceCountMpcInstances(Handle *of, unsigned *found)
{
    return number(of, "mtmlDeviceCountMpcInstances", "instances", found);
}
unsigned mtmlDeviceGetMpcInstanceByIndex(Handle *of, unsigned index, Handle **instance)
{
    char place[48];
    snprintf(place, sizeof place, "%s/%u", of->place, index);
    return made(place, "mtmlDeviceGetMpcInstanceByIndex", instance);
}

/* --- instances of a card */

unsigned mtmlDeviceInitGpu(Handle *of, Handle **part) { return made(of->place, "mtmlDeviceInitGpu", part); }
unsigned mtmlDeviceFreeGpu(Handle *part) { return freed(part, "mtmlDeviceFreeGpu"); }
unsigned mtmlDeviceInitMemory(Handle *of, Handle **part) { return made(of->place, "mtmlDeviceInitMemory", part); }
unsigned mtmlDeviceFreeMemory(Handle *part) { return freed(part, "mtmlDeviceFreeMemory"); }
unsigned mtmlDeviceInitVpu(Handle *of, Handle **part) { return made(of->place, "mtmlDeviceInitVpu", part); }
unsigned mtmlDeviceFreeVpu(Handle *part) { return freed(part, "mtmlDeviceFreeVpu"); }

unsigned mtmlGpuGetUtilization(Handle *of, unsigned *found) { return number(of, "mtmlGpuGetUtilization", "utilization", found); }
unsigned mtmlGpuGetTemperature(Handle *of, unsigned *found) { return number(of, "mtmlGpuGetTemperature", "temperature", found); }
unsigned mtmlGpuGetClock(Handle *of, unsigned *found) { return number(of, "mtmlGpuGetClock", "clock", found); }
unsigned mtmlGpuGetMaxClock(Handle *of, unsigned *found) { return number(of, "mtmlGpuGetMaxClock", "max_clock", found); }
unsigned mtmlMemoryGetClock(Handle *of, unsigned *found) { return number(of, "mtmlMemoryGetClock", "memory_clock", found); }
unsigned mtmlMemoryGetMaxClock(Handle *of, unsigned *found) { return number(of, "mtmlMemoryGetMaxClock", "max_memory_clock", found); }
unsigned mtmlVpuGetClock(Handle *of, unsigned *found) { return number(of, "mtmlVpuGetClock", "video_clock", found); }
unsigned mtmlVpuGetMaxClock(Handle *of, unsigned *found) { return number(of, "mtmlVpuGetMaxClock", "max_video_clock", found); }
unsigned mtmlMemoryGetRetiredPagesPendingStatus(Handle *of, unsigned *found)
{
    return number(of, "mtmlMemoryGetRetiredPagesPendingStatus", "pending", found);
}
unsigned mtmlMemoryGetTotal(Handle *of, unsigned long long *found)
{
    note(of->place, "mtmlMemoryGetTotal");
    return numbers(of->place, "total", found, 1);
}
unsigned mtmlMemoryGetUsed(Handle *of, unsigned long long *found)
{
    note(of->place, "mtmlMemoryGetUsed");
    return numbers(of->place, "used", found, 1);
}
unsigned mtmlMemoryGetEccMode(Handle *of, unsigned *current, unsigned *pending)
{
    unsigned long long modes[2] = {0};
    note(of->place, "mtmlMemoryGetEccMode");
    unsigned code = numbers(of->place, "ecc", modes, 2);
    *current = (unsigned)modes[0];
    *pending = (unsigned)modes[1];
    return code;
}
/* Only the counters that the reader uses: DRAM errors since the driver was loaded, and over the card's life. */
unsigned mtmlMemoryGetEccErrorCounter(Handle *of, unsigned kind, unsigned counter, unsigned location, unsigned long long *found)
{
    note(of->place, "mtmlMemoryGetEccErrorCounter");
    static const char *const keys[2][2] = {{"corrected", "uncorrected"}, {"ever_corrected", "ever_uncorrected"}};
    if (kind > 1 || counter > 1 || location != 1)
        return INVALID_ARGUMENT;
    return numbers(of->place, keys[counter][kind], found, 1);
}
unsigned mtmlMemoryGetRetiredPagesCount(Handle *of, RetiredPages *found)
{
    unsigned long long pages[2] = {0};
    note(of->place, "mtmlMemoryGetRetiredPagesCount");
    unsigned code = numbers(of->place, "retired", pages, 2);
    found->single_bit = (unsigned)pages[0];
    found->double_bit = (unsigned)pages[1];
    return code;
}
unsigned mtmlVpuGetUtilization(Handle *of, CodecUtilization *found)
{
    unsigned long long shares[2] = {0};
    memset(found, 0, sizeof *found);
    note(of->place, "mtmlVpuGetUtilization");
    unsigned code = numbers(of->place, "codecs", shares, 2);
    found->encoder = (unsigned)shares[0];
    found->decoder = (unsigned)shares[1];
    return code;
}
