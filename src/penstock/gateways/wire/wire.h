/* A turn over all connections, without the interpreter: accept, receive into one arena, send.

   One thread calls this. A connection is a slot; what others need to know of it (generation, when it was heard) lies in
   columns by slot, which Python owns and which never move. Lists hold a slot at most once and have room for all of them,
   so the only memory that can be missing is that of buffers: whoever would need one is told so (overfull) or is cut off
   from writing (broken), and everyone else goes on. */

#ifndef PENSTOCK_WIRE_H
#define PENSTOCK_WIRE_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    WIRE_EVENTS = 1024, /* taken from epoll at once */
    WIRE_LISTENERS = 16,
    WIRE_COLUMNS = 64,
    WIRE_LEAST_BUFFER = 64,
    WIRE_MOST_BUFFER = 1 << 30,
    WIRE_SMALL_REST = 4096, /* the beginning of a packet that every connection may leave lying, whatever others do */
    WIRE_GENERATIONS = 0x3fffffff,
    WIRE_ARENA_SLACK = 1 << 20 /* what a turn used beyond its arena by more than this is given back to the system */
};

enum { WIRE_FREE, WIRE_OPEN, WIRE_LEAVING }; /* LEAVING: nobody may name it any more; its last bytes may still go out */
enum { WIRE_FROM_ARENA, WIRE_FROM_KEPT };    /* where the bytes of a region are while it is not taken */

#define WIRE_UNWATCHED 0xffffffffu
#define WIRE_LISTENER (1ull << 62)
#define WIRE_WAKE (1ull << 63)

typedef struct {
    uint8_t *data; /* what is in it lies in data[at:end] */
    int32_t at, end, room;
} wire_bytes_t;

typedef struct {
    int32_t fd;        /* -1: it has none (foreign), or it is closed */
    int32_t expected;  /* bytes of a packet that comes in pieces and is offered whole; 0: none is */
    uint32_t served;   /* the turn in which it had its share */
    uint32_t watched;  /* what epoll looks for */
    int64_t deadline_ms; /* of one that is leaving */
    wire_bytes_t kept, unsent;
    uint8_t state, foreign, parked, overfull, broken;
    uint8_t again;     /* kept bytes are to be offered */
    uint8_t offered;   /* a region of the turn is its, and not taken */
    uint8_t is_last;   /* foreign: nothing will be fed any more */
    uint8_t blocked;   /* its socket takes no more at the moment */
    uint8_t clogged, told_clogged;
    uint8_t in_pending, in_dirty, in_changed; /* lists that it is in */
} wire_conn_t;

typedef struct {
    int32_t *items;
    int32_t count;
} wire_list_t;

typedef struct {
    int32_t fd, number;
    uint32_t served;        /* the turn in which it was accepted from */
    int64_t rests_until_ms; /* 0: it is watched */
} wire_listener_t;

typedef struct {
    int32_t slot, number;
    struct sockaddr_storage address;
} wire_accepted_t;

typedef struct {
    void *cells;
    int64_t initial;
    int32_t width;
} wire_column_t;

typedef struct {
    int64_t turns, empty_turns, polls, receives, sends, received_bytes, sent_bytes, accepts, accept_rests, watch_changes;
} wire_counters_t;

typedef struct {
    /* Set once. */
    int32_t max_slots, arena_bytes, arena_room, per_turn_bytes, max_kept_bytes, max_packet_bytes, accepts_per_turn;
    int64_t max_pieces_bytes, linger_ms, accept_rest_ms;
    uint8_t *arena;
    int64_t *heard_ms, *received_bytes, *high_water;
    int32_t *generation, *listener;

    int epoll_fd, wake_fd, is_awake, is_turning;
    wire_conn_t *conns;
    int32_t begun_slots; /* those above were never used */
    int32_t connections;
    wire_list_t free_slots;
    wire_list_t pending, pending_before; /* to be served before others: kept bytes to offer, or no room in the last turn */
    wire_list_t dirty, dirty_foreign;
    wire_list_t changed;                 /* may have become clogged or drained */
    wire_list_t refused;                 /* became overfull */
    wire_list_t wanting;                 /* have more of a packet to come than all together may hold */
    wire_list_t ended;                   /* to be told as lost in the next turn */
    wire_list_t leaving;                 /* told; free when their socket is closed */
    wire_listener_t listeners[WIRE_LISTENERS];
    int32_t listener_count;
    wire_column_t columns[WIRE_COLUMNS];
    int32_t column_count;
    struct epoll_event events[WIRE_EVENTS];

    /* What the turn brought. */
    uint32_t turn;
    int64_t now_ms, unsent_bytes, kept_bytes;
    int32_t used, was_used;
    int32_t *slots, *starts, *stops;
    uint8_t *sources;
    int32_t regions, are_offered;
    wire_list_t lost, clogged, drained, overfull;
    wire_accepted_t *accepted;
    int32_t accepted_count;
    wire_counters_t counters;
} wire_t;

