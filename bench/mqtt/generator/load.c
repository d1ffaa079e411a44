/* A load: publishers as fast as their windows allow or at a fixed rate, consumers that settle what they get.

   It counts only if every message is acknowledged once and in order, and, where there are consumers, delivered once:
   the head of a payload is the run, its publisher and its number. */

#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

enum { AT_A_TIME = 100, EVENTS = 1024, SEND_BYTES = 64 << 10, WAIT_NS = 50000000, PERCENTILES = 4 };

struct head {
    uint64_t run;
    uint32_t publisher, number;
};

struct latencies {
    uint64_t *ns;
    size_t count;
};

static struct settings asked;
static const struct speech *speech;
static struct frame frame;
static struct link *publishers, *consumers;
static int poll_set, is_open = 1, is_fenced;
static uint64_t run, begun_ns, read_ns, total_sent, total_acknowledged, total_delivered, offered, planned;
static struct latencies to_acknowledged, to_delivered;

/* At a fixed rate publishers take turns: when a message is due follows from its number. */
static uint64_t due_ns(uint64_t publisher, uint64_t number)
{
    return begun_ns + (uint64_t) ((double) (number * asked.publishers + publisher) * 1e9 / asked.rate);
}

static void note(struct latencies *latencies, uint64_t publisher, uint64_t number)
{
    if (asked.rate)
        latencies->ns[latencies->count++] = read_ns - due_ns(publisher, number);
}

void acknowledged(struct link *publisher)
{
    errno = 0;
    if (publisher->acknowledged == publisher->sent)
        fail("an acknowledgement of what was not sent");
    note(&to_acknowledged, publisher->index, publisher->acknowledged++);
    total_acknowledged++;
}

void delivered(struct link *consumer, const char *payload)
{
    struct head head;
    memcpy(&head, payload, sizeof head);
    errno = 0;
    if (head.run != run || head.publisher >= (uint32_t) asked.publishers)
        fail("a message of another run was delivered");
    struct link *from = &publishers[head.publisher];
    if (head.number >= from->sent)
        fail("message %u of publisher %u was delivered, and was never sent", head.number, head.publisher);
    if (from->seen[head.number / 8] >> head.number % 8 & 1)
        fail("message %u of publisher %u was delivered twice", head.number, head.publisher);
    from->seen[head.number / 8] |= 1 << head.number % 8;
    note(&to_delivered, head.publisher, head.number);
    consumer->delivered++;
    total_delivered++;
}

int next_topic(const struct link *consumer, const struct settings *settings, int topic)
{
    int step = settings->consumers < settings->topics ? settings->consumers : settings->topics;
    int next = topic < 0 ? consumer->index % step : topic + step;
    return next < settings->topics ? next : -1;
}

static void remember(struct link *publisher)
{
    size_t needed = publisher->sent / 8 + 1;
    if (needed <= publisher->seen_bytes)
        return;
    size_t bytes = 2 * needed + 1024;
    if (!(publisher->seen = realloc(publisher->seen, bytes)))
        fail("memory");
    memset(publisher->seen + publisher->seen_bytes, 0, bytes - publisher->seen_bytes);
    publisher->seen_bytes = bytes;
}

/* Each publisher writes to all topics in turn, from a place of its own on. */
static void add_message(struct link *link)
{
    char *at = link_room(link, frame.size);
    struct head head = {run, link->index, link->sent};
    int topic = ((long) link->index * asked.topics / asked.publishers + link->sent) % asked.topics;
    int packet_id = link->sent % 65535 + 1;
    memcpy(at, frame.bytes, frame.size);
    for (int digit = TOPIC_DIGITS - 1; topic; digit--, topic /= 10)
        at[frame.topic_at + digit] += topic % 10;
    if (frame.packet_id_at >= 0) {
        at[frame.packet_id_at] = packet_id >> 8;
        at[frame.packet_id_at + 1] = packet_id;
    }
    memcpy(at + frame.payload_at, &head, sizeof head);
    if (asked.consumers)
        remember(link);
    link->sent++;
    total_sent++;
}

static void watch(struct link *link, int operation)
{
    struct epoll_event wanted = {.events = EPOLLIN | (link->is_blocked ? EPOLLOUT : 0), .data.ptr = link};
    if (epoll_ctl(poll_set, operation, link->socket, &wanted))
        fail("epoll_ctl");
}

static void flush(struct link *link)
{
    int was_blocked = link->is_blocked;
    link_flush(link);
    if (link->is_blocked != was_blocked)
        watch(link, EPOLL_CTL_MOD);
}

static int may_send(const struct link *link)
{
    if (!is_open || link->sent - link->acknowledged >= (uint64_t) asked.window)
        return 0;
    if (asked.rate) {
        /* Of the messages that are due by now, this one's share. */
        uint64_t due = (offered + asked.publishers - 1 - link->index) / asked.publishers;
        return link->sent < due;
    }
    return !planned || total_sent < planned;
}

static void fill(struct link *link)
{
    while (!link->is_blocked && may_send(link)) {
        while (link->out_bytes < SEND_BYTES && may_send(link))
            add_message(link);
        flush(link);
    }
}

static void serve(struct link *link, int events)
{
    if (events & EPOLLOUT)
        flush(link);
    if (events & ~EPOLLOUT) {
        link_receive(link);
        read_ns = now_ns();
        link_took(link, speech->read(link));
        if (link->out_bytes && !link->is_blocked)
            flush(link);
    }
    if (!link->is_consumer)
        fill(link);
}

