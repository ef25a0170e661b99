// The program in the containers of the journeys: a static binary that serves, fails or ends as its argument says.
//
//   serve     answers GET /ready on port 8080 with 200; after GET /break with 503, after GET /repair with 200 again
//   unready   serves like that, but broken from the start
//   exit N    ends with status N
//   crash     ends with SIGABRT
//   oom       allocates memory until the kernel kills it
//   pause     waits until it is told to end; the pause container of every pod
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) { (void)signal; _exit(0); }

static void reap(int signal) {
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
}

static void handle(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(signal, &action, NULL);
}

static int serve(int is_ready) {
    int server = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1, no = 0;
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(8080)};
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(server, IPPROTO_IPV6, 26 /* IPV6_V6ONLY */, &no, sizeof no);
    if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 64)) {
        perror("cannot listen on port 8080");
        return 1;
    }
    for (;;) {
        int client = accept(server, NULL, NULL);
        if (client < 0) continue;
        struct timeval limit = {.tv_sec = 2};
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        char request[4096] = {0};
        if (read(client, request, sizeof request - 1) > 0) {
            if (!strncmp(request, "GET /break", 10)) is_ready = 0;
            if (!strncmp(request, "GET /repair", 11)) is_ready = 1;
            const char *status = is_ready ? "200 OK" : "503 Service Unavailable";
            dprintf(client, "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);
        }
        close(client);
    }
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "serve";
    handle(SIGTERM, end);
    handle(SIGINT, end);
    handle(SIGCHLD, reap);
    signal(SIGPIPE, SIG_IGN);
    fprintf(stderr, "workload: %s\n", mode);
    if (!strcmp(mode, "serve")) return serve(1);
    if (!strcmp(mode, "unready")) return serve(0);
    if (!strcmp(mode, "exit")) return count > 2 ? atoi(arguments[2]) : 0;
    if (!strcmp(mode, "crash")) abort();
    while (!strcmp(mode, "oom")) {
        size_t size = 1 << 20;
        char *memory = malloc(size);
        if (memory) memset(memory, 1, size);
    }
    while (!strcmp(mode, "pause")) pause();
    fprintf(stderr, "workload: unknown mode %s\n", mode);
    return 2;
}