/* Memory */

static void *wire_reserve(size_t size) {
    void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return NULL;
    madvise(made, size, MADV_NOHUGEPAGE); /* a huge page would be most of what a thousand connections cost */
    return made;
}

static void wire_unreserve(void *memory, size_t size) {
    if (memory) munmap(memory, size);
}

static inline int32_t wire_length(const wire_bytes_t *b) { return b->end - b->at; }

static void wire_drop(wire_bytes_t *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

/* Room for `more` bytes at the end; grows by doubling, up to `most` unless more is needed. 0: there is no memory. */
static int wire_room(wire_bytes_t *b, int32_t more, int32_t most) {
    int32_t length = wire_length(b);
    if (more <= b->room - b->end) return 1;
    if (more > WIRE_MOST_BUFFER - length) return 0;
    if (b->at && (length + more <= b->room / 2 || b->at >= length + more)) {
        memmove(b->data, b->data + b->at, length);
        b->at = 0, b->end = length;
        if (more <= b->room - b->end) return 1;
    }
    int64_t room = 2 * (int64_t)(length + more);
    if (room > most) room = most;
    if (room < length + more) room = length + more;
    if (room < WIRE_LEAST_BUFFER) room = WIRE_LEAST_BUFFER;
    uint8_t *data = malloc(room);
    if (!data) return 0;
    if (length) memcpy(data, b->data + b->at, length);
    free(b->data);
    b->data = data, b->at = 0, b->end = length, b->room = (int32_t)room;
    return 1;
}

static inline void wire_push(wire_list_t *list, int32_t slot) { list->items[list->count++] = slot; }

static int64_t wire_clock_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

/* Opening and closing */

static wire_list_t *wire_lists(wire_t *r, int number) {
    wire_list_t *all[] = {&r->free_slots, &r->pending, &r->pending_before, &r->dirty, &r->dirty_foreign, &r->changed,
                          &r->refused, &r->wanting, &r->ended, &r->leaving, &r->lost, &r->clogged, &r->drained, &r->overfull};
    return number < (int)(sizeof all / sizeof *all) ? all[number] : NULL;
}

static void wire_delete(wire_t *r) {
    size_t ints = 4 * (size_t)r->max_slots;
    wire_list_t *list;
    for (int32_t i = 0; r->conns && i < r->begun_slots; i++) {
        wire_conn_t *c = &r->conns[i];
        free(c->kept.data);
        free(c->unsent.data);
        if (c->state != WIRE_FREE && c->fd >= 0) close(c->fd);
    }
    if (r->epoll_fd >= 0) close(r->epoll_fd);
    if (r->wake_fd >= 0) close(r->wake_fd);
    wire_unreserve(r->conns, r->max_slots * sizeof(wire_conn_t));
    for (int i = 0; (list = wire_lists(r, i)); i++) wire_unreserve(list->items, ints);
    wire_unreserve(r->slots, ints);
    wire_unreserve(r->starts, ints);
    wire_unreserve(r->stops, ints);
    wire_unreserve(r->sources, r->max_slots);
    wire_unreserve(r->accepted, sizeof(wire_accepted_t) * r->accepts_per_turn * WIRE_LISTENERS);
    free(r);
}

/* NULL with errno set. The columns and the arena are the caller's, and outlive it. */
static wire_t *wire_new(int32_t max_slots, int32_t accepts_per_turn) {
    wire_t *r = calloc(1, sizeof *r);
    size_t ints = 4 * (size_t)max_slots;
    int is_whole = 1;
    wire_list_t *list;
    if (!r) return NULL;
    r->max_slots = max_slots, r->accepts_per_turn = accepts_per_turn;
    r->epoll_fd = r->wake_fd = -1;
    r->conns = wire_reserve(max_slots * sizeof(wire_conn_t));
    for (int i = 0; (list = wire_lists(r, i)); i++) is_whole &= (list->items = wire_reserve(ints)) != NULL;
    r->slots = wire_reserve(ints), r->starts = wire_reserve(ints), r->stops = wire_reserve(ints);
    r->sources = wire_reserve(max_slots);
    r->accepted = wire_reserve(sizeof(wire_accepted_t) * accepts_per_turn * WIRE_LISTENERS);
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    r->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct epoll_event wake = {EPOLLIN, {.u64 = WIRE_WAKE}};
    if (!is_whole || !r->conns || !r->slots || !r->starts || !r->stops || !r->sources || !r->accepted ||
        r->epoll_fd < 0 || r->wake_fd < 0 || epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, r->wake_fd, &wake) < 0) {
        int error = errno;
        wire_delete(r);
        errno = error;
        return NULL;
    }
    r->now_ms = wire_clock_ms();
    return r;
}

