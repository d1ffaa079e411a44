/* What the program does, one of the two. */

#ifndef LOAD_H
#define LOAD_H

#include "speech.h"

void load(const struct settings *settings);

/* Clients that connect, are answered and go; at most a hundred wait for their answer at a time. */
void connects(const struct settings *settings);

uint64_t now_ns(void);
uint64_t cpu_ns(void);

/* Says that all is ready, and returns when a line comes. */
void wait_for_go(void);

#endif
