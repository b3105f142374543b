/* The answers: a file `state` beside the library, with lines of `key=value` sorted by key. It is read again after it
 * was replaced. All functions are called with the lock of call.c held. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define FAKE_PATH_MAX 4096
#define FAKE_KEY_MAX 192

/* The path of a file beside the library. */
bool state_path(const char *name, char path[FAKE_PATH_MAX]);

/* Reads the file again if it was replaced. */
void state_refresh(void);

/* The value of a key, NULL if there is none. Valid until the next refresh. */
const char *state_get(const char *key);

/* The number of a key of the node, 0 if there is none. */
unsigned long long state_number(const char *key);

/* Calls `visit` with the value of each key that has this prefix, in order. */
void state_each(const char *prefix, void (*visit)(const char *value, void *context), void *context);