/* What epoll looks for. A socket that must not be read stays watched until it is readable: most are resumed before. */

/* There is something to do that no socket tells of. */
static void wire_wake(wire_t *r) {
    uint64_t one = 1;
    if (!r->is_awake && !r->is_turning && write(r->wake_fd, &one, 8) == 8) r->is_awake = 1;
}

static inline int wire_may_read(const wire_conn_t *c) { return c->state == WIRE_OPEN && !c->parked && !c->overfull; }

static void wire_pend(wire_t *r, int32_t i) {
    if (r->conns[i].in_pending) return;
    r->conns[i].in_pending = 1;
    wire_push(&r->pending, i);
    wire_wake(r);
}

/* 0: the kernel has no memory for it, or lets a user watch no more. */
static int wire_watch(wire_t *r, int32_t i, uint32_t events) {
    wire_conn_t *c = &r->conns[i];
    if (c->fd < 0 || c->watched == events) return 1;
    uint64_t tag = (uint64_t)(uint32_t)r->generation[i] << 32 | (uint32_t)i;
    struct epoll_event event = {events == WIRE_UNWATCHED ? 0 : events, {.u64 = tag}};
    int how = c->watched == WIRE_UNWATCHED ? EPOLL_CTL_ADD : events == WIRE_UNWATCHED ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    r->counters.watch_changes++;
    if (epoll_ctl(r->epoll_fd, how, c->fd, &event) < 0) return 0;
    c->watched = events;
    return 1;
}

/* After something that its watching depends on has changed. */
static void wire_rewatch(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    uint32_t events = (wire_may_read(c) ? EPOLLIN : 0) | (c->blocked ? EPOLLOUT : 0);
    if (wire_watch(r, i, events ? events : WIRE_UNWATCHED) || c->state != WIRE_OPEN) return;
    c->is_last = 1; /* nobody would tell of its bytes: it is lost */
    wire_pend(r, i);
}

/* Slots */

static int32_t wire_begin(wire_t *r, int fd, int32_t number) {
    int32_t i = r->free_slots.count ? r->free_slots.items[--r->free_slots.count]
                : r->begun_slots < r->max_slots ? r->begun_slots++ : -1;
    if (i < 0) return -1;
    wire_conn_t *c = &r->conns[i];
    memset(c, 0, sizeof *c);
    c->fd = fd, c->state = WIRE_OPEN, c->foreign = fd < 0, c->watched = WIRE_UNWATCHED;
    c->served = r->turn - 1;
    r->heard_ms[i] = r->now_ms, r->received_bytes[i] = 0, r->listener[i] = number;
    for (int32_t k = 0; k < r->column_count; k++) {
        if (r->columns[k].width == 4) ((int32_t *)r->columns[k].cells)[i] = (int32_t)r->columns[k].initial;
        else ((int64_t *)r->columns[k].cells)[i] = r->columns[k].initial;
    }
    if (fd >= 0) {
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* sockets of Unix have no such thing */
        if (!wire_watch(r, i, EPOLLIN)) {
            c->state = WIRE_FREE;
            wire_push(&r->free_slots, i);
            return -1;
        }
    }
    r->connections++;
    return i;
}

