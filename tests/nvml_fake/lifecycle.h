/* Initialisation and shutdown, which are counted, and calls about the node as a whole. */
#pragma once
#include <stdbool.h>

bool lifecycle_initialised(void);
