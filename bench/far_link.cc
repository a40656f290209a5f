// A link between sites far apart, for bench/latency.py: forwards packets between two interfaces of
// this network namespace, with a delay and a rate in each direction. TCP itself sees the round
// trip, which a proxy of connections would hide from it; and netem, which does the same, is not in
// every kernel.
//
//   far_link INTERFACE INTERFACE RATE_MBIT DELAY_MS QUEUE_MS
//
// Prints "ready" when packets are forwarded. Each direction is a thread: it reads packets from one
// interface, drops those that would wait longer than QUEUE_MS for the link, and writes the others
// to the other interface when the link has carried them. When its standard input ends, it prints
// for each direction the packets, the bytes and the drops, and ends. Segmentation and checksum
// offload must be off where the packets come from, so that they are those of a real link.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLargestPacket = 65'536;
// A link carries these with each packet: preamble, checksum and gap of Ethernet.
constexpr size_t kBytesAroundPacket = 24;

struct Link {
  double bytes_per_s = 0;
  Clock::duration delay{}, longest_queue{};
};

struct Counts {
  std::atomic<uint64_t> packets{0}, bytes{0}, drops{0};
};

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "far_link: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

// Opens a socket for all packets that come in at the interface.
int OpenInterface(const std::string& name) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  if (fd < 0) Die("cannot open a raw socket (run as root)");
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  if (address.sll_ifindex == 0) Die("no interface " + name);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) Die(name);
  const int buffer_bytes = 64 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer_bytes, sizeof buffer_bytes);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof buffer_bytes);
  const int ignore_outgoing = 1;
  if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore_outgoing,
                 sizeof ignore_outgoing) != 0)
    Die("PACKET_IGNORE_OUTGOING");
  return fd;
}

// One direction of the link.
class Direction {
 public:
  Direction(int from, int to, const Link& link, Counts* counts)
      : from_(from), to_(to), link_(link), counts_(*counts) {}

  [[noreturn]] void Run() {
    prctl(PR_SET_TIMERSLACK, 1000UL);
    for (;;) {
      WaitForPacketOrDelivery();
      while (ReadPacket()) {
      }
      while (!travelling_.empty() && travelling_.front().arrives_at <= Clock::now()) Deliver();
    }
  }

 private:
  struct Packet {
    Clock::time_point arrives_at;
    std::vector<char> bytes;
  };

  void WaitForPacketOrDelivery() const {
    using namespace std::chrono;
    pollfd entry{from_, POLLIN, 0};
    if (travelling_.empty()) {
      poll(&entry, 1, -1);
      return;
    }
    const nanoseconds left = travelling_.front().arrives_at - Clock::now();
    if (left <= nanoseconds(0)) return;
    const timespec timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    ppoll(&entry, 1, &timeout, nullptr);
  }

  bool ReadPacket() {
    const ssize_t size = recv(from_, buffer_.data(), buffer_.size(), 0);
    if (size <= 0) return false;
    const Clock::time_point now = Clock::now();
    const Clock::time_point begin = std::max(now, free_at_);
    if (begin - now > link_.longest_queue) {
      ++counts_.drops;
      return true;
    }
    const double seconds =
        static_cast<double>(static_cast<size_t>(size) + kBytesAroundPacket) / link_.bytes_per_s;
    free_at_ =
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    travelling_.push_back({free_at_ + link_.delay, {buffer_.data(), buffer_.data() + size}});
    return true;
  }

  void Deliver() {
    const std::vector<char>& bytes = travelling_.front().bytes;
    if (send(to_, bytes.data(), bytes.size(), 0) < 0) {
      ++counts_.drops;
    } else {
      ++counts_.packets;
      counts_.bytes += bytes.size();
    }
    travelling_.pop_front();
  }

  int from_, to_;
  Link link_;
  Counts& counts_;
  Clock::time_point free_at_{};  // when the link has carried all packets so far
  std::deque<Packet> travelling_;
  std::array<char, kLargestPacket> buffer_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "far_link INTERFACE INTERFACE RATE_MBIT DELAY_MS QUEUE_MS\n");
    return 64;
  }
  const auto milliseconds = [](const char* text) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::milli>(std::atof(text)));
  };
  const Link link{std::atof(argv[3]) * 1e6 / 8, milliseconds(argv[4]), milliseconds(argv[5])};
  const int first = OpenInterface(argv[1]), second = OpenInterface(argv[2]);
  std::array<Counts, 2> counts;
  std::thread([&] { Direction(first, second, link, &counts[0]).Run(); }).detach();
  std::thread([&] { Direction(second, first, link, &counts[1]).Run(); }).detach();
  std::printf("ready\n");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  for (const Counts& one : counts) {
    std::printf(
        "%llu packets, %llu bytes, %llu dropped\n", static_cast<unsigned long long>(one.packets),
        static_cast<unsigned long long>(one.bytes), static_cast<unsigned long long>(one.drops));
  }
  std::fflush(stdout);
  std::_Exit(0);
}