static inline int wire_is_open(const wire_t *r, int32_t i, int32_t generation) {
    return r->conns[i].state == WIRE_OPEN && r->generation[i] == generation;
}

static void wire_drop_unsent(wire_t *r, int32_t i) {
    r->unsent_bytes -= wire_length(&r->conns[i].unsent);
    wire_drop(&r->conns[i].unsent);
}

static void wire_close_socket(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    wire_drop_unsent(r, i);
    c->blocked = 0;
    if (c->fd < 0) return;
    wire_watch(r, i, WIRE_UNWATCHED); /* a child that was forked may hold it open, and epoll would go on */
    close(c->fd);
    c->fd = -1;
}

static void wire_drop_kept(wire_t *r, wire_conn_t *c) {
    r->kept_bytes -= wire_length(&c->kept);
    wire_drop(&c->kept);
}

/* Nobody may name it any more. What is unsent goes out until the deadline, unless it is broken or foreign. */
static void wire_leave(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    c->state = WIRE_LEAVING;
    c->again = 0;
    wire_drop_kept(r, c);
    r->connections--;
    c->deadline_ms = r->now_ms + r->linger_ms;
    if (c->fd < 0 || c->broken || !wire_length(&c->unsent)) wire_close_socket(r, i);
    else wire_rewatch(r, i);
}

/* Those that the caller was told of before, and whose sockets are closed, are free. */
static void wire_sweep(wire_t *r) {
    int32_t left = 0;
    for (int32_t k = 0; k < r->leaving.count; k++) {
        int32_t i = r->leaving.items[k];
        wire_conn_t *c = &r->conns[i];
        if (c->fd >= 0 && c->deadline_ms <= r->now_ms) wire_close_socket(r, i);
        if (c->fd >= 0 || c->in_dirty || c->in_pending || c->in_changed) { /* soon */
            r->leaving.items[left++] = i;
            continue;
        }
        c->state = WIRE_FREE;
        r->generation[i] = (r->generation[i] + 1) & WIRE_GENERATIONS;
        wire_push(&r->free_slots, i);
    }
    r->leaving.count = left;
}

/* The caller ends it; `with_unsent`: when the peer has taken what is unsent. It is told as lost in the next turn. */
static void wire_end(wire_t *r, int32_t i, int with_unsent) {
    if (!with_unsent) r->conns[i].broken = 1;
    r->now_ms = wire_clock_ms();
    wire_leave(r, i);
    wire_push(&r->ended, i);
    wire_wake(r);
}

/* Its peer ended it. */
static void wire_lose(wire_t *r, int32_t i) {
    wire_leave(r, i);
    wire_push(&r->lost, i);
    wire_push(&r->leaving, i);
}

/* It holds more than it may: it is not read any more. */
static void wire_refuse(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    if (c->overfull) return;
    c->overfull = 1;
    wire_push(&r->refused, i);
    wire_wake(r);
}

/* Regions */

static void wire_offer(wire_t *r, int32_t i, int32_t size, int source) {
    r->slots[r->regions] = i, r->starts[r->regions] = r->used;
    r->used += size;
    r->stops[r->regions] = r->used, r->sources[r->regions++] = (uint8_t)source;
    r->conns[i].offered = 1, r->conns[i].served = r->turn;
}

/* At most the longest region; what is behind stays for the next turn. */
static void wire_offer_kept(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    int32_t size = wire_length(&c->kept), most = r->arena_room - r->arena_bytes;
    c->again = 0;
    if (!size || size < c->expected) return;
    c->expected = 0;
    if (size > most) size = most;
    memcpy(r->arena + r->used, c->kept.data + c->kept.at, size);
    wire_offer(r, i, size, WIRE_FROM_KEPT);
}

