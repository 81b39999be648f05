/* The least that a question and its answer can cost a server: epoll_wait, read, write, and nothing else.
 * Prints its port, and serves until it is killed. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), on = 1;
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening}, ready[64];
    static char data[65536];
    if (bind(listening, (struct sockaddr *)&address, size) || listen(listening, 1024) ||
        getsockname(listening, (struct sockaddr *)&address, &size) ||
        epoll_ctl(poll, EPOLL_CTL_ADD, listening, &event))
        return 1;
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(poll, ready, 64, -1);
        for (int each = 0; each < count; each++) {
            int from = ready[each].data.fd;
            if (from == listening) {
                event.data.fd = accept(listening, NULL, NULL);
                setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            ssize_t got = read(from, data, sizeof data);
            if (got <= 0 || write(from, data, got) != got)
                close(from);
        }
    }
}
