#define _GNU_SOURCE
#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
#endif

enum { LEAST_ROOM = 16 << 10, CONSUMER_ROOM = 512 << 10, ANSWER_S = 30 };

void fail(const char *what, ...)
{
    va_list values;
    va_start(values, what);
    vfprintf(stderr, what, values);
    va_end(values);
    fprintf(stderr, "%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static void grow(char **buffer, size_t *room, size_t needed)
{
    size_t wanted = *room ? *room : LEAST_ROOM;
    while (wanted < needed)
        wanted *= 2;
    if (wanted == *room)
        return;
    if (!(*buffer = realloc(*buffer, wanted)))
        fail("memory");
    *room = wanted;
}

#ifdef WITH_TLS
static void start_tls(struct link *link)
{
    static SSL_CTX *context;
    if (!context) {
        if (!(context = SSL_CTX_new(TLS_client_method())))
            fail("TLS");
        /* The certificate is made for the run: nobody could vouch for it. */
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, NULL);
        SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_read_ahead(context, 1);
    }
    link->tls = SSL_new(context);
    if (!link->tls || !SSL_set_fd(link->tls, link->socket) || SSL_connect(link->tls) != 1)
        fail("TLS handshake: %s", ERR_reason_error_string(ERR_get_error()));
}

/* As recv and send: -1 with EAGAIN where the socket must be waited for. */
static ssize_t in_plain_words(struct link *link, int result)
{
    int why = result > 0 ? SSL_ERROR_NONE : SSL_get_error(link->tls, result);
    if (result > 0)
        return result;
    if (why == SSL_ERROR_ZERO_RETURN)
        return 0;
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        errno = EAGAIN;
    return -1;
}

static ssize_t get(struct link *link, char *room, size_t bytes)
{
    if (!link->tls)
        return recv(link->socket, room, bytes, 0);
    return in_plain_words(link, SSL_read(link->tls, room, bytes));
}

static ssize_t put(struct link *link, const char *data, size_t bytes)
{
    if (!link->tls)
        return send(link->socket, data, bytes, MSG_NOSIGNAL);
    return in_plain_words(link, SSL_write(link->tls, data, bytes));
}

/* Whether bytes that the socket has given up wait inside the library, of which epoll knows nothing. */
static int has_more(struct link *link)
{
    return link->tls && SSL_has_pending(link->tls);
}
#else
static void start_tls(struct link *link)
{
    (void) link;
    errno = 0;
    fail("built without TLS");
}

static ssize_t get(struct link *link, char *room, size_t bytes)
{
    return recv(link->socket, room, bytes, 0);
}

static ssize_t put(struct link *link, const char *data, size_t bytes)
{
    return send(link->socket, data, bytes, MSG_NOSIGNAL);
}

static int has_more(struct link *link)
{
    (void) link;
    return 0;
}
#endif

void link_open(struct link *link, const char *host, int port, int is_tls)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval limit = {.tv_sec = ANSWER_S};
    int on = 1;
    link->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->socket < 0 || !inet_aton(host, &address.sin_addr))
        fail("socket");
    setsockopt(link->socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(link->socket, (struct sockaddr *) &address, sizeof address))
        fail("connect");
    setsockopt(link->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (is_tls)
        start_tls(link);
}

void link_unblock(struct link *link)
{
    if (fcntl(link->socket, F_SETFL, O_NONBLOCK))
        fail("fcntl");
}

void link_close(struct link *link)
{
    close(link->socket);
}

char *link_room(struct link *link, size_t bytes)
{
    grow(&link->out, &link->out_room, link->out_bytes + bytes);
    link->out_bytes += bytes;
    return link->out + link->out_bytes - bytes;
}

void link_say(struct link *link, const void *data, size_t bytes)
{
    memcpy(link_room(link, bytes), data, bytes);
}

void link_flush(struct link *link)
{
    link->is_blocked = 0;
    while (link->out_sent < link->out_bytes) {
        ssize_t sent = put(link, link->out + link->out_sent, link->out_bytes - link->out_sent);
        if (sent > 0) {
            link->out_sent += sent;
        } else if (sent < 0 && errno == EAGAIN) {
            link->is_blocked = 1;
            return;
        } else {
            fail("send");
        }
    }
    link->out_sent = link->out_bytes = 0;
}

void link_receive(struct link *link)
{
    do {
        /* What is left is part of a packet, and the rest of it must fit behind. */
        grow(&link->in, &link->in_room, link->is_consumer ? CONSUMER_ROOM + link->in_bytes : 2 * link->in_bytes);
        ssize_t got = get(link, link->in + link->in_bytes, link->in_room - link->in_bytes);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            errno = got ? errno : 0;
            fail("the server closed a connection");
        }
        link->in_bytes += got;
    } while (has_more(link));
}

void link_took(struct link *link, size_t bytes)
{
    link->in_bytes -= bytes;
    memmove(link->in, link->in + bytes, link->in_bytes);
}
