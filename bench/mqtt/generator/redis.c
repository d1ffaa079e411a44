/* Redis streams: XADD; consumers of a group that exists already, XREADGROUP and XACK of all that one answer brought. */

#include "speech.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP "bench"
enum { PREFETCH = 1000, WORD_BYTES = 64 };

/* Which streams a consumer reads, as the end of its XREADGROUP. */
static char *asked[1 << 10];

static char *put_word(char *at, const char *word, size_t bytes)
{
    at += sprintf(at, "$%zu\r\n", bytes);
    memcpy(at, word, bytes);
    memcpy(at + bytes, "\r\n", 2);
    return at + bytes + 2;
}

static char *put_text(char *at, const char *text)
{
    return put_word(at, text, strlen(text));
}

static void frame(struct frame *frame, const struct settings *settings)
{
    static const char filler[PAYLOAD_BYTES];
    char topic[256], *at = frame->bytes + sprintf(frame->bytes, "*5\r\n");
    snprintf(topic, sizeof topic, "%s%0*d", settings->topic, TOPIC_DIGITS, 0);
    at = put_text(put_text(at, "XADD"), topic);
    frame->topic_at = at - frame->bytes - 2 - TOPIC_DIGITS;
    frame->packet_id_at = -1;
    at = put_word(put_text(put_text(at, "*"), "d"), filler, PAYLOAD_BYTES);
    frame->size = at - frame->bytes;
    frame->payload_at = frame->size - 2 - PAYLOAD_BYTES;
}

static void ask(struct link *link)
{
    link_say(link, asked[link->index], strlen(asked[link->index]));
}

static void greet(struct link *link, const struct settings *settings)
{
    char count[16], name[WORD_BYTES], *at;
    int topics = 0;
    if (!link->is_consumer)
        return;
    for (int topic = -1; (topic = next_topic(link, settings, topic)) >= 0;)
        topics++;
    if (link->index >= (int) (sizeof asked / sizeof *asked) || !(at = malloc(512 + 2 * WORD_BYTES * topics)))
        fail("too many consumers");
    asked[link->index] = at;
    snprintf(count, sizeof count, "%d", PREFETCH / topics ? PREFETCH / topics : 1);
    snprintf(name, sizeof name, "consumer-%d", link->index);
    at += sprintf(at, "*%d\r\n", 9 + 2 * topics);
    at = put_text(put_text(put_text(put_text(at, "XREADGROUP"), "GROUP"), GROUP), name);
    at = put_text(put_text(put_text(put_text(at, "COUNT"), count), "BLOCK"), "0");
    at = put_text(at, "STREAMS");
    for (int topic = -1; (topic = next_topic(link, settings, topic)) >= 0;) {
        snprintf(name, sizeof name, "%s%0*d", settings->topic, TOPIC_DIGITS, topic);
        at = put_text(at, name);
    }
    for (int topic = 0; topic < topics; topic++)
        at = put_text(at, ">");
    *at = 0;
    ask(link);
    link_flush(link);
}

static void greeted(struct link *link, const struct settings *settings)
{
    (void) link;
    (void) settings;
}

/* The number behind the first byte of an answer, and where the next line begins; NULL if the line is not whole. */
static const char *head(const char *at, const char *end, long *number)
{
    const char *stop = at < end ? memchr(at, '\n', end - at) : NULL;
    errno = 0;
    if (stop && *at == '-')
        fail("Redis said %.*s", (int) (stop - at), at);
    if (stop)
        *number = strtol(at + 1, NULL, 10);
    return stop ? stop + 1 : NULL;
}

/* A string; NULL if it is not whole. */
static const char *word(const char *at, const char *end, const char **text, long *bytes)
{
    const char *body = head(at, end, bytes);
    if (!body || end - body < *bytes + 2)
        return NULL;
    *text = body;
    return body + *bytes + 2;
}

/* Behind any answer; NULL if it is not whole. */
static const char *behind(const char *at, const char *end)
{
    const char *text;
    long count;
    char kind = at < end ? *at : 0;
    if (kind == '$')
        return word(at, end, &text, &count);
    at = head(at, end, &count);
    for (; at && kind == '*' && count > 0; count--)
        at = behind(at, end);
    return at;
}

/* [id, [field, value]] of each message of a stream. The ids are acknowledged together. */
static const char *take_stream(struct link *link, const char *at, const char *end)
{
    const char *name = NULL, *id = NULL, *field = NULL, *value = NULL;
    long name_bytes, id_bytes, bytes, messages, parts;
    at = head(word(head(at, end, &parts), end, &name, &name_bytes), end, &messages);
    /* An XACK of so many ids: each has at most 48 bytes with its frame. */
    char *room = malloc(256 + name_bytes + 48 * messages), *out = room;
    if (!room)
        fail("memory");
    out += sprintf(out, "*%ld\r\n", 3 + messages);
    out = put_text(put_word(put_text(out, "XACK"), name, name_bytes), GROUP);
    for (long number = 0; number < messages; number++) {
        at = word(head(at, end, &parts), end, &id, &id_bytes);
        at = word(word(head(at, end, &parts), end, &field, &bytes), end, &value, &bytes);
        errno = 0;
        if (bytes != PAYLOAD_BYTES || id_bytes > 40)
            fail("a message of %ld bytes", bytes);
        delivered(link, value);
        out = put_word(out, id, id_bytes);
    }
    link_say(link, room, out - room);
    free(room);
    return at;
}

static void take_answer(struct link *link, const char *at, const char *end)
{
    long count = 0;
    char kind = *at;
    at = head(at, end, &count);
    if (!link->is_consumer && kind == '$' && count > 0) {
        acknowledged(link);
    } else if (link->is_consumer && kind == ':') {
        link->settled += count;
    } else if (link->is_consumer && kind == '*' && count > 0) {
        for (; count; count--)
            at = take_stream(link, at, end);
        ask(link);
    } else {
        errno = 0;
        fail("Redis answered with %c%ld", kind, count);
    }
}

static size_t read_answers(struct link *link)
{
    const char *at = link->in, *end = at + link->in_bytes, *next;
    while ((next = behind(at, end))) {
        take_answer(link, at, end);
        at = next;
    }
    return at - link->in;
}

static void fence(struct link *consumer)
{
    (void) consumer;
}

static int is_settled(const struct link *consumer)
{
    return consumer->settled == consumer->delivered;
}

static void leave(struct link *link)
{
    (void) link;
}

const struct speech redis = {frame, greet, greeted, read_answers, fence, is_settled, leave};
