// The simulated machines, processes and connections of a job, in virtual time. Only the simulation
// of a training step uses them.
//
// A job has workers and servers; each server holds one shard of the model. A server has one control
// thread and one or more data lanes. A lane is a socket with its own thread, to which workers push
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

// What a process receives and sends at most, in bytes per second.
struct LinkRates {
  double in, out;
};

// A process: the two directions of its network link, and the threads that handle its messages.
struct Node {
  Node(EventLoop& loop, SharedResource& cores, const LinkRates& rates, double burst)
      : inbound_link(loop, rates.in, rates.in, burst),
        outbound_link(loop, rates.out, rates.out, burst),
        io_thread(cores),
        net_thread(cores) {}
  SharedResource inbound_link, outbound_link;
  WorkQueue io_thread;   // The I/O thread of ZeroMQ.
  WorkQueue net_thread;  // The network thread of a worker, or the control thread of a server.
};

// One direction of a connection. A message is in `send_queue` for the sender's link, and in
// `receive_queue` for the receiver's link.
struct HalfConnection {
  HalfConnection(Node& from, Node& to)
      : send_queue(from.outbound_link), receive_queue(to.inbound_link) {}
  WorkQueue send_queue, receive_queue;
  HalfConnection* opposite_direction = nullptr;
};
struct Connection {
  Connection(Node& worker, Node& server) : to_server(worker, server), to_worker(server, worker) {
    to_server.opposite_direction = &to_worker;
    to_worker.opposite_direction = &to_server;
  }
  HalfConnection to_server, to_worker;
};

struct SimulatedWorker {
  SimulatedWorker(EventLoop& loop, SharedResource& cores, const LinkRates& rates,
                  uint32_t worker_rank)
      : rank(worker_rank),
        node(loop, cores, rates, 0),
        compute_thread(cores),
        coder_thread(cores) {}
  const uint32_t rank;
  Node node;
  WorkQueue compute_thread;  // The thread that trains.
  WorkQueue coder_thread;    // The thread that encodes gradients.
  // To the control threads of the servers, by shard.
  std::vector<std::unique_ptr<Connection>> control_connections;
  // To the lanes, by shard and then by lane.
  std::vector<std::vector<std::unique_ptr<Connection>>> lane_connections;

  // The state of the compute thread. Times are in seconds. A round is one exchange with the
  // servers.
  uint64_t step = 0;                    // The number of the step, from 1.
  bool awaits_weights = false;          // The step has pulled the weights, and pushes after that.
  bool awaits_answers = false;          // The step has pushed its gradients and waits for answers.
  std::vector<bool> bucket_is_applied;  // By bucket: whether the servers' answer is in the weights.
  uint64_t open_round = 0;              // The forward pass applies this round's answers; 0: none.
  std::optional<size_t> needed_bucket;  // The bucket for which the forward pass waits.
  double forward_s = 0;                 // Compute of this step before `needed_bucket` is needed.
  double blocked_since = 0;             // The time at which the forward pass began to wait.
  double blocked_s = 0;                 // How long the forward pass of this step has waited so far.
  double compute_begin = 0;             // The time at which the compute of this step began.
  double compute_s = 0;                 // The compute of all steps so far, added up.
  uint64_t num_computed_steps = 0;      // The number of steps that compute_s covers.
  std::vector<double> step_begin_times;  // Entry i is the time at which step i + 1 began.

  // The state of the exchanges with the servers.
  // The number of answered chunks: by round, then by bucket.
  std::map<uint64_t, std::vector<size_t>> answer_counts;
  // The time of the first push of every round that still lacks answers.
  std::map<uint64_t, double> first_push_times;
  double exchange_s = 0;  // The durations of all finished exchanges, added up.
  double busy_s = 0;      // The time during which at least one exchange was under way.
  double busy_since = 0;  // The time since which at least one exchange has been under way.
  uint64_t num_finished_exchanges = 0;  // The number of finished exchanges.
};

struct SimulatedServer {
  SimulatedServer(EventLoop& loop, SharedResource& cores, const LinkRates& rates, double burst,
                  uint32_t lane_count)
      : node(loop, cores, rates, burst) {
    for (uint32_t i = 0; i < lane_count; ++i) lane_threads.emplace_back(cores);
  }
  Node node;
  std::deque<WorkQueue> lane_threads;  // The threads of the data lanes.
};

// All workers and servers of a job, and how long a message between them takes.
class Cluster {
 public:
  // `loop`, `profile` and `network` outlive the cluster. `lane_counts`: the number of data lanes of
  // each shard.
  Cluster(EventLoop& loop, const std::vector<uint32_t>& lane_counts, const Profile& profile,
          uint32_t num_workers, const Network& network);

  EventLoop& loop() { return loop_; }
  const std::vector<std::unique_ptr<SimulatedWorker>>& workers() const { return workers_; }
  SimulatedServer& server(uint32_t shard) { return *servers_[shard]; }

  // Each function sends a message of `bytes` bytes between `worker` and a thread of the server
  // `shard`: one of its lanes, or its control thread. After the receiving thread has handled the
  // message, `on_arrival` is called.
  void SendToLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                  Callback on_arrival);
  void SendFromLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                    Callback on_arrival);
  void SendToControl(SimulatedWorker* worker, uint32_t shard, double bytes, Callback on_arrival);
  void SendFromControl(SimulatedWorker* worker, uint32_t shard, double bytes, Callback on_arrival);

 private:
  SharedResource& AssignMachine();
  void ConnectToServers(SimulatedWorker* worker);
  void TransmitMessage(Node& from, WorkQueue& sender, HalfConnection& direction, Node& to,
                       WorkQueue& receiver, double bytes, Callback on_arrival);
  void SendAcknowledgements(HalfConnection& direction, double bytes);
  Callback MakeDelayedCallback(const SharedResource& link, Callback on_arrival);

  EventLoop& loop_;
  const Profile& profile_;
  const Network& network_;
  std::vector<std::unique_ptr<SharedResource>> machines_;  // The cores of each machine.
  std::vector<std::unique_ptr<SimulatedServer>> servers_;
  std::vector<std::unique_ptr<SimulatedWorker>> workers_;
};

}  // namespace tern::tools
