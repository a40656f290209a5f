// The simulated machines, processes and connections of a job, in virtual time. Only the simulation
// of a training step uses them.
//
// A job has workers and servers; each server holds one shard of the model. A server has one control
// thread and several data lanes. A lane is a socket with its own thread, to which workers push
// their encoded gradients. A bucket is a group of neighbouring tensors; it is cut into chunks, and
// each chunk is pushed in one message to one lane.
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

// A process: the two directions of its machine's network link (`in`, `out`), and the threads that
// handle its messages.
struct Node {
  Node(EventLoop& loop, SharedResource& cores, double bytes_per_s, double burst)
      : in(loop, bytes_per_s, bytes_per_s, burst),
        out(loop, bytes_per_s, bytes_per_s, burst),
        io(cores),
        net(cores) {}
  SharedResource in, out;
  WorkQueue io;   // The I/O thread of ZeroMQ.
  WorkQueue net;  // The network thread of a worker, or the control thread of a server.
};

// One direction of a connection. `out` queues its messages on the sender's link, `in` on the
// receiver's link.
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
  WorkQueue compute, coder;  // The thread that trains, and the thread that encodes gradients.
  // The following vectors have one entry per shard, and within it one per lane of the shard.
  std::vector<std::unique_ptr<Connection>> control;  // Connections to the control threads.
  std::vector<std::vector<std::unique_ptr<Connection>>> data;

  // The state of the current step. Times are in seconds.
  uint64_t step = 0;                // The number of the step, from 1.
  bool awaits_answers = false;      // The step has pushed its gradients and waits for answers.
  std::vector<bool> applied;        // By bucket: whether the servers' answer is in the weights.
  uint64_t open_round = 0;          // The forward pass applies this round's answers; 0: none.
  std::optional<size_t> needed;     // The bucket for which the forward pass waits.
  double forward_s = 0;             // The compute of this step until the forward pass had to wait.
  double blocked_since = 0;         // The time at which the forward pass began to wait.
  double blocked_s = 0;             // How long the forward pass of this step has waited so far.
  double compute_begin = 0;         // The time at which the compute of this step began.
  double compute_s = 0;             // The compute of all steps so far, added up.
  uint64_t computed_steps = 0;      // The number of steps that compute_s covers.
  std::vector<double> step_begins;  // Entry i is the time at which step i + 1 began.

  // The state of the exchanges with the servers.
  // The number of answered chunks: by round, then by bucket.
  std::map<uint64_t, std::vector<size_t>> answer_counts;
  // The time of the first push of every round that still lacks answers.
  std::map<uint64_t, double> first_push;
  double exchange_s = 0;   // The durations of all finished exchanges, added up.
  double busy_s = 0;       // The time during which at least one exchange was under way.
  double busy_since = 0;   // The time since which at least one exchange has been under way.
  uint64_t exchanges = 0;  // The number of finished exchanges.
};

struct SimulatedServer {
  SimulatedServer(EventLoop& loop, SharedResource& cores, double bytes_per_s, double burst,
                  uint32_t lane_count)
      : node(loop, cores, bytes_per_s, burst) {
    for (uint32_t i = 0; i < lane_count; ++i) lanes.emplace_back(cores);
  }
  Node node;
  std::deque<WorkQueue> lanes;  // The threads of the data lanes.
};

// All workers and servers of a job, and how long a message between them takes.
class Cluster {
 public:
  // `loop`, `profile` and `network` outlive the cluster. `lane_counts`: the number of data lanes of
  // each shard.
  Cluster(EventLoop& loop, const std::vector<uint32_t>& lane_counts, const Profile& profile,
          uint32_t workers, const Network& network);

  EventLoop& loop() { return loop_; }
  const std::vector<std::unique_ptr<SimulatedWorker>>& workers() const { return workers_; }
  SimulatedServer& server(uint32_t shard) { return *servers_[shard]; }

  // Each function sends a message of `bytes` bytes between `worker` and a thread of the server
  // `shard`: one of its lanes, or its control thread. When the receiving thread has handled the
  // message, it calls `on_arrival`.
  void SendToLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                  Callback on_arrival);
  void SendFromLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                    Callback on_arrival);
  void SendToControl(SimulatedWorker* worker, uint32_t shard, double bytes, Callback on_arrival);
  void SendFromControl(SimulatedWorker* worker, uint32_t shard, double bytes, Callback on_arrival);

 private:
  SharedResource& NewMachine();
  void Connect(SimulatedWorker* worker);
  void Transmit(Node& from, WorkQueue& sender, HalfConnection& direction, Node& to,
                WorkQueue& receiver, double bytes, Callback on_arrival);
  void Acknowledge(HalfConnection& direction, double bytes);
  Callback AfterQueue(const SharedResource& link, Callback on_arrival);

  EventLoop& loop_;
  const Profile& profile_;
  const Network& network_;
  std::vector<std::unique_ptr<SharedResource>> machines_;  // The cores of each machine.
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
};

}  // namespace tern::tools
