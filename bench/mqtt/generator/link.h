/* One connection of the generator: TCP, or TLS over it; blocking while it is set up, then without waiting. */

#ifndef LINK_H
#define LINK_H

#include <stddef.h>
#include <stdint.h>

struct link {
    int socket;
    struct ssl_st *tls;         /* NULL over plain TCP */
    int index;                  /* among publishers, or among consumers */
    int is_consumer;
    int is_blocked;             /* the socket takes no more for now */
    char *in, *out;
    size_t in_bytes, in_room;
    size_t out_sent, out_bytes, out_room;
    uint64_t sent, acknowledged;    /* of a publisher */
    uint64_t delivered, settled;    /* of a consumer */
    unsigned char *seen;            /* of a publisher: a bit for each message that was delivered */
    size_t seen_bytes;
};

void fail(const char *what, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Connected, with its handshake done. */
void link_open(struct link *link, const char *host, int port, int is_tls);
void link_unblock(struct link *link);
void link_close(struct link *link);

/* Adds to what is to be sent; link_flush sends what the socket takes, all of it while the link is being set up. */
char *link_room(struct link *link, size_t bytes);
void link_say(struct link *link, const void *data, size_t bytes);
void link_flush(struct link *link);

/* Adds what the socket has to `in`; link_took takes the first bytes out of it. */
void link_receive(struct link *link);
void link_took(struct link *link, size_t bytes);

#endif
