/* The answers: a file `state` beside the library, lines of `key=value` in the order of their keys. It is read again
 * whenever it was replaced. Everything here is called with the lock of call.c held. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define FAKE_PATH_MAX 4096
#define FAKE_KEY_MAX 192

/* The path of a file beside the library. */
bool state_path(const char *name, char path[FAKE_PATH_MAX]);

/* Reads the file again if it is another one by now. */
void state_refresh(void);

/* The value of a key, NULL if there is none. Good until the next refresh. */
const char *state_get(const char *key);

/* The number that a key of the node has, 0 if there is none. */
unsigned long long state_number(const char *key);

/* Calls `visit` with the value of each key that begins so, in order. */
void state_each(const char *prefix, void (*visit)(const char *value, void *context), void *context);
