/* The location of a GPU: NVLink fabric and chassis; and the instances of a MIG device. */
#include <stdio.h>
#include <string.h>

#include "call.h"
#include "devices.h"

typedef unsigned int uint;
typedef unsigned long long ulonglong;

/* `<32 hex digits> <status> <clique> <state> <health mask> <health summary>` */
typedef struct {
    unsigned char uuid[16];
    uint status, clique, state, mask, summary;
} Fabric;

static nvmlReturn_t hex_into(const char *text, unsigned char *bytes, int count) {
    for (int at = 0; at < count; at++)
        if (sscanf(text + 2 * at, "%2hhx", &bytes[at]) != 1) return NVML_ERROR_UNKNOWN;
    return NVML_SUCCESS;
}

static nvmlReturn_t fabric_of(nvmlDevice_t device, Fabric *fabric) {
    char uuid[33];
    const char *text = answer_of(device, "nvmlDeviceGetGpuFabricInfo");
    nvmlReturn_t refusal = refusal_in(text);
    if (refusal != NVML_SUCCESS) return refusal;
    int words = sscanf(text, "%32s %u %u %u %u %u", uuid, &fabric->status, &fabric->clique, &fabric->state,
                       &fabric->mask, &fabric->summary);
    return words == 6 ? hex_into(uuid, fabric->uuid, 16) : NVML_ERROR_UNKNOWN;
}

DEVICE_CALL(nvmlDeviceGetGpuFabricInfo, (nvmlDevice_t device, nvmlGpuFabricInfo_t *info), (device, info)) {
    Fabric fabric;
    if (!info) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = fabric_of(device, &fabric);
    if (result != NVML_SUCCESS) return result;
    memcpy(info->clusterUuid, fabric.uuid, sizeof fabric.uuid);
    info->status = fabric.status;
    info->cliqueId = fabric.clique;
    info->state = (unsigned char)fabric.state;
    return NVML_SUCCESS;
}

static void fill_v2(const Fabric *fabric, nvmlGpuFabricInfo_v2_t *info) {
    memcpy(info->clusterUuid, fabric->uuid, sizeof fabric->uuid);
    info->status = fabric->status;
    info->cliqueId = fabric->clique;
    info->state = (unsigned char)fabric->state;
    info->healthMask = fabric->mask;
}

/* The third layout is the second with one member more; drivers before 580 do not know it. */
DEVICE_CALL(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *info), (device, info)) {
    enum { KNOWS_V3 = 580 };
    Fabric fabric;
    if (!info) return NVML_ERROR_INVALID_ARGUMENT;
    bool third = nvml_level >= KNOWS_V3 && info->version == FAKE_VERSION(nvmlGpuFabricInfo_v3_t, 3);
    bool second = info->version == FAKE_VERSION(nvmlGpuFabricInfo_v2_t, 2);
    if (!second && !third) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    nvmlReturn_t result = fabric_of(device, &fabric);
    if (result != NVML_SUCCESS) return result;
    fill_v2(&fabric, (nvmlGpuFabricInfo_v2_t *)info);
    if (third) info->healthSummary = (unsigned char)fabric.summary;
    return NVML_SUCCESS;
}

/* `<32 hex digits> <chassis serial> <slot> <tray> <host> <peer type> <module>` */
DEVICE_CALL(nvmlDeviceGetPlatformInfo, (nvmlDevice_t device, nvmlPlatformInfo_v2_t *info), (device, info)) {
    char guid[33], chassis[17];
    uint number[5];
    if (!info) return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != FAKE_VERSION(nvmlPlatformInfo_v2_t, 2)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const char *text = answer_of(device, "nvmlDeviceGetPlatformInfo");
    nvmlReturn_t refusal = refusal_in(text);
    if (refusal != NVML_SUCCESS) return refusal;
    int words = sscanf(text, "%32s %16s %u %u %u %u %u", guid, chassis, &number[0], &number[1], &number[2], &number[3],
                       &number[4]);
    if (words != 7) return NVML_ERROR_UNKNOWN;
    *info = (nvmlPlatformInfo_v2_t){.version = info->version,
                                    .slotNumber = (unsigned char)number[0],
                                    .trayIndex = (unsigned char)number[1],
                                    .hostId = (unsigned char)number[2],
                                    .peerType = (unsigned char)number[3],
                                    .moduleId = (unsigned char)number[4]};
    memcpy(info->chassisSerialNumber, chassis, strnlen(chassis, sizeof info->chassisSerialNumber));
    return hex_into(guid, info->ibGuid, 16);
}

