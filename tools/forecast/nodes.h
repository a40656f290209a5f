// The processes of a forecast and their connections, in virtual time. Internal to the model.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "tools/forecast/events.h"

namespace tern::tools {

// A process: its machine's link, and the threads that handle messages.
struct Node {
  Node(Simulation& simulation, Shared& cores, double bytes_s, double burst)
      : in(simulation, bytes_s, bytes_s, burst),
        out(simulation, bytes_s, bytes_s, burst),
        io(cores),
        net(cores) {}
  Shared in, out;
  Queue io, net;  // net: a worker's net thread, a server's control thread
};

// One direction of a connection.
struct OneWay {
  OneWay(Node& from, Node& to) : out(from.out), in(to.in) {}
  Queue out, in;
  OneWay* back = nullptr;
};
struct Connection {
  Connection(Node& worker, Node& server) : up(worker, server), down(server, worker) {
    up.back = &down;
    down.back = &up;
  }
  OneWay up, down;
};

// The place of a push that waits for credit: the order of common/protocol/rounds/exchange.h.
struct Priority {
  uint64_t round;
  size_t bucket, chunk;
  auto operator<=>(const Priority& other) const {
    return std::tuple(round, ~bucket, chunk) <=>
           std::tuple(other.round, ~other.bucket, other.chunk);
  }
};
struct Waiting {
  double bytes;
  Then send;
};

struct Worker {
  Worker(Simulation& simulation, Shared& cores, double bytes_s)
      : node(simulation, cores, bytes_s, 0), compute(cores), coder(cores) {}
  Node node;
  Queue compute, coder;
  std::vector<std::unique_ptr<Connection>> control;               // by shard
  std::vector<std::vector<std::unique_ptr<Connection>>> data;     // by shard, lane
  std::vector<std::vector<double>> unanswered;                    // bytes, by shard, lane
  std::vector<std::vector<std::map<Priority, Waiting>>> waiting;  // pushes without credit
  uint64_t step = 0;
  bool waits = false;                               // the step waits for answers
  std::map<uint64_t, std::vector<size_t>> answers;  // by round, bucket: number of chunks answered
  std::vector<bool> taken;                          // buckets applied, of the round being applied
  uint64_t open = 0;                                // the round that the forward waits for
  std::optional<size_t> needed;                     // the bucket that it waits for now
  double forward_s = 0;                             // compute done when it began to wait
  double blocked_since = 0, blocked_s = 0;          // in this step
  double compute_begun = 0, compute_s = 0;
  uint64_t computed = 0;
  std::map<uint64_t, double> first_push;  // by round without its last answer
  double exchange_s = 0, busy_s = 0, busy_since = 0;
  uint64_t exchanges = 0;
  std::vector<double> begun;  // when step i + 1 began
};

struct Server {
  Server(Simulation& simulation, Shared& cores, double bytes_s, double burst, uint32_t lanes)
      : node(simulation, cores, bytes_s, burst) {
    for (uint32_t i = 0; i < lanes; ++i) lane.emplace_back(cores);
  }
  Node node;
  std::deque<Queue> lane;
};

}  // namespace tern::tools
