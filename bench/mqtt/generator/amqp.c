/* AMQP 0.9.1: publishes through the default exchange with confirms, consumers that acknowledge all that one receive
   brought. A queue of its own for each topic: durable with persistent messages, or, as `amqp-transient`, neither. */

#include "speech.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { METHOD = 1, HEADER = 2, BODY = 3, END = 0xCE, HEAD_BYTES = 7, PREFETCH = 1000, AHEAD = 1 << 17 };
enum { CONNECTION = 10, CHANNEL = 20, QUEUE = 50, BASIC = 60, CONFIRM = 85 };
enum { QOS_OK = 11, CONSUME_OK = 21, DELIVER = 60, ACK = 80 };

struct answer {
    int kind, channel, class, method;
    size_t bytes;               /* of the whole frame */
    const unsigned char *body;  /* behind the numbers of a method, or the payload */
    size_t body_bytes;
};

/* What a publisher knows of its confirms: those above the first that is missing. */
struct confirms {
    uint64_t floor;
    unsigned char above[AHEAD / 8];
};

/* What a consumer is in the middle of. */
struct taking {
    uint64_t tag, unsettled;
    int wants_body;
};

static struct confirms **confirms;
static struct taking *taking;
static int known_publishers, known_consumers;

static char *put_number(char *at, uint64_t number, int bytes)
{
    for (int each = bytes - 1; each >= 0; each--)
        *at++ = number >> 8 * each;
    return at;
}

static uint64_t number_at(const unsigned char *at, int bytes)
{
    uint64_t number = 0;
    while (bytes--)
        number = number << 8 | *at++;
    return number;
}

static char *put_text(char *at, const char *text)
{
    *at++ = strlen(text);
    memcpy(at, text, strlen(text));
    return at + strlen(text);
}

/* Begins a method's frame; `finish` writes its size and its end. */
static char *begin(char *frame, int channel, int class, int method)
{
    frame[0] = METHOD;
    put_number(frame + 1, channel, 2);
    return put_number(put_number(frame + HEAD_BYTES, class, 2), method, 2);
}

static char *finish(char *frame, char *at)
{
    put_number(frame + 3, at - frame - HEAD_BYTES, 4);
    *at++ = (char) END;
    return at;
}

static int is_durable(const struct settings *settings)
{
    return strcmp(settings->speech, "amqp-transient") != 0;
}

static void frame(struct frame *frame, const struct settings *settings)
{
    char topic[256], *start = frame->bytes, *at = begin(start, 1, BASIC, 40);
    snprintf(topic, sizeof topic, "%s%0*d", settings->topic, TOPIC_DIGITS, 0);
    at = put_text(put_text(put_number(at, 0, 2), ""), topic);
    frame->topic_at = at - frame->bytes - TOPIC_DIGITS;
    *at++ = 0;
    start = at = finish(start, at);
    *at++ = HEADER;
    at = put_number(put_number(at, 1, 2), 15, 4);
    at = put_number(put_number(at, BASIC, 2), 0, 2);
    at = put_number(put_number(at, PAYLOAD_BYTES, 8), 0x1000, 2);
    *at++ = is_durable(settings) ? 2 : 1;
    *at++ = (char) END;
    *at++ = BODY;
    at = put_number(put_number(at, 1, 2), PAYLOAD_BYTES, 4);
    frame->payload_at = at - frame->bytes;
    memset(at, 0, PAYLOAD_BYTES);
    at += PAYLOAD_BYTES;
    *at++ = (char) END;
    frame->size = at - frame->bytes;
    frame->packet_id_at = -1;
}

static int first_answer(const char *in, size_t bytes, struct answer *answer)
{
    const unsigned char *at = (const unsigned char *) in;
    size_t payload;
    if (bytes < HEAD_BYTES + 1 || bytes < (payload = number_at(at + 3, 4)) + HEAD_BYTES + 1)
        return 0;
    *answer = (struct answer) {at[0], number_at(at + 1, 2), 0, 0, payload + HEAD_BYTES + 1, at + HEAD_BYTES, payload};
    if (at[0] == METHOD) {
        answer->class = number_at(at + HEAD_BYTES, 2);
        answer->method = number_at(at + HEAD_BYTES + 2, 2);
        answer->body += 4;
        answer->body_bytes -= 4;
    }
    return 1;
}

