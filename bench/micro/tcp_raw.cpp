// SPDX-License-Identifier: Apache-2.0
// tcp_raw.cpp: what the kernel's loopback TCP gives two processes that do nothing else: the yardstick of the tcp
// transport. It uses none of hocket.
//
//   c++ -O2 -std=c++20 bench/micro/tcp_raw.cpp -o tcp_raw
//   tcp_raw hop BYTES ROUNDS       half a round trip, microseconds; both processes spin in recv
//   tcp_raw swap BYTES ROUNDS STREAMS   each sends BYTES to the other at once; GB/s of one direction
//   tcp_raw send BYTES ROUNDS STREAMS   one way, with an empty answer; GB/s
//   tcp_raw sum BYTES ROUNDS [MESSAGE] [CONTROL]   an all-reduce: swap, and what comes is added to what was sent; in
//       messages of MESSAGE bytes and 168 of a header (0: no headers, as it comes), with this congestion control
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// One side: sends `out` bytes and receives `in`, over all sockets in turn, without sleeping.
void move(const std::vector<int>& sockets, std::vector<char>& from, std::vector<char>& to, std::size_t out,
          std::size_t in) {
  constexpr std::size_t kPiece = 256 << 10;
  const std::size_t each_out = out / sockets.size(), each_in = in / sockets.size();
  std::vector<std::size_t> sent(sockets.size()), received(sockets.size());
  for (bool rest = true; rest;) {
    rest = false;
    for (std::size_t s = 0; s < sockets.size(); ++s) {
      if (sent[s] < each_out) {
        const ssize_t n = ::send(sockets[s], &from[s * each_out + sent[s]], std::min(kPiece, each_out - sent[s]),
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) sent[s] += static_cast<std::size_t>(n);
        if (n < 0 && errno != EAGAIN) die("send");
        rest = true;
      }
      if (received[s] < each_in) {
        const ssize_t n = ::recv(sockets[s], &to[s * each_in + received[s]], each_in - received[s], MSG_DONTWAIT);
        if (n > 0) received[s] += static_cast<std::size_t>(n);
        if (n == 0 || (n < 0 && errno != EAGAIN)) die("recv");
        rest = true;
      }
    }
  }
}

/// One side of an all-reduce by two, over one socket: message by message into 16 slots, summed from there.
void sum(int fd, const std::vector<float>& from, std::vector<float>& result, std::size_t message) {
  constexpr std::size_t kSlots = 16, kPiece = 64 << 10;
  const std::size_t header = message == 0 ? 0 : 168, body = message == 0 ? kPiece : message;
  const std::size_t bytes = from.size() * sizeof(float);
  const std::size_t messages = (bytes + body - 1) / body, total = messages * header + bytes, unit = header + body;
  static std::vector<char> slots(kSlots * body), out_header(header + 1), in_header(header + 1);
  const char* const source = reinterpret_cast<const char*>(from.data());
  // What of the stream begins at `at`: the rest of its message's header and body.
  const auto parts = [&](std::size_t at, char* head, char* bodies, bool ring, iovec* to) {
    const std::size_t m = at / unit, in = at % unit, skip = in < header ? 0 : in - header;
    std::size_t count = 0;
    if (in < header) to[count++] = {head + in, header - in};
    to[count++] = {bodies + (ring ? m % kSlots : m) * body + skip, std::min(body, bytes - m * body) - skip};
    return count;
  };
  std::size_t sent = 0, received = 0, done = 0;
  while (sent < total || done < messages) {
    iovec vector[2];
    msghdr header_of_call{};
    header_of_call.msg_iov = vector;
    if (sent < total) {
      header_of_call.msg_iovlen = parts(sent, out_header.data(), const_cast<char*>(source), false, vector);
      const ssize_t n = ::sendmsg(fd, &header_of_call, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n < 0 && errno != EAGAIN) die("sendmsg");
    }
    if (received < total) {
      header_of_call.msg_iovlen = parts(received, in_header.data(), slots.data(), true, vector);
      const ssize_t n = ::recvmsg(fd, &header_of_call, MSG_DONTWAIT);
      if (n > 0) received += static_cast<std::size_t>(n);
      if (n == 0 || (n < 0 && errno != EAGAIN)) die("recvmsg");
    }
    for (const std::size_t whole = received == total ? messages : received / unit; done < whole; ++done) {
      const auto* came = reinterpret_cast<const float*>(&slots[done % kSlots * body]);
      const std::size_t first = done * body / sizeof(float);
      const std::size_t last = std::min(from.size(), first + body / sizeof(float));
      for (std::size_t i = first; i < last; ++i) result[i] = came[i - first] + from[i];
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4)
    return std::fprintf(stderr, "usage: %s hop|swap|send|sum BYTES ROUNDS [STREAMS | MESSAGE [CONTROL]]\n", argv[0]), 2;
  const std::string_view mode = argv[1];
  const std::size_t bytes = std::strtoull(argv[2], nullptr, 10);
  const int rounds = std::atoi(argv[3]);
  const bool sums = mode == "sum";
  const int streams = argc > 4 && !sums ? std::atoi(argv[4]) : 1;
  const std::size_t message = argc > 4 && sums ? std::strtoull(argv[4], nullptr, 10) / 64 * 64 : 0;
  const std::string_view control = argc > 5 && sums ? argv[5] : "";
  if (bytes == 0 || rounds < 1 || streams < 1) return std::fprintf(stderr, "numbers from 1\n"), 2;

  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) < 0 || ::listen(listener, streams) < 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) < 0)
    die("listen");
  const pid_t child = ::fork();
  if (child < 0) die("fork");
  std::vector<int> sockets;
  for (int s = 0; s < streams; ++s) {
    int fd = child == 0 ? ::socket(AF_INET, SOCK_STREAM, 0) : ::accept(listener, nullptr, nullptr);
    if (child == 0 && ::connect(fd, reinterpret_cast<sockaddr*>(&address), length) < 0) die("connect");
    if (fd < 0) die("accept");
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!control.empty() &&
        ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control.data(), static_cast<socklen_t>(control.size())) < 0)
      die("congestion control");
    sockets.push_back(fd);
  }

  const std::size_t share = std::max<std::size_t>(bytes / static_cast<std::size_t>(streams), 1);
  const std::size_t all = share * static_cast<std::size_t>(streams);
  const auto one = static_cast<std::size_t>(streams);
  std::vector<char> from(std::max(all, one), 1), to(std::max(all, one), 2);
  std::vector<float> terms(sums ? bytes / sizeof(float) : 0, 1.0f), result(terms.size());
  const bool first = child != 0;
  std::vector<double> times;
  for (int r = -rounds / 5 - 1; r < rounds; ++r) {
    const double begin = now();
    if (sums) {
      sum(sockets[0], terms, result, message);
    } else if (mode == "swap") {
      move(sockets, from, to, all, all);
    } else if (mode == "send") {
      move(sockets, from, to, first ? all : 0, first ? 0 : all);
      move(sockets, from, to, first ? 0 : one, first ? one : 0);
    } else {
      if (first) move(sockets, from, to, all, 0);
      move(sockets, from, to, 0, all);
      if (!first) move(sockets, from, to, all, 0);
    }
    if (r >= 0) times.push_back(now() - begin);
  }
  if (!first) return 0;
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) return 1;
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  if (mode == "hop")
    std::printf("%.2f us\n", median / 2 * 1e6);
  else
    std::printf("%.3f GB/s\n", static_cast<double>(all) / median / 1e9);
  return 0;
}
