// The simulated machines, processes and connections of a job, in virtual time. Internal to the
// simulation of a step.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tools/forecast/events.h"
#include "tools/forecast/network.h"
#include "tools/forecast/profile.h"

namespace tern::tools {

// A process: both directions of its machine's link, and the threads that handle messages.
struct Node {
  Node(EventLoop& loop, SharedResource& cores, double bytes_per_s, double burst)
      : in(loop, bytes_per_s, bytes_per_s, burst),
        out(loop, bytes_per_s, bytes_per_s, burst),
        io(cores),
        net(cores) {}
  SharedResource in, out;
  WorkQueue io;   // ZeroMQ's I/O thread
  WorkQueue net;  // the net thread of a worker, the control thread of a server
};

// One direction of a connection: its use of the sender's and the receiver's link.
struct HalfConnection {
  HalfConnection(Node& from, Node& to) : out(from.out), in(to.in) {}
  WorkQueue out, in;
  HalfConnection* opposite = nullptr;
};
struct Connection {
  Connection(Node& worker, Node& server) : up(worker, server), down(server, worker) {
    up.opposite = &down;
    down.opposite = &up;
  }
  HalfConnection up, down;
};

struct SimulatedWorker {
  SimulatedWorker(EventLoop& loop, SharedResource& cores, double bytes_per_s, uint32_t its_rank)
      : rank(its_rank), node(loop, cores, bytes_per_s, 0), compute(cores), coder(cores) {}
  const uint32_t rank;
  Node node;
  WorkQueue compute, coder;
  std::vector<std::unique_ptr<Connection>> control;            // by shard
  std::vector<std::vector<std::unique_ptr<Connection>>> data;  // by shard, lane

  // The step.
  uint64_t step = 0;
  bool awaits_answers = false;      // the step cannot end before answers arrive
  std::vector<bool> applied;        // by bucket: whether the round's answer is applied
  uint64_t open_round = 0;          // the round that the forward applies; 0: none
  std::optional<size_t> needed;     // the bucket for which the forward waits now
  double forward_s = 0;             // seconds of compute before the forward began to wait
  double blocked_since = 0;         // when the forward began to wait
  double blocked_s = 0;             // seconds that the forward of this step has waited
  double compute_begin = 0;         // when the compute of this step began
  double compute_s = 0;             // seconds of compute in all steps
  uint64_t computed = 0;            // the number of steps in compute_s
  std::vector<double> step_begins;  // entry i: when step i + 1 began

  // The exchange.
  std::map<uint64_t, std::vector<size_t>> answers;  // chunks answered, by round and bucket
  std::map<uint64_t, double> first_push;            // time, by round that is not answered whole
  double exchange_s = 0, busy_s = 0, busy_since = 0;
  uint64_t exchanges = 0;
};

struct SimulatedServer {
  SimulatedServer(EventLoop& loop, SharedResource& cores, double bytes_per_s, double burst,
                  uint32_t lane_count)
      : node(loop, cores, bytes_per_s, burst) {
    for (uint32_t i = 0; i < lane_count; ++i) lanes.emplace_back(cores);
  }
  Node node;
  std::deque<WorkQueue> lanes;  // the threads of the data lanes
};

// All workers and servers of a job, and how long a message between them takes.
class Cluster {
 public:
  // The arguments outlive the cluster. `lanes`: the number of data lanes of each shard.
  Cluster(EventLoop& loop, const std::vector<uint32_t>& lanes, const Profile& profile,
          uint32_t workers, const Network& network);

  EventLoop& loop() { return loop_; }
  const std::vector<std::unique_ptr<SimulatedWorker>>& workers() const { return workers_; }
  SimulatedServer& server(uint32_t shard) { return *servers_[shard]; }

  // Each sends a message of that many bytes and calls `on_arrival` on the receiving thread: from
  // the worker's net thread to a lane, from a lane to the net thread, and between the net thread
  // and the server's control thread.
  void SendToLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                  Callback on_arrival);
  void SendFromLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                    Callback on_arrival);
  void SendToControl(SimulatedWorker* worker, uint32_t shard, double bytes, Callback on_arrival);
  void SendFromControl(SimulatedWorker* worker, uint32_t shard, double bytes, Callback on_arrival);

 private:
  SharedResource& NewMachine();
  void Connect(SimulatedWorker* worker);
  void Transmit(Node& from, WorkQueue& sender, HalfConnection& way, Node& to, WorkQueue& receiver,
                double bytes, Callback on_arrival);
  void Acknowledge(HalfConnection& back, double bytes);
  Callback AfterQueue(const SharedResource& link, Callback on_arrival);

  EventLoop& loop_;
  const Profile& profile_;
  const Network& network_;
  std::vector<std::unique_ptr<SharedResource>> machines_;  // each machine's cores
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
};

}  // namespace tern::tools