static void refuse(const struct answer *answer)
{
    errno = 0;
    fprintf(stderr, "the server said method %d.%d:", answer->class, answer->method);
    for (size_t at = 0; at < answer->body_bytes && at < 300; at++)
        fprintf(stderr, answer->body[at] > 31 && answer->body[at] < 127 ? "%c" : " %#x ", answer->body[at]);
    fail(" (frame of type %d)", answer->kind);
}

static void wait_for(struct link *link, int class, int method)
{
    struct answer answer;
    while (!first_answer(link->in, link->in_bytes, &answer)) {
        size_t before = link->in_bytes;
        link_receive(link);
        if (link->in_bytes == before)
            fail("no answer to method %d.%d", class, method);
    }
    if (answer.kind != METHOD || answer.class != class || answer.method != method)
        refuse(&answer);
    link_took(link, answer.bytes);
}

static void say(struct link *link, char *frame, char *at)
{
    link_say(link, frame, finish(frame, at) - frame);
    link_flush(link);
}

static void greet(struct link *link, const struct settings *settings)
{
    (void) settings;
    link_say(link, "AMQP\0\0\x09\x01", 8);
    link_flush(link);
}

static void log_in(struct link *link)
{
    static const char guest[] = "\0guest\0guest";
    char frame[256], *at;
    wait_for(link, CONNECTION, 10);
    at = put_text(put_number(begin(frame, 0, CONNECTION, 11), 0, 4), "PLAIN");
    at = put_number(at, sizeof guest - 1, 4);
    memcpy(at, guest, sizeof guest - 1);
    say(link, frame, put_text(at + sizeof guest - 1, "en_US"));
    wait_for(link, CONNECTION, 30);
    at = put_number(put_number(put_number(begin(frame, 0, CONNECTION, 31), 2047, 2), 131072, 4), 0, 2);
    say(link, frame, at);
    say(link, frame, put_number(put_text(begin(frame, 0, CONNECTION, 40), "/"), 0, 2));
    wait_for(link, CONNECTION, 41);
    say(link, frame, put_number(begin(frame, 1, CHANNEL, 10), 0, 1));
    wait_for(link, CHANNEL, 11);
}

static void declare(struct link *link, const struct settings *settings, int topic)
{
    char frame[512], name[256], *at = put_number(begin(frame, 1, QUEUE, 10), 0, 2);
    snprintf(name, sizeof name, "%s%0*d", settings->topic, TOPIC_DIGITS, topic);
    at = put_number(put_text(at, name), is_durable(settings) ? 2 : 0, 1);
    say(link, frame, put_number(at, 0, 4));
    wait_for(link, QUEUE, 11);
}

static void ask_for_credit(struct link *link)
{
    char frame[64];
    char *at = put_number(put_number(begin(frame, 1, BASIC, 10), 0, 4), PREFETCH, 2);
    say(link, frame, put_number(at, 0, 1));
}

static void consume(struct link *link, const struct settings *settings, int topic)
{
    char frame[512], name[256], *at = put_number(begin(frame, 1, BASIC, 20), 0, 2);
    snprintf(name, sizeof name, "%s%0*d", settings->topic, TOPIC_DIGITS, topic);
    at = put_number(put_text(put_text(at, name), ""), 0, 1);
    say(link, frame, put_number(at, 0, 4));
    wait_for(link, BASIC, CONSUME_OK);
}

static void remember(struct link *link)
{
    if (link->is_consumer && link->index >= known_consumers) {
        known_consumers = 2 * link->index + 16;
        taking = realloc(taking, known_consumers * sizeof *taking);
    } else if (!link->is_consumer && link->index >= known_publishers) {
        known_publishers = 2 * link->index + 16;
        confirms = realloc(confirms, known_publishers * sizeof *confirms);
    }
    if (link->is_consumer ? !taking : !confirms)
        fail("memory");
    if (link->is_consumer)
        taking[link->index] = (struct taking) {0, 0, 0};
    else if (!(confirms[link->index] = calloc(1, sizeof **confirms)))
        fail("memory");
}

