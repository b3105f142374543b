/* The minimum cost of our daemon's work for eight GPUs: the calls of its fast poll once a second, all numbers of a page
 * printed again, the page compressed and served. The program checks nothing and does not handle failures.
 *
 *     floor PORT PAGE LIBRARY
 *
 * PAGE is a page of ours; a third of its numbers change with the values read. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "nvml_types.h"

enum { MAX_LINES = 100000, MAX_GPUS = 64, MAX_READINGS = 1024, MAX_CLIENTS = 64, FIELDS = 12, METRICS = 12 };

typedef struct {
    const char *text; /* a comment, or the text before the number */
    double number;
    int has_number;
} Line;

typedef struct {
    nvmlReturn_t (*utilization)(nvmlDevice_t, nvmlUtilization_t *), (*memory)(nvmlDevice_t, nvmlMemory_v2_t *),
        (*temperature)(nvmlDevice_t, nvmlTemperature_v1_t *), (*clock)(nvmlDevice_t, unsigned, unsigned *),
        (*reasons)(nvmlDevice_t, unsigned long long *), (*state)(nvmlDevice_t, unsigned *),
        (*fields)(nvmlDevice_t, int, nvmlFieldValue_t *), (*sample)(nvmlDevice_t, nvmlGpmSample_t),
        (*metrics)(nvmlGpmMetricsGet_t *), (*allocate)(nvmlGpmSample_t *);
} Calls;

typedef struct {
    nvmlDevice_t handle;
    nvmlGpmSample_t samples[2];
} Gpu;

static Calls calls;
static Gpu gpus[MAX_GPUS];
static unsigned gpu_count, reading_count, line_count;
static double readings[MAX_READINGS];
static Line lines[MAX_LINES];
static unsigned char *packed;
static size_t packed_size;

static void add_reading(nvmlReturn_t result, double number) {
    if (result == NVML_SUCCESS && reading_count < MAX_READINGS) readings[reading_count++] = number;
}

/* Makes the call first, because the call sets the number. */
#define ADD_READING(call, number)              \
    do {                                       \
        nvmlReturn_t result = (call);          \
        add_reading(result, (double)(number)); \
    } while (0)

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) exit((fprintf(stderr, "no %s\n", name), 1));
    return found;
}

static void open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) exit((fprintf(stderr, "%s\n", dlerror()), 1));
    calls = (Calls){symbol(library, "nvmlDeviceGetUtilizationRates"), symbol(library, "nvmlDeviceGetMemoryInfo_v2"),
                    symbol(library, "nvmlDeviceGetTemperatureV"), symbol(library, "nvmlDeviceGetClockInfo"),
                    symbol(library, "nvmlDeviceGetCurrentClocksEventReasons"),
                    symbol(library, "nvmlDeviceGetPerformanceState"), symbol(library, "nvmlDeviceGetFieldValues"),
                    symbol(library, "nvmlGpmSampleGet"), symbol(library, "nvmlGpmMetricsGet"),
                    symbol(library, "nvmlGpmSampleAlloc")};
    nvmlReturn_t (*initialise)(void) = symbol(library, "nvmlInit_v2");
    nvmlReturn_t (*count)(unsigned *) = symbol(library, "nvmlDeviceGetCount_v2");
    nvmlReturn_t (*handle)(unsigned, nvmlDevice_t *) = symbol(library, "nvmlDeviceGetHandleByIndex_v2");
    if (initialise() || count(&gpu_count)) exit((fprintf(stderr, "no driver\n"), 1));
    for (unsigned i = 0; i < gpu_count; i++) {
        handle(i, &gpus[i].handle);
        calls.allocate(&gpus[i].samples[0]);
        calls.allocate(&gpus[i].samples[1]);
    }
}

static void read_fields(nvmlDevice_t handle) {
    static const unsigned wanted[FIELDS] = {82, 186, 83, 74, 75, 76, 77, 160, 142, 143, 144, 145};
    nvmlFieldValue_t values[FIELDS] = {0};
    for (int i = 0; i < FIELDS; i++) values[i].fieldId = wanted[i];
    if (calls.fields(handle, FIELDS, values) != NVML_SUCCESS) return;
    for (int i = 0; i < FIELDS; i++) add_reading(values[i].nvmlReturn, (double)values[i].value.ullVal);
}

static void read_metrics(Gpu *gpu) {
    static const unsigned wanted[METRICS] = {1, 2, 3, 4, 5, 7, 10, 12, 20, 21, 60, 61};
    static union {
        nvmlGpmMetricsGet_t get;
        char room[sizeof(nvmlGpmMetricsGet_t) + METRICS * sizeof(nvmlGpmMetric_t)];
    } request;
    nvmlGpmSample_t newest = gpu->samples[0];
    calls.sample(gpu->handle, newest);
    request.get = (nvmlGpmMetricsGet_t){.version = NVML_GPM_METRICS_GET_VERSION, .numMetrics = METRICS,
                                      .sample1 = gpu->samples[1], .sample2 = newest};
    for (int i = 0; i < METRICS; i++) request.get.metrics[i].metricId = wanted[i];
    if (calls.metrics(&request.get) == NVML_SUCCESS)
        for (int i = 0; i < METRICS; i++) add_reading(request.get.metrics[i].nvmlReturn, request.get.metrics[i].value);
    gpu->samples[0] = gpu->samples[1];
    gpu->samples[1] = newest;
}

