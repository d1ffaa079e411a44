/* Many connections to a broker in one thread: `many speech=mqtt host=127.0.0.1 port=1883 publishers=1000 window=1 ms=4000`.

   Prints "ready" when all are connected, begins when a line comes on its standard input, and prints a line of JSON: how
   much was done in which time, with the processor time of this program. Whatever is wrong ends it with 1. */

#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000000000ull + used.tv_nsec;
}

void wait_for_go(void)
{
    printf("ready\n");
    fflush(stdout);
    if (getchar() == EOF)
        exit(0);
}

static void read_setting(struct settings *settings, const char *argument)
{
    const struct { const char *name; const char **text; int *number; long *large; } known[] = {
        {"speech", &settings->speech, NULL, NULL}, {"host", &settings->host, NULL, NULL},
        {"topic", &settings->topic, NULL, NULL}, {"port", NULL, &settings->port, NULL},
        {"publishers", NULL, &settings->publishers, NULL}, {"consumers", NULL, &settings->consumers, NULL},
        {"topics", NULL, &settings->topics, NULL}, {"window", NULL, &settings->window, NULL},
        {"rate", NULL, &settings->rate, NULL}, {"ms", NULL, &settings->ms, NULL},
        {"messages", NULL, NULL, &settings->messages}, {"connects", NULL, NULL, &settings->connects},
        {"first", NULL, NULL, &settings->first}, {"goodbye", NULL, &settings->goodbye, NULL},
        {"patience_s", NULL, &settings->patience_s, NULL},
    };
    const char *value = strchr(argument, '=');
    for (size_t each = 0; value && each < sizeof known / sizeof *known; each++) {
        if (strncmp(argument, known[each].name, value - argument) || known[each].name[value - argument])
            continue;
        if (known[each].text)
            *known[each].text = value + 1;
        else if (known[each].number)
            *known[each].number = atoi(value + 1);
        else
            *known[each].large = atol(value + 1);
        return;
    }
    errno = 0;
    fail("many: no setting %s", argument);
}

int main(int argc, char **argv)
{
    struct settings settings = {.speech = "mqtt", .host = "127.0.0.1", .topic = "bench/", .topics = 1, .window = 1,
                                .goodbye = 1, .patience_s = 30};
    for (int each = 1; each < argc; each++)
        read_setting(&settings, argv[each]);
    signal(SIGPIPE, SIG_IGN);
    /* Wake up when a message is due, not 50 us later. */
    prctl(PR_SET_TIMERSLACK, 1);
    if (settings.connects)
        connects(&settings);
    else
        load(&settings);
    return 0;
}