static void greeted(struct link *link, const struct settings *settings)
{
    char frame[64];
    remember(link);
    log_in(link);
    if (!link->is_consumer) {
        for (int topic = 0; !settings->consumers && topic < settings->topics && !link->index; topic++)
            declare(link, settings, topic);
        say(link, frame, put_number(begin(frame, 1, CONFIRM, 10), 0, 1));
        wait_for(link, CONFIRM, 11);
        return;
    }
    ask_for_credit(link);
    wait_for(link, BASIC, QOS_OK);
    for (int topic = -1; (topic = next_topic(link, settings, topic)) >= 0;) {
        declare(link, settings, topic);
        consume(link, settings, topic);
    }
}

static void confirm(struct link *link, uint64_t tag)
{
    struct confirms *known = confirms[link->index];
    unsigned char *byte = &known->above[tag % AHEAD / 8], bit = 1 << tag % 8;
    errno = 0;
    if (tag <= known->floor || tag - known->floor >= AHEAD || *byte & bit)
        fail("message %lu is confirmed again, or out of nowhere", tag);
    *byte |= bit;
    acknowledged(link);
    while (known->above[(known->floor + 1) % AHEAD / 8] >> (known->floor + 1) % 8 & 1) {
        known->floor++;
        known->above[known->floor % AHEAD / 8] &= ~(1 << known->floor % 8);
    }
}

static void take_confirm(struct link *link, const struct answer *answer)
{
    uint64_t tag = number_at(answer->body, 8);
    struct confirms *known = confirms[link->index];
    if (answer->kind != METHOD || answer->class != BASIC || answer->method != ACK)
        refuse(answer);
    if (answer->body[8] & 1)
        for (uint64_t below = known->floor + 1; below < tag; below++)
            if (below > known->floor && !(known->above[below % AHEAD / 8] >> below % 8 & 1))
                confirm(link, below);
    if (tag > known->floor && !(known->above[tag % AHEAD / 8] >> tag % 8 & 1))
        confirm(link, tag);
    else if (!(answer->body[8] & 1))
        refuse(answer);
}

static void take_delivery(struct link *link, const struct answer *answer)
{
    struct taking *now = &taking[link->index];
    if (answer->kind == METHOD && answer->class == BASIC && answer->method == DELIVER) {
        now->tag = number_at(answer->body + 1 + answer->body[0], 8);
    } else if (answer->kind == METHOD && answer->class == BASIC && answer->method == QOS_OK) {
        link->settled = link->delivered;
    } else if (answer->kind == HEADER) {
        now->wants_body = 1;
    } else if (answer->kind == BODY && now->wants_body && answer->body_bytes == PAYLOAD_BYTES) {
        now->wants_body = 0;
        now->unsettled = now->tag;
        delivered(link, (const char *) answer->body);
    } else {
        refuse(answer);
    }
}

static size_t read_answers(struct link *link)
{
    struct answer answer;
    size_t done = 0;
    while (first_answer(link->in + done, link->in_bytes - done, &answer)) {
        if (link->is_consumer)
            take_delivery(link, &answer);
        else
            take_confirm(link, &answer);
        done += answer.bytes;
    }
    if (link->is_consumer && taking[link->index].unsettled) {
        char frame[64];
        char *at = put_number(put_number(begin(frame, 1, BASIC, ACK), taking[link->index].unsettled, 8), 1, 1);
        link_say(link, frame, finish(frame, at) - frame);
        taking[link->index].unsettled = 0;
    }
    return done;
}

/* A channel does one thing after the other: what it answers was read behind the acknowledgements. */
static void fence(struct link *consumer)
{
    ask_for_credit(consumer);
}

static int is_settled(const struct link *consumer)
{
    return consumer->settled == consumer->delivered;
}

static void leave(struct link *link)
{
    (void) link;
}

const struct speech amqp = {frame, greet, greeted, read_answers, fence, is_settled, leave};