static void read_gpu(Gpu *gpu) {
    nvmlUtilization_t use;
    nvmlMemory_v2_t memory = {.version = FAKE_VERSION(nvmlMemory_v2_t, 2)};
    nvmlTemperature_v1_t temperature = {.version = FAKE_VERSION(nvmlTemperature_v1_t, 1)};
    unsigned number;
    unsigned long long reasons;
    ADD_READING(calls.utilization(gpu->handle, &use), use.gpu);
    ADD_READING(calls.memory(gpu->handle, &memory), memory.used);
    ADD_READING(calls.temperature(gpu->handle, &temperature), temperature.temperature);
    for (unsigned which = 1; which <= 2; which++) ADD_READING(calls.clock(gpu->handle, which, &number), number);
    ADD_READING(calls.reasons(gpu->handle, &reasons), reasons);
    ADD_READING(calls.state(gpu->handle, &number), number);
    read_fields(gpu->handle);
    read_metrics(gpu);
}

static void split(char *page) {
    for (char *line = strsep(&page, "\n"); line && line_count < MAX_LINES; line = strsep(&page, "\n")) {
        char *space = *line == '#' ? NULL : strrchr(line, ' ');
        if (space) *space = '\0';
        if (*line) lines[line_count++] = (Line){line, space ? atof(space + 1) : 0, space != NULL};
    }
}

static void pack(const char *page, size_t size) {
    z_stream stream = {0};
    deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    size_t room = deflateBound(&stream, size);
    packed = realloc(packed, room);
    stream.next_in = (unsigned char *)page, stream.avail_in = (unsigned)size;
    stream.next_out = packed, stream.avail_out = (unsigned)room;
    deflate(&stream, Z_FINISH);
    packed_size = stream.total_out;
    deflateEnd(&stream);
}

static void make_page(void) {
    char *page;
    size_t size;
    FILE *out = open_memstream(&page, &size);
    for (unsigned i = 0; i < line_count; i++) {
        double more = i % 3 == 0 && reading_count ? readings[i % reading_count] / 1024 : 0;
        if (lines[i].has_number) fprintf(out, "%s %.15g\n", lines[i].text, lines[i].number + more);
        else fprintf(out, "%s\n", lines[i].text);
    }
    fclose(out);
    pack(page, size);
    free(page);
}

static void poll_all(void) {
    reading_count = 0;
    for (unsigned i = 0; i < gpu_count; i++) read_gpu(&gpus[i]);
    make_page();
}

static int listening(int port) {
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int one = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(server, (struct sockaddr *)&here, sizeof here) || listen(server, 16)) exit((perror("listen"), 1));
    return server;
}

/* Answers one request. Returns false if the client has closed the connection. */
static int answer(int client) {
    char request[4096], head[256];
    if (read(client, request, sizeof request) <= 0) return 0;
    int length = snprintf(head, sizeof head,
                          "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Encoding: gzip\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          packed_size);
    return send(client, head, (size_t)length, MSG_MORE | MSG_NOSIGNAL) == length &&
           send(client, packed, packed_size, MSG_NOSIGNAL) == (ssize_t)packed_size;
}

static long milliseconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void serve_until(long due, struct pollfd *polled, nfds_t *count) {
    for (long left = due - milliseconds_now(); left > 0; left = due - milliseconds_now()) {
        if (poll(polled, *count, (int)left) <= 0) continue;
        for (nfds_t i = *count; i-- > 1;) {
            if (!polled[i].revents || answer(polled[i].fd)) continue;
            close(polled[i].fd);
            polled[i] = polled[--*count];
        }
        if (polled[0].revents && *count < MAX_CLIENTS)
            polled[(*count)++] = (struct pollfd){.fd = accept(polled[0].fd, NULL, NULL), .events = POLLIN};
    }
}

int main(int count, char **arguments) {
    if (count != 4) return fprintf(stderr, "usage: floor PORT PAGE LIBRARY\n"), 64;
    char *page = NULL;
    size_t room = 0;
    FILE *file = fopen(arguments[2], "r");
    if (!file || getdelim(&page, &room, '\0', file) < 0) return perror(arguments[2]), 1;
    fclose(file);
    split(page);
    open_library(arguments[3]);
    struct pollfd polled[MAX_CLIENTS] = {{.fd = listening(atoi(arguments[1])), .events = POLLIN}};
    nfds_t open_count = 1;
    for (long due = milliseconds_now();; due += 1000) {
        poll_all();
        serve_until(due + 1000, polled, &open_count);
    }
}