static void wire_heard(wire_t *r, int32_t i, int32_t size) {
    r->heard_ms[i] = r->now_ms;
    r->received_bytes[i] += size;
    r->counters.received_bytes += size;
}

/* The number of bytes; 0 if there are none now, or if the connection is lost. */
static int32_t wire_receive_into(wire_t *r, int32_t i, uint8_t *to, int32_t room) {
    ssize_t size = recv(r->conns[i].fd, to, room, MSG_DONTWAIT);
    r->counters.receives++;
    if (size > 0) {
        wire_heard(r, i, (int32_t)size);
        return (int32_t)size;
    }
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOBUFS || errno == ENOMEM))
        return 0;
    wire_lose(r, i);
    return 0;
}

/* Straight into the buffer of a packet that comes in pieces. */
static void wire_receive_piece(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    int32_t more = c->expected - wire_length(&c->kept);
    if (more > r->per_turn_bytes) more = r->per_turn_bytes;
    if (r->kept_bytes + more > r->max_pieces_bytes) {
        wire_push(&r->wanting, i);
        return;
    }
    if (!wire_room(&c->kept, more, c->expected)) {
        wire_refuse(r, i);
        return;
    }
    int32_t size = wire_receive_into(r, i, c->kept.data + c->kept.end, more);
    if (!size) return;
    c->kept.end += size, r->kept_bytes += size;
    if (wire_length(&c->kept) >= c->expected) wire_offer_kept(r, i);
}

static void wire_receive(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    int32_t before = wire_length(&c->kept);
    c->served = r->turn;
    c->again = 0;
    if (before < c->expected) {
        wire_receive_piece(r, i);
        return;
    }
    if (before > r->max_kept_bytes) { /* it would not fit in a region with what comes */
        wire_refuse(r, i);
        return;
    }
    uint8_t *to = r->arena + r->used;
    int32_t size = wire_receive_into(r, i, to + before, r->per_turn_bytes);
    if (!size) return;
    if (before) memcpy(to, c->kept.data + c->kept.at, before);
    r->kept_bytes -= before;
    c->kept.at = c->kept.end = 0; /* its memory stays until the region is taken */
    c->expected = 0;
    wire_offer(r, i, before + size, WIRE_FROM_ARENA);
}

/* What is not taken of a region is kept. */
static void wire_take(wire_t *r, int32_t region, int32_t position, int is_again) {
    int32_t i = r->slots[region], rest = r->stops[region] - position;
    wire_conn_t *c = &r->conns[i];
    if (!c->offered) return;
    c->offered = 0;
    if (c->state != WIRE_OPEN) return;
    if (r->sources[region] == WIRE_FROM_KEPT) {
        c->kept.at += position - r->starts[region];
        r->kept_bytes -= position - r->starts[region];
        if (wire_length(&c->kept) > rest) is_again = 1; /* more was kept than fits in a region */
        rest = wire_length(&c->kept);
    } else if (rest) {
        if ((rest > WIRE_SMALL_REST && r->kept_bytes + rest > r->max_pieces_bytes) || !wire_room(&c->kept, rest, rest)) {
            wire_drop(&c->kept);
            c->again = 0;
            wire_refuse(r, i);
            return;
        }
        memcpy(c->kept.data + c->kept.end, r->arena + position, rest);
        c->kept.end += rest, r->kept_bytes += rest;
    }
    if (!rest) wire_drop(&c->kept);
    c->again = rest && (is_again || c->again);
    if (c->again || c->is_last) wire_pend(r, i);
    else if (rest > r->max_kept_bytes && rest >= c->expected && !c->parked) wire_refuse(r, i);
}

/* Positions and flags have been checked. NULL: nothing is taken, and everything is offered again. */
static void wire_take_all(wire_t *r, const int32_t *positions, const uint8_t *again) {
    for (int32_t k = 0; k < r->regions; k++)
        wire_take(r, k, positions ? positions[k] : r->starts[k], positions ? again && again[k] : 1);
    r->are_offered = 0;
}

/* Sending */

static void wire_note(wire_t *r, int32_t i, int is_clogged) {
    wire_conn_t *c = &r->conns[i];
    c->clogged = (uint8_t)is_clogged;
    if (c->clogged != c->told_clogged && !c->in_changed && c->state == WIRE_OPEN) {
        c->in_changed = 1;
        wire_push(&r->changed, i);
        wire_wake(r);
    }
}

