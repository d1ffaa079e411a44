/* Connections that come and go, in MQTT 3.1.1. A closed one ends with a reset: its port would be taken for a minute. */

#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* As many as a listening socket has room for everywhere: beyond, a connection waits a second for its next try. */
enum { WAITING = 100, DEVICE = 4 };

static void come(const struct settings *asked, struct link *link, int poll_set, long number)
{
    char name[64], packet[128];
    struct linger at_once = {1, 0};
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = link};
    link_open(link, asked->host, asked->port, 0);
    setsockopt(link->socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    snprintf(name, sizeof name, "visitor-%ld", number);
    link_say(link, packet, mqtt_connect(packet, name, DEVICE));
    link_flush(link);
    if (epoll_ctl(poll_set, EPOLL_CTL_ADD, link->socket, &wanted))
        fail("epoll_ctl");
}

/* Whether it was answered and is gone. */
static int go(const struct settings *asked, struct link *link)
{
    link_receive(link);
    if (link->in_bytes < 4)
        return 0;
    errno = 0;
    if (link->in_bytes != 4 || memcmp(link->in, "\x20\x02\x00\x00", 4))
        fail("a connection was answered with %#x, code %d", (unsigned char) link->in[0], link->in[3]);
    link_took(link, 4);
    if (asked->goodbye) {
        link_say(link, "\xe0\x00", 2);
        link_flush(link);
    }
    link_close(link);
    return 1;
}

void connects(const struct settings *asked)
{
    static struct link links[WAITING];
    struct epoll_event found[WAITING];
    int poll_set = epoll_create1(EPOLL_CLOEXEC), waiting;
    long opened = 0, answered = 0;
    wait_for_go();
    uint64_t cpu = cpu_ns(), begun_ns = now_ns();
    for (waiting = 0; waiting < WAITING && opened < asked->connects; waiting++)
        come(asked, &links[waiting], poll_set, asked->first + opened++);
    while (answered < asked->connects) {
        int count = epoll_wait(poll_set, found, WAITING, 1000 * asked->patience_s);
        if (count <= 0)
            fail("%ld connections of %ld were answered, and then no more", answered, opened);
        for (int number = 0; number < count; number++) {
            struct link *link = found[number].data.ptr;
            if (!go(asked, link))
                continue;
            answered++;
            if (opened < asked->connects)
                come(asked, link, poll_set, asked->first + opened++);
        }
    }
    printf("{\"count\": %ld, \"ns\": %lu, \"cpu_ns\": %lu}\n", answered, now_ns() - begun_ns, cpu_ns() - cpu);
}