DEVICE_CALL(nvmlDeviceGetAttributes_v2, (nvmlDevice_t device, nvmlDeviceAttributes_t *attributes),
            (device, attributes)) {
    ulonglong found[9];
    (void)device;
    if (!attributes) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = numbers(own_answer(), found, 9);
    if (result != NVML_SUCCESS) return result;
    *attributes = (nvmlDeviceAttributes_t){(uint)found[0], (uint)found[1], (uint)found[2],
                                           (uint)found[3], (uint)found[4], (uint)found[5],
                                           (uint)found[6], (uint)found[7], found[8]};
    return NVML_SUCCESS;
}

static nvmlReturn_t number_of_mig(int gpu, int mig, const char *call, ulonglong *found) {
    nvmlDevice_t device = devices_handle(gpu, mig);
    nvmlReturn_t presence = devices_presence(device);
    return presence == NVML_SUCCESS ? numbers(answer_of(device, "%s", call), found, 1) : presence;
}

/* A GPU instance has the answers of its first MIG device. */
DEVICE_CALL(nvmlDeviceGetGpuInstanceById, (nvmlDevice_t device, uint id, nvmlGpuInstance_t *instance),
            (device, id, instance)) {
    ulonglong found;
    if (!instance || device->mig >= 0) return NVML_ERROR_INVALID_ARGUMENT;
    for (int mig = 0; mig < FAKE_MIGS; mig++) {
        nvmlReturn_t result = number_of_mig(device->gpu, mig, "nvmlDeviceGetGpuInstanceId", &found);
        if (result != NVML_SUCCESS || found != id) continue;
        *instance = (nvmlGpuInstance_t)devices_handle(device->gpu, mig);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

/* `<id> <profile> <start> <size>` of the first MIG device in it. */
FAKE_CALL(nvmlGpuInstanceGetInfo, ON_DEVICE, (nvmlDevice_t)instance,
          (nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info), (instance, info)) {
    ulonglong found[3], id;
    nvmlDevice_t device = (nvmlDevice_t)instance;
    if (!info) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = number_of_mig(device->gpu, device->mig, "nvmlDeviceGetGpuInstanceId", &id);
    if (result == NVML_SUCCESS) result = numbers(own_answer(), found, 3);
    if (result != NVML_SUCCESS) return result;
    *info = (nvmlGpuInstanceInfo_t){devices_handle(device->gpu, -1), (uint)id, (uint)found[0],
                                    {(uint)found[1], (uint)found[2]}};
    return NVML_SUCCESS;
}

/* `<id> <P2P> <slices> <instances> <multiprocessors> <copy> <decoders> <encoders> <jpeg> <ofa> <MiB> <name>` */
static nvmlReturn_t profile_of(const char *text, nvmlGpuInstanceProfileInfo_t *info, char name[96]) {
    nvmlReturn_t refusal = refusal_in(text);
    if (refusal != NVML_SUCCESS) return refusal;
    int words = sscanf(text, "%u %u %u %u %u %u %u %u %u %u %llu %95[^\n]", &info->id, &info->isP2pSupported,
                       &info->sliceCount, &info->instanceCount, &info->multiprocessorCount, &info->copyEngineCount,
                       &info->decoderCount, &info->encoderCount, &info->jpegCount, &info->ofaCount, &info->memorySizeMB,
                       name);
    return words == 12 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

DEVICE_CALL(nvmlDeviceGetGpuInstanceProfileInfo,
            (nvmlDevice_t device, uint profile, nvmlGpuInstanceProfileInfo_t *info), (device, profile, info)) {
    char name[96];
    (void)device;
    return info ? profile_of(answer(".%u", profile), info, name) : NVML_ERROR_INVALID_ARGUMENT;
}

DEVICE_CALL(nvmlDeviceGetGpuInstanceProfileInfoV,
            (nvmlDevice_t device, uint profile, nvmlGpuInstanceProfileInfo_v2_t *info), (device, profile, info)) {
    nvmlGpuInstanceProfileInfo_t found;
    if (!info) return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != FAKE_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const char *text = answer_of(device, "nvmlDeviceGetGpuInstanceProfileInfo.%u", profile);
    nvmlReturn_t result = profile_of(text, &found, info->name);
    if (result == NVML_SUCCESS) {
        info->memorySizeMB = found.memorySizeMB;
        memcpy(&info->id, &found, 10 * sizeof found.id);
    }
    return result;
}