static void wire_measure(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    int64_t length = wire_length(&c->unsent);
    if (c->blocked && length > r->high_water[i]) wire_note(r, i, 1);
    else if (c->clogged && length <= r->high_water[i] / 4) wire_note(r, i, 0);
}

/* Reading tells when a connection is over. That it takes nothing any more ends what is unsent. */
static void wire_break(wire_t *r, int32_t i) {
    r->conns[i].broken = 1;
    wire_drop_unsent(r, i);
}

static void wire_send(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    int was_blocked = c->blocked;
    c->blocked = 0;
    while (wire_length(&c->unsent) && !c->blocked) {
        int32_t length = wire_length(&c->unsent);
        ssize_t size = send(c->fd, c->unsent.data + c->unsent.at, length, MSG_DONTWAIT | MSG_NOSIGNAL);
        r->counters.sends++;
        if (size >= 0) {
            c->unsent.at += (int32_t)size, r->unsent_bytes -= size, r->counters.sent_bytes += size;
            c->blocked = size < length;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ENOMEM) c->blocked = 1;
        else if (errno != EINTR) wire_break(r, i);
    }
    if (!wire_length(&c->unsent)) wire_drop(&c->unsent);
    wire_measure(r, i);
    if (c->state == WIRE_LEAVING && !c->blocked) wire_close_socket(r, i);
    else if (c->blocked != was_blocked) wire_rewatch(r, i);
}

/* Those of foreign connections stay for the caller, who has their transports. */
static void wire_flush(wire_t *r) {
    for (int32_t k = 0; k < r->dirty.count; k++) {
        int32_t i = r->dirty.items[k];
        wire_conn_t *c = &r->conns[i];
        c->in_dirty = 0;
        if (c->fd >= 0 && !c->blocked) wire_send(r, i);
    }
    r->dirty.count = 0;
}

static void wire_write(wire_t *r, int32_t i, const uint8_t *data, int32_t size) {
    wire_conn_t *c = &r->conns[i];
    if (c->broken || !size) return;
    if (!wire_room(&c->unsent, size, WIRE_MOST_BUFFER)) {
        wire_break(r, i); /* it missed bytes: its end comes as if the peer had ended it */
        if (c->foreign) wire_end(r, i, 0);
        else shutdown(c->fd, SHUT_RDWR);
        return;
    }
    memcpy(c->unsent.data + c->unsent.end, data, size);
    c->unsent.end += size, r->unsent_bytes += size;
    if (!c->in_dirty) {
        c->in_dirty = 1;
        wire_push(c->foreign ? &r->dirty_foreign : &r->dirty, i);
    }
    if (c->blocked) wire_measure(r, i);
}

static void wire_write_many(wire_t *r, const int32_t *slots, const int32_t *generations, const uint8_t *data,
                            const int32_t *starts, const int32_t *stops, int64_t count) {
    for (int64_t k = 0; k < count; k++)
        if (wire_is_open(r, slots[k], generations[k])) wire_write(r, slots[k], data + starts[k], stops[k] - starts[k]);
}

/* Pausing and long packets */

static void wire_resume(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    if (!c->parked) return;
    c->parked = 0;
    if (c->fd >= 0) wire_rewatch(r, i);
    if (c->offered) c->again = 1; /* what becomes of its region is not known yet */
    else if (wire_length(&c->kept) || c->is_last) {
        c->again = 1;
        wire_pend(r, i);
    }
}

/* Bytes that came another way, behind those that came before. */
static void wire_feed(wire_t *r, int32_t i, const uint8_t *data, int32_t size) {
    wire_conn_t *c = &r->conns[i];
    if (c->overfull || !size) return;
    r->now_ms = wire_clock_ms();
    wire_heard(r, i, size);
    if (r->kept_bytes + size > r->max_pieces_bytes || !wire_room(&c->kept, size, WIRE_MOST_BUFFER)) {
        wire_refuse(r, i);
        return;
    }
    memcpy(c->kept.data + c->kept.end, data, size);
    c->kept.end += size, r->kept_bytes += size;
    c->again = 1;
    wire_pend(r, i);
}

