/* Many clients of one event stream, in one thread: `sse_reader HOST PORT PATH CLIENTS`.

   Prints a line of JSON when all clients are answered, and another for every line on its standard input; ends with that
   input. An event must have the id that follows the last one of its client: the stream is that of a queue with one
   partition, whose ids are `0:N`. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM_BYTES = 256 << 10, AT_A_TIME = 100, EVENTS = 256, ANSWER_S = 60 };
/* Where a client stands in its answer: its head, the size of a chunk, the chunk, the end of its line. */
enum place { HEAD, SIZE, CHUNK, CHUNK_END };
/* What a line of the stream is, told by its first letter. */
enum line { NEW, ID, DATA, OTHER };

struct client {
    int socket;
    enum place place;
    enum line line;
    int matched;        /* bytes of the empty line behind the head */
    int is_answered;    /* an id has come */
    int has_data;
    long left;          /* of the chunk */
    long number, id, last_id;
    long events;
    char status[12];
    int status_bytes;
};

static struct client *clients;
static int client_count, answered, closed;
static long total_events, total_bytes, out_of_order;
static char room[ROOM_BYTES];

static void fail(const char *what)
{
    fprintf(stderr, "sse_reader: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* A blank line ends an event. One without data only tells where the client begins. */
static void end_event(struct client *client)
{
    if (client->has_data) {
        client->events++;
        total_events++;
        out_of_order += client->id != client->last_id + 1;
    } else if (client->id >= 0 && !client->is_answered) {
        client->is_answered = 1;
        answered++;
    }
    client->last_id = client->id;
    client->has_data = 0;
}

static void end_line(struct client *client)
{
    if (client->line == NEW)
        end_event(client);
    else if (client->line == ID)
        client->id = client->number;
    else if (client->line == DATA)
        client->has_data = 1;
    client->line = NEW;
}

static void read_text(struct client *client, const char *text, const char *end)
{
    while (text < end) {
        if (client->line == NEW && *text != '\n') {
            client->line = *text == 'i' ? ID : *text == 'd' ? DATA : OTHER;
            client->number = 0;
        }
        const char *stop = memchr(text, '\n', end - text);
        const char *here = stop ? stop : end;
        /* The number behind the last colon. */
        for (; client->line == ID && text < here; text++)
            client->number = *text < '0' || *text > '9' ? 0 : 10 * client->number + *text - '0';
        text = here;
        if (stop) {
            end_line(client);
            text++;
        }
    }
}

static const char *read_head(struct client *client, const char *data, const char *end)
{
    static const char blank[] = "\r\n\r\n";
    for (; data < end; data++) {
        if (client->status_bytes < (int) sizeof client->status)
            client->status[client->status_bytes++] = *data;
        client->matched = *data == blank[client->matched] ? client->matched + 1 : *data == '\r';
        if (client->matched == 4) {
            if (memcmp(client->status, "HTTP/1.1 200", sizeof client->status)) {
                fprintf(stderr, "sse_reader: answered with %.12s\n", client->status);
                exit(1);
            }
            client->place = SIZE;
            client->left = 0;
            return data + 1;
        }
    }
    return end;
}

static const char *read_size(struct client *client, const char *data, const char *end)
{
    for (; data < end; data++) {
        if (*data == '\n') {
            client->place = CHUNK;
            return data + 1;
        }
        if (*data != '\r')
            client->left = 16 * client->left + (*data <= '9' ? *data - '0' : (*data | 32) - 'a' + 10);
    }
    return end;
}

static const char *read_chunk(struct client *client, const char *data, const char *end)
{
    long size = end - data < client->left ? end - data : client->left;
    read_text(client, data, data + size);
    client->left -= size;
    if (!client->left)
        client->place = CHUNK_END;
    return data + size;
}

static const char *read_chunk_end(struct client *client, const char *data, const char *end)
{
    const char *stop = memchr(data, '\n', end - data);
    if (!stop)
        return end;
    client->place = SIZE;
    client->left = 0;
    return stop + 1;
}

static void read_answer(struct client *client, const char *data, const char *end)
{
    while (data < end)
        switch (client->place) {
        case HEAD: data = read_head(client, data, end); break;
        case SIZE: data = read_size(client, data, end); break;
        case CHUNK: data = read_chunk(client, data, end); break;
        case CHUNK_END: data = read_chunk_end(client, data, end); break;
        }
}

static void receive(struct client *client)
{
    ssize_t size = recv(client->socket, room, sizeof room, MSG_DONTWAIT);
    if (size > 0) {
        total_bytes += size;
        read_answer(client, room, room + size);
    } else if (size == 0 || errno != EAGAIN) {
        close(client->socket);
        closed++;
    }
}

static void report(void)
{
    long least = client_count ? clients[0].events : 0;
    for (int number = 0; number < client_count; number++)
        least = clients[number].events < least ? clients[number].events : least;
    printf("{\"answered\": %d, \"closed\": %d, \"events\": %ld, \"least_events\": %ld, \"bytes\": %ld, "
           "\"out_of_order\": %ld}\n", answered, closed, total_events, least, total_bytes, out_of_order);
    fflush(stdout);
}

static void open_client(int poll, struct sockaddr_in *address, const char *request)
{
    struct client *client = &clients[client_count];
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = client};
    client->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    client->id = client->last_id = -1;
    if (client->socket < 0 || connect(client->socket, (struct sockaddr *) address, sizeof *address))
        fail("connect");
    if (send(client->socket, request, strlen(request), 0) < 0)
        fail("send");
    if (epoll_ctl(poll, EPOLL_CTL_ADD, client->socket, &wanted))
        fail("epoll_ctl");
    client_count++;
}

/* Whether to go on: not when nobody asks any more. */
static int turn(int poll)
{
    struct epoll_event found[EVENTS];
    int count = epoll_wait(poll, found, EVENTS, -1);
    for (int number = 0; number < count; number++) {
        if (found[number].data.ptr) {
            receive(found[number].data.ptr);
            continue;
        }
        ssize_t size = read(STDIN_FILENO, room, sizeof room);
        if (size <= 0)
            return 0;
        for (ssize_t at = 0; at < size; at++)
            if (room[at] == '\n')
                report();
    }
    return count >= 0 || errno == EINTR;
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct epoll_event asked = {.events = EPOLLIN, .data.ptr = NULL};
    char *request;
    if (argc != 5 || !inet_aton(argv[1], &address.sin_addr)) {
        fprintf(stderr, "usage: sse_reader HOST PORT PATH CLIENTS\n");
        return 2;
    }
    address.sin_port = htons(atoi(argv[2]));
    int wanted = atoi(argv[4]), poll = epoll_create1(EPOLL_CLOEXEC);
    clients = calloc(wanted, sizeof *clients);
    if (!clients || poll < 0 || asprintf(&request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", argv[3], argv[1]) < 0)
        fail("start");
    if (epoll_ctl(poll, EPOLL_CTL_ADD, STDIN_FILENO, &asked))
        fail("epoll_ctl");
    /* A server that does not answer ends this program, which its reader sees. */
    alarm(ANSWER_S);
    while (answered < wanted) {
        while (client_count < wanted && client_count - answered < AT_A_TIME)
            open_client(poll, &address, request);
        if (!turn(poll))
            return 0;
        if (closed) {
            fprintf(stderr, "sse_reader: a connection was closed before its answer\n");
            return 1;
        }
    }
    alarm(0);
    report();
    while (turn(poll))
        ;
    return 0;
}
