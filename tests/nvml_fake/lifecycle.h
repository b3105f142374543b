/* Initialising and shutting down, which are counted, and what is told about the node as a whole. */
#pragma once
#include <stdbool.h>

bool lifecycle_initialised(void);