/* Its transport is gone: it is lost behind what was fed. */
static void wire_end_feed(wire_t *r, int32_t i) {
    r->conns[i].is_last = 1;
    wire_pend(r, i);
}

/* Listeners */

static int wire_make_nonblocking(int fd) {
    int flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

static int wire_watch_listener(wire_t *r, int32_t k, int how) {
    struct epoll_event event = {EPOLLIN, {.u64 = WIRE_LISTENER | (uint32_t)r->listeners[k].fd}};
    return epoll_ctl(r->epoll_fd, how, r->listeners[k].fd, &event);
}

/* Neither descriptors nor slots are there for another connection: those who come wait in the listener's queue. */
static void wire_rest(wire_t *r, int32_t k) {
    wire_watch_listener(r, k, EPOLL_CTL_DEL);
    r->listeners[k].rests_until_ms = r->now_ms + r->accept_rest_ms;
    r->counters.accept_rests++;
}

static void wire_end_rests(wire_t *r) {
    for (int32_t k = 0; k < r->listener_count; k++) {
        wire_listener_t *l = &r->listeners[k];
        if (!l->rests_until_ms || l->rests_until_ms > r->now_ms) continue;
        if (wire_watch_listener(r, k, EPOLL_CTL_ADD) == 0) l->rests_until_ms = 0;
    }
}

/* A connection that failed before it was accepted: the next one may be good. */
static int wire_passes(int error) {
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM || error == ENETDOWN ||
           error == EHOSTDOWN || error == EHOSTUNREACH || error == ENETUNREACH;
}

static void wire_accept(wire_t *r, int32_t k) {
    wire_listener_t *l = &r->listeners[k];
    if (l->served == r->turn || l->rests_until_ms) return;
    l->served = r->turn;
    for (int32_t tries = 0; tries < r->accepts_per_turn; tries++) {
        wire_accepted_t *found = &r->accepted[r->accepted_count];
        socklen_t length = sizeof found->address;
        if (!r->free_slots.count && r->begun_slots == r->max_slots) {
            wire_rest(r, k);
            return;
        }
        memset(&found->address, 0, sizeof found->address);
        int fd = accept4(l->fd, (struct sockaddr *)&found->address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (wire_passes(errno)) continue;
            if (errno != EAGAIN && errno != EWOULDBLOCK) wire_rest(r, k);
            return;
        }
        found->number = l->number;
        found->slot = wire_begin(r, fd, l->number);
        if (found->slot < 0) {
            close(fd);
            wire_rest(r, k);
            return;
        }
        r->accepted_count++;
        r->counters.accepts++;
    }
}

/* The turn */

static void wire_serve_pending(wire_t *r) {
    wire_list_t before = r->pending;
    r->pending = r->pending_before, r->pending_before = before;
    r->pending.count = 0;
    for (int32_t k = 0; k < before.count; k++) {
        int32_t i = before.items[k];
        wire_conn_t *c = &r->conns[i];
        c->in_pending = 0;
        if (!wire_may_read(c)) continue;
        if (r->used >= r->arena_bytes) wire_pend(r, i);
        else if (c->again && wire_length(&c->kept) >= c->expected && wire_length(&c->kept)) wire_offer_kept(r, i);
        else if (c->is_last) wire_lose(r, i);
        else if (!c->foreign) wire_receive(r, i);
    }
}

static int wire_serve_readable(wire_t *r, int32_t i) {
    wire_conn_t *c = &r->conns[i];
    if (!wire_may_read(c)) {
        wire_rewatch(r, i);
        return 0;
    }
    if (c->served == r->turn || c->in_pending) return 0;
    if (r->used >= r->arena_bytes) wire_pend(r, i);
    else wire_receive(r, i);
    return 1;
}

/* Whether somebody had a share of the turn by it. */
static int wire_serve(wire_t *r, const struct epoll_event *event) {
    uint64_t tag = event->data.u64;
    if (tag == WIRE_WAKE) return 0;
    if (tag & WIRE_LISTENER) {
        for (int32_t k = 0; k < r->listener_count; k++)
            if (r->listeners[k].fd == (int32_t)(tag & 0x7fffffff)) wire_accept(r, k);
        return 0;
    }
    int32_t i = (int32_t)(tag & 0xffffffff);
    wire_conn_t *c = &r->conns[i];
    if (c->fd < 0 || r->generation[i] != (int32_t)(tag >> 32)) return 0;
    if (c->blocked && event->events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) wire_send(r, i);
    if (c->fd < 0 || !(event->events & ~EPOLLOUT)) return 0;
    return wire_serve_readable(r, i);
}

static void wire_tell_changed(wire_t *r) {
    for (int32_t k = 0; k < r->changed.count; k++) {
        int32_t i = r->changed.items[k];
        wire_conn_t *c = &r->conns[i];
        c->in_changed = 0;
        if (c->state != WIRE_OPEN || c->clogged == c->told_clogged) continue;
        c->told_clogged = c->clogged;
        wire_push(c->clogged ? &r->clogged : &r->drained, i);
    }
    r->changed.count = 0;
}

/* Of those who want more than there is, the one that holds most has to go: one a turn, as it makes room for others. */
static void wire_make_room(wire_t *r) {
    int32_t most = -1;
    for (int32_t k = 0; k < r->wanting.count; k++) {
        int32_t i = r->wanting.items[k];
        if (r->conns[i].state != WIRE_OPEN) continue;
        int32_t more = most < 0 ? 1 : wire_length(&r->conns[i].kept) - wire_length(&r->conns[most].kept);
        if (more > 0 || (!more && i < most)) most = i;
    }
    r->wanting.count = 0;
    if (most >= 0) wire_refuse(r, most);
}

static void wire_tell_overfull(wire_t *r) {
    int32_t count = 0;
    wire_make_room(r);
    for (int32_t k = 0; k < r->refused.count; k++) {
        int32_t i = r->refused.items[k];
        if (r->conns[i].state == WIRE_OPEN) r->overfull.items[count++] = i;
    }
    r->overfull.count = count;
    r->refused.count = 0;
}

static void wire_tell_ended(wire_t *r) {
    for (int32_t k = 0; k < r->ended.count; k++) {
        wire_push(&r->lost, r->ended.items[k]);
        wire_push(&r->leaving, r->ended.items[k]);
    }
    r->ended.count = 0;
}

static void wire_begin_turn(wire_t *r) {
    uint64_t woken;
    r->is_turning = 1;
    if (r->are_offered) wire_take_all(r, NULL, NULL);
    r->now_ms = wire_clock_ms();
    r->turn++;
    r->counters.turns++;
    if (r->is_awake && (read(r->wake_fd, &woken, 8) == 8 || errno == EAGAIN)) r->is_awake = 0;
    if (r->was_used > r->arena_bytes + WIRE_ARENA_SLACK)
        madvise(r->arena + r->arena_bytes, r->arena_room - r->arena_bytes, MADV_DONTNEED);
    r->used = r->regions = r->accepted_count = 0;
    r->lost.count = r->clogged.count = r->drained.count = 0;
    wire_flush(r);
    wire_sweep(r);
    wire_tell_ended(r);
    wire_end_rests(r);
}

/* Whether there is anything to tell. */
static int wire_turn(wire_t *r) {
    int32_t count, served;
    wire_begin_turn(r);
    wire_serve_pending(r);
    do {
        count = epoll_wait(r->epoll_fd, r->events, WIRE_EVENTS, 0);
        r->counters.polls++;
        served = 0;
        for (int32_t k = 0; k < count; k++) served += wire_serve(r, &r->events[k]);
    } while (count == WIRE_EVENTS && served && r->used < r->arena_bytes);
    wire_tell_changed(r);
    wire_tell_overfull(r);
    r->is_turning = 0;
    r->was_used = r->used;
    r->are_offered = r->regions > 0;
    if (r->pending.count) wire_wake(r);
    int is_empty = !r->regions && !r->accepted_count && !r->lost.count && !r->clogged.count && !r->drained.count &&
                   !r->overfull.count;
    r->counters.empty_turns += is_empty;
    return !is_empty;
}

#endif
