/* MQTT: publishers speak 3.1.1, as most devices do; consumers 5, which can say how many messages they take at a time.
   All is QoS 1; PUBACKs must come in the order of the messages. */

#include "speech.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { CONNACK = 0x20, PUBLISH_1 = 0x32, PUBACK = 0x40, SUBSCRIBE = 0x82, SUBACK = 0x90, PINGREQ = 0xc0, PINGRESP = 0xd0,
       DISCONNECT = 0xe0 };
enum { DEVICE = 4, CONSUMER = 5, PACKET_IDS = 65535, DUPLICATE = 8 };
#define GROUP "bench"
#define PREFETCH "1000"

struct packet {
    int head;
    const unsigned char *body;
    size_t body_bytes, bytes;
};

/* Whether the first packet is there as a whole. */
static int first_packet(const char *data, size_t bytes, struct packet *packet)
{
    const unsigned char *at = (const unsigned char *) data;
    size_t left = 0, place = 1;
    for (int shift = 0;; shift += 7, place++) {
        if (place >= bytes)
            return 0;
        left |= (size_t) (at[place] & 0x7f) << shift;
        if (!(at[place] & 0x80))
            break;
    }
    *packet = (struct packet) {at[0], at + place + 1, left, place + 1 + left};
    return packet->bytes <= bytes;
}

static char *put_number(char *at, int number)
{
    at[0] = number >> 8;
    at[1] = number;
    return at + 2;
}

static char *put_text(char *at, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(put_number(at, bytes), text, bytes);
    return at + 2 + bytes;
}

static int number_at(const unsigned char *at)
{
    return at[0] << 8 | at[1];
}

/* The length of what follows, in as few bytes as it takes, which are two at most here. */
static char *put_length(char *at, int bytes)
{
    if (bytes >= 128)
        *at++ = bytes % 128 | 0x80;
    *at++ = bytes >= 128 ? bytes / 128 : bytes;
    return at;
}

/* With the bytes of what the server said: a reason is text at their end. */
static void refuse(const struct packet *packet)
{
    errno = 0;
    fprintf(stderr, "the server said %#x:", packet->head);
    for (size_t at = 0; at < packet->body_bytes; at++)
        fprintf(stderr, packet->body[at] > 31 && packet->body[at] < 127 ? "%c" : " %#x ", packet->body[at]);
    fail(" (%zu bytes)", packet->bytes);
}

/* A clean start without keep alive: nothing but the load is sent. */
int mqtt_connect(char *packet, const char *client_id, int version)
{
    char *at = put_text(packet + 2, "MQTT");
    *at++ = version;
    *at++ = 2;
    at = put_number(at, 0);
    if (version == CONSUMER)
        *at++ = 0;
    at = put_text(at, client_id);
    packet[0] = 0x10;
    packet[1] = at - packet - 2;
    return at - packet;
}

static void frame(struct frame *frame, const struct settings *settings)
{
    char topic[256], *at;
    int left, topic_bytes = snprintf(topic, sizeof topic, "%s%0*d", settings->topic, TOPIC_DIGITS, 0);
    left = 2 + topic_bytes + 2 + PAYLOAD_BYTES;
    frame->bytes[0] = PUBLISH_1;
    at = put_text(put_length(frame->bytes + 1, left), topic);
    frame->topic_at = at - frame->bytes - TOPIC_DIGITS;
    frame->packet_id_at = at - frame->bytes;
    frame->payload_at = frame->packet_id_at + 2;
    frame->size = frame->payload_at + PAYLOAD_BYTES;
}

static void greet(struct link *link, const struct settings *settings)
{
    char name[64], packet[128];
    snprintf(name, sizeof name, "%s-%ld", link->is_consumer ? "consumer" : "publisher", settings->first + link->index);
    link_say(link, packet, mqtt_connect(packet, name, link->is_consumer ? CONSUMER : DEVICE));
    link_flush(link);
}