static void wait_and_serve(uint64_t wait_ns)
{
    static struct epoll_event found[EVENTS];
    struct timespec limit = {wait_ns / 1000000000, wait_ns % 1000000000};
    int count = epoll_pwait2(poll_set, found, EVENTS, &limit, NULL);
    if (count < 0 && errno != EINTR)
        fail("epoll_pwait2");
    for (int number = 0; number < count; number++)
        serve(found[number].data.ptr, found[number].events);
}

/* Lets publishers have what is due, and tells how long nothing will be. */
static uint64_t offer(uint64_t now)
{
    while (offered < planned && due_ns(offered % asked.publishers, offered / asked.publishers) <= now) {
        offered++;
        fill(&publishers[(offered - 1) % asked.publishers]);
    }
    if (offered == planned)
        return WAIT_NS;
    uint64_t next = due_ns(offered % asked.publishers, offered / asked.publishers);
    now = now_ns();
    return next > now ? next - now : 0;
}

static int is_settled(void)
{
    for (int number = 0; number < asked.consumers; number++)
        if (!speech->is_settled(&consumers[number]))
            return 0;
    return 1;
}

/* All is answered, delivered and settled; the settlements are asked about once. */
static int is_done(void)
{
    if (is_open || total_acknowledged < total_sent || (asked.consumers && total_delivered < total_sent))
        return 0;
    if (!is_fenced) {
        is_fenced = 1;
        for (int number = 0; number < asked.consumers; number++) {
            speech->fence(&consumers[number]);
            flush(&consumers[number]);
        }
    }
    return is_settled();
}

static void check_progress(uint64_t now)
{
    static uint64_t last, since_ns;
    uint64_t progress = total_acknowledged + total_delivered + total_sent;
    if (progress != last || !since_ns) {
        last = progress;
        since_ns = now;
    } else if (now - since_ns > asked.patience_s * 1000000000ull) {
        errno = 0;
        fail("nothing came for %d s: sent %lu, acknowledged %lu, delivered %lu", asked.patience_s, total_sent,
             total_acknowledged, total_delivered);
    }
}

static void run_load(void)
{
    uint64_t now = begun_ns, end_ns = begun_ns + asked.ms * 1000000ull;
    for (int number = 0; !asked.rate && number < asked.publishers; number++)
        fill(&publishers[number]);
    while (!is_done()) {
        uint64_t wait_ns = asked.rate ? offer(now) : WAIT_NS;
        if (asked.rate || planned ? total_sent == planned : now >= end_ns)
            is_open = 0;
        wait_and_serve(is_open || !is_done() ? wait_ns : 0);
        now = now_ns();
        check_progress(now);
    }
}

static struct link *open_links(int count, int is_consumer)
{
    struct link *links = calloc(count + 1, sizeof *links);
    for (int first = 0; first < count; first += AT_A_TIME) {
        int last = first + AT_A_TIME < count ? first + AT_A_TIME : count;
        for (int index = first; index < last; index++) {
            links[index].index = index;
            links[index].is_consumer = is_consumer;
            link_open(&links[index], asked.host, asked.port, !strcmp(asked.speech, "mqtts"));
            speech->greet(&links[index], &asked);
        }
        for (int index = first; index < last; index++) {
            speech->greeted(&links[index], &asked);
            link_unblock(&links[index]);
            watch(&links[index], EPOLL_CTL_ADD);
        }
    }
    return links;
}

static void leave(struct link *links, int count)
{
    for (int index = 0; index < count; index++) {
        speech->leave(&links[index]);
        link_close(&links[index]);
    }
}

static int compare(const void *one, const void *other)
{
    uint64_t left = *(const uint64_t *) one, right = *(const uint64_t *) other;
    return (left > right) - (left < right);
}

static void print_latencies(const char *name, struct latencies *latencies)
{
    static const double shares[PERCENTILES] = {0.5, 0.99, 0.999, 1.0};
    size_t last = latencies->count - 1;
    printf(", \"%s\": [", name);
    qsort(latencies->ns, latencies->count, sizeof *latencies->ns, compare);
    for (int each = 0; latencies->count && each < PERCENTILES; each++) {
        size_t place = shares[each] * latencies->count;
        printf("%s%lu", each ? ", " : "", latencies->ns[place < last ? place : last]);
    }
    printf("]");
}

void load(const struct settings *settings)
{
    asked = *settings;
    speech = !strcmp(asked.speech, "redis") ? &redis : !strncmp(asked.speech, "amqp", 4) ? &amqp : &mqtt;
    planned = asked.rate ? (uint64_t) asked.rate * asked.ms / 1000 : (uint64_t) asked.messages;
    to_acknowledged.ns = calloc(planned + 1, sizeof(uint64_t));
    to_delivered.ns = calloc(planned + 1, sizeof(uint64_t));
    poll_set = epoll_create1(EPOLL_CLOEXEC);
    run = now_ns();
    speech->frame(&frame, &asked);
    consumers = open_links(asked.consumers, 1);
    publishers = open_links(asked.publishers, 0);
    wait_for_go();
    uint64_t cpu = cpu_ns();
    begun_ns = now_ns();
    run_load();
    printf("{\"count\": %lu, \"ns\": %lu, \"cpu_ns\": %lu", total_sent, now_ns() - begun_ns, cpu_ns() - cpu);
    print_latencies("to_acknowledged_ns", &to_acknowledged);
    print_latencies("to_delivered_ns", &to_delivered);
    printf("}\n");
    fflush(stdout);
    leave(publishers, asked.publishers);
    leave(consumers, asked.consumers);
}
