/* Connections: a thread each that writes requests and reads answers, as the real library's event loop does for its callers. */
#include "fakedcgm.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0xadbcbcad
#define MODULE_COMMAND 0x0300
#define RETRY_MS 50
#define MOST 256

struct frame { u32 magic, request; int length, type, status; };

/* A call that waits for its answer. */
struct waiter { struct frame head; const void *body; char *answer; int length, status, sent, done; struct waiter *next; };

struct connection {
    int socket, wake, closing, dead, users;
    u32 last_request;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t told;
    struct waiter *waiters;
};
static struct connection *connections[MOST];
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

/* The engine in this process: does what the message says and leaves the answer in it; without one, starts (capacity 0) or
 * stops (1). Python's. */
static R (*engine)(void *message, u32 capacity);
API void fakedcgm_embed(R (*function)(void *, u32)) { engine = function; }

static int exactly(int fd, void *data, size_t size, int writing) {
    for (size_t at = 0; at < size;) {
        ssize_t n = writing ? send(fd, (char *)data + at, size - at, MSG_NOSIGNAL) : recv(fd, (char *)data + at, size - at, 0);
        if (n <= 0 && !(n < 0 && errno == EINTR)) return 0;
        if (n > 0) at += n;
    }
    return 1;
}

static int send_waiting(struct connection *c) {
    for (;;) {
        struct waiter *w;
        void *copy = NULL;
        pthread_mutex_lock(&c->lock);
        for (w = c->waiters; w && w->sent; w = w->next) {}
        if (w) {
            w->sent = 1;
            copy = malloc(sizeof w->head + w->head.length);
            memcpy(copy, &w->head, sizeof w->head);
            memcpy((char *)copy + sizeof w->head, w->body, w->head.length);
        }
        size_t size = w ? sizeof w->head + w->head.length : 0;
        pthread_mutex_unlock(&c->lock);
        if (!size) return 1;
        int written = exactly(c->socket, copy, size, 1);
        free(copy);
        if (!written) return 0;
        pthread_cond_broadcast(&c->told); /* the real one's callers wait until it is sent, then for the answer */
    }
}

static int receive(struct connection *c) {
    struct frame head;
    if (!exactly(c->socket, &head, sizeof head, 0) || head.magic != MAGIC || head.length < 0 || head.length > MESSAGE_MAX) return 0;
    char *body = malloc(head.length);
    if (!exactly(c->socket, body, head.length, 0)) {
        free(body);
        return 0;
    }
    pthread_mutex_lock(&c->lock);
    struct waiter *w = c->waiters;
    while (w && w->head.request != head.request) w = w->next;
    if (w) {
        w->answer = body;
        w->length = head.length;
        w->status = head.status;
        w->done = 1;
        pthread_cond_broadcast(&c->told);
    } else
        free(body); /* it waits no more */
    pthread_mutex_unlock(&c->lock);
    return 1;
}