static struct packet answer(struct link *link)
{
    struct packet packet;
    while (!first_packet(link->in, link->in_bytes, &packet)) {
        size_t before = link->in_bytes;
        link_receive(link);
        if (link->in_bytes == before)
            fail("no answer to the login");
    }
    return packet;
}

static void subscribe(struct link *link, const struct settings *settings, int topic)
{
    static const char *const asked[][2] = {{"consumer-group", GROUP}, {"ack-mode", "puback"}, {"prefetch", PREFETCH}};
    char filter[256], body[512], head[4] = {(char) SUBSCRIBE}, *at = put_number(body, 1), *properties = at++;
    struct packet said;
    for (size_t each = 0; each < sizeof asked / sizeof *asked; each++) {
        *at++ = 0x26;
        at = put_text(put_text(at, asked[each][0]), asked[each][1]);
    }
    *properties = at - properties - 1;
    snprintf(filter, sizeof filter, "%s%0*d", settings->topic, TOPIC_DIGITS, topic);
    at = put_text(at, filter);
    *at++ = 1;
    link_say(link, head, put_length(head + 1, at - body) - head);
    link_say(link, body, at - body);
    link_flush(link);
    said = answer(link);
    if (said.head != SUBACK || said.body[said.body_bytes - 1] != 1)
        refuse(&said);
    link_took(link, said.bytes);
}

static void greeted(struct link *link, const struct settings *settings)
{
    struct packet said = answer(link);
    if (said.head != CONNACK || said.body[1])
        refuse(&said);
    link_took(link, said.bytes);
    for (int topic = -1; link->is_consumer && (topic = next_topic(link, settings, topic)) >= 0;)
        subscribe(link, settings, topic);
}

static void take_puback(struct link *link, const struct packet *packet)
{
    int expected = link->acknowledged % PACKET_IDS + 1;
    if (packet->head != PUBACK || packet->body_bytes != 2)
        refuse(packet);
    errno = 0;
    if (link->acknowledged == link->sent || number_at(packet->body) != expected)
        fail("PUBACK of packet %d instead of %d", number_at(packet->body), expected);
    acknowledged(link);
}

static void take_publish(struct link *link, const struct packet *packet)
{
    const unsigned char *id = packet->body + 2 + number_at(packet->body), *at = id + 2;
    char answer[4] = {(char) PUBACK, 2, id[0], id[1]};
    size_t properties = 0;
    if ((packet->head & ~DUPLICATE) != PUBLISH_1)
        refuse(packet);
    for (int shift = 0;; shift += 7) {
        properties |= (size_t) (*at & 0x7f) << shift;
        if (!(*at++ & 0x80))
            break;
    }
    at += properties;
    errno = 0;
    if (packet->body + packet->body_bytes - at != PAYLOAD_BYTES)
        fail("a message of %td bytes", packet->body + packet->body_bytes - at);
    delivered(link, (const char *) at);
    link_say(link, answer, sizeof answer);
}

static size_t read_packets(struct link *link)
{
    struct packet packet;
    size_t done = 0;
    while (first_packet(link->in + done, link->in_bytes - done, &packet)) {
        if (!link->is_consumer)
            take_puback(link, &packet);
        else if (packet.head == PINGRESP)
            link->settled = link->delivered;
        else
            take_publish(link, &packet);
        done += packet.bytes;
    }
    return done;
}

/* A connection is read in order: what answers the ping has read the PUBACKs before it. */
static void fence(struct link *consumer)
{
    const char ping[2] = {(char) PINGREQ, 0};
    link_say(consumer, ping, sizeof ping);
}

static int is_settled(const struct link *consumer)
{
    return consumer->settled == consumer->delivered;
}

static void leave(struct link *link)
{
    const char goodbye[2] = {(char) DISCONNECT, 0};
    link_say(link, goodbye, sizeof goodbye);
    link_flush(link);
}

const struct speech mqtt = {frame, greet, greeted, read_packets, fence, is_settled, leave};
