/* What a load asks of a protocol, and what the protocol tells the load. */

#ifndef SPEECH_H
#define SPEECH_H

#include "link.h"

enum { PAYLOAD_BYTES = 256, TOPIC_DIGITS = 5 };

struct settings {
    const char *speech, *host, *topic;  /* a topic is this text and a number of five digits */
    int port, publishers, consumers, topics, window, rate, ms;
    long messages;                      /* most of them; 0: as many as go in the time */
    long connects, first;               /* instead of a load: connections numbered from there on */
    int goodbye;                        /* whether they end with DISCONNECT */
    int patience_s;                     /* how long nothing may come */
};

/* One publish, encoded once; each message is a copy of it with its own topic, number and packet id. */
struct frame {
    char bytes[1024];
    int size, topic_at, payload_at;
    int packet_id_at;                   /* -1: the protocol has none */
};

struct speech {
    void (*frame)(struct frame *frame, const struct settings *settings);
    void (*greet)(struct link *link, const struct settings *settings);
    void (*greeted)(struct link *link, const struct settings *settings);    /* waits for the answer */
    size_t (*read)(struct link *link);              /* bytes of `in` that were whole answers or messages */
    void (*fence)(struct link *consumer);           /* said when all is delivered */
    int (*is_settled)(const struct link *consumer); /* the server has read all settlements */
    void (*leave)(struct link *link);
};

extern const struct speech mqtt, redis, amqp;

/* Told by `read`. */
void acknowledged(struct link *publisher);
void delivered(struct link *consumer, const char *payload);

/* The next topic of a consumer behind that one, -1 first and -1 when there is none: consumers share them. */
int next_topic(const struct link *consumer, const struct settings *settings, int topic);

int mqtt_connect(char *packet, const char *client_id, int version);

#endif