static void *run(void *argument) {
    struct connection *c = argument;
    struct pollfd fds[2] = {{c->socket, POLLIN, 0}, {c->wake, POLLIN, 0}};
    for (;;) {
        uint64_t count;
        if (poll(fds, 2, -1) < 0 && errno != EINTR) break;
        if (fds[1].revents && read(c->wake, &count, sizeof count) > 0 && (c->closing || !send_waiting(c))) break;
        if (fds[0].revents && !receive(c)) break;
    }
    pthread_mutex_lock(&c->lock);
    c->dead = 1;
    for (struct waiter *w = c->waiters; w; w = w->next) {
        w->status = CONNECTION_NOT_VALID;
        w->done = 1;
    }
    pthread_cond_broadcast(&c->told);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static struct connection *acquire(handle h) {
    pthread_mutex_lock(&table);
    struct connection *c = h && h < MOST ? connections[h] : NULL;
    if (c) c->users++;
    pthread_mutex_unlock(&table);
    return c;
}

static void release(struct connection *c) {
    pthread_mutex_lock(&table);
    int left = --c->users;
    pthread_mutex_unlock(&table);
    if (left) return;
    close(c->socket);
    close(c->wake);
    free(c);
}

static R ask_remote(handle h, struct header *message, size_t length, size_t capacity) {
    struct connection *c = acquire(h);
    if (!h) return BADPARAM;
    if (!c) return CONNECTION_NOT_VALID;
    message->connection = (u32)h;
    void *body = malloc(length);
    memcpy(body, message, length);
    struct waiter w = {.head = {MAGIC, 0, (int)length, MODULE_COMMAND, OK}, .body = body}, **place;
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 60;
    uint64_t one = 1;
    pthread_mutex_lock(&c->lock);
    if (c->dead)
        w.status = CONNECTION_NOT_VALID;
    else {
        w.head.request = ++c->last_request;
        w.next = c->waiters;
        c->waiters = &w;
        w.status = write(c->wake, &one, sizeof one) < 0 ? GENERIC_ERROR : TIMEOUT;
        while (!w.done && pthread_cond_timedwait(&c->told, &c->lock, &end) != ETIMEDOUT) {}
        for (place = &c->waiters; *place != &w; place = &(*place)->next) {}
        *place = w.next;
    }
    pthread_mutex_unlock(&c->lock);
    free(body);
    if (w.answer && (size_t)w.length > capacity) w.status = GENERIC_ERROR;
    else if (w.answer) memcpy(message, w.answer, w.length);
    free(w.answer);
    release(c);
    return w.status;
}

R fake_ask(handle connection, struct header *message, size_t length, size_t capacity) {
    if (connection != EMBEDDED) return ask_remote(connection, message, length, capacity);
    return engine ? engine(message, (u32)capacity) : UNINITIALIZED;
}

static int dial(const char *address, int is_path) {
    if (is_path) {
        struct sockaddr_un place = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        snprintf(place.sun_path, sizeof place.sun_path, "%s", address);
        if (!connect(fd, (struct sockaddr *)&place, sizeof place)) return fd;
        close(fd);
        return -1;
    }
    char host[256], *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1, one = 1;
    snprintf(host, sizeof host, "%s", address);
    port = strrchr(host, ':');
    if (port) *port++ = 0;
    if (getaddrinfo(host, port ? port : "5555", &hints, &found)) return -1;
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

R fake_connect(const char *address, int is_path, u32 limit_ms, handle *connection) {
    struct connection *c;
    pthread_condattr_t monotonic;
    int fd;
    if (!limit_ms) limit_ms = 5000;
    /* Where nothing listens it goes on trying until its time is up. */
    for (u32 waited = 0; (fd = dial(address, is_path)) < 0; waited += RETRY_MS) {
        if (waited + RETRY_MS > limit_ms) return CONNECTION_NOT_VALID;
        usleep(RETRY_MS * 1000);
    }
    c = calloc(1, sizeof *c);
    c->socket = fd;
    c->wake = eventfd(0, EFD_CLOEXEC);
    c->users = 1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->told, &monotonic);
    pthread_mutex_lock(&table);
    handle h = 1;
    while (h < MOST && connections[h]) h++;
    if (h < MOST) connections[h] = c;
    pthread_mutex_unlock(&table);
    if (h >= MOST || pthread_create(&c->thread, NULL, run, c)) return GENERIC_ERROR;
    *connection = h;
    return OK;
}

R fake_disconnect(handle h) {
    uint64_t one = 1;
    struct connection *c = acquire(h);
    if (!c) return CONNECTION_NOT_VALID;
    pthread_mutex_lock(&table);
    int first = connections[h] == c;
    if (first) connections[h] = NULL;
    pthread_mutex_unlock(&table);
    if (first) {
        c->closing = 1;
        shutdown(c->socket, SHUT_RDWR);
        if (write(c->wake, &one, sizeof one) < 0) {}
        pthread_join(c->thread, NULL);
        release(c);
    }
    release(c);
    return OK;
}

API R dcgmStartEmbedded(int mode, handle *connection) {
    (void)mode;
    *connection = EMBEDDED;
    return engine ? engine(NULL, 0) : NVML_NOT_LOADED;
}
API R dcgmStopEmbedded(handle connection) { return connection == EMBEDDED && engine ? engine(NULL, 1) : BADPARAM; }
