#include "tools/forecast/cluster.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tern::tools {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double BytesPerSecond(double mbit) { return mbit <= 0 ? kInfinity : mbit * 1e6 / 8 * kGoodput; }

}  // namespace

Cluster::Cluster(EventLoop& loop, const std::vector<uint32_t>& lane_counts, const Profile& profile,
                 uint32_t workers, const Network& network)
    : loop_(loop), profile_(profile), network_(network) {
  for (const uint32_t lane_count : lane_counts) {
    servers_.push_back(std::make_unique<SimulatedServer>(
        loop_, NewMachine(), BytesPerSecond(network.server_mbit), network.burst_bytes, lane_count));
  }
  for (uint32_t w = 0; w < workers; ++w) {
    workers_.push_back(std::make_unique<SimulatedWorker>(loop_, NewMachine(),
                                                         BytesPerSecond(network.worker_mbit), w));
    Connect(workers_.back().get());
  }
}

SharedResource& Cluster::NewMachine() {
  if (network_.cores_shared == 0 || machines_.empty()) {
    const double cores = network_.cores_shared == 0 ? kInfinity : network_.cores_shared;
    machines_.push_back(std::make_unique<SharedResource>(loop_, cores, 1));
  }
  return *machines_.back();
}

void Cluster::Connect(SimulatedWorker* worker) {
  for (const auto& server : servers_) {
    worker->control.push_back(std::make_unique<Connection>(worker->node, server->node));
    worker->data.emplace_back();
    for (size_t lane = 0; lane < server->lanes.size(); ++lane)
      worker->data.back().push_back(std::make_unique<Connection>(worker->node, server->node));
  }
}

// Sends a message. The I/O threads and the links of sender and receiver work on it at the same
// time. It arrives after the delay of the network when these four have finished.
void Cluster::Transmit(Node& from, WorkQueue& sender, HalfConnection& direction, Node& to,
                       WorkQueue& receiver, double bytes, Callback on_arrival) {
  auto unfinished = std::make_shared<int>(4);
  const double delay =
      network_.latency_s + std::max(0.0, profile_.message_s - 2 * profile_.message_cpu_s);
  Callback on_part_done = [this, unfinished, delay, &receiver, on_arrival = std::move(on_arrival)] {
    if (--*unfinished > 0) return;
    loop_.ScheduleAfter(
        delay, [this, &receiver, on_arrival] { receiver.Add(profile_.message_cpu_s, on_arrival); });
  };
  sender.AddUrgent(profile_.message_cpu_s, [this, &from, &direction, &to, bytes, on_part_done] {
    const double io_s = bytes * profile_.byte_cpu_s;
    from.io.Add(io_s, on_part_done);
    direction.out.Add(bytes, on_part_done, 1, [this, &to, &direction, bytes, io_s, on_part_done] {
      direction.in.Add(bytes, on_part_done);
      to.io.Add(io_s, on_part_done);
      Acknowledge(*direction.opposite, bytes * network_.acknowledged);
    });
  });
}

// Sends `bytes` bytes of TCP acknowledgements. Nothing waits for them, but they use the links.
void Cluster::Acknowledge(HalfConnection& direction, double bytes) {
  if (bytes == 0) return;
  direction.out.AddUrgent(bytes, nullptr);
  direction.in.AddUrgent(bytes, nullptr);
}

// Returns a callback for the arrival of a control message. It calls `on_arrival`, but later if bulk
// transfers fill the queue of the link when the message is sent.
Callback Cluster::AfterQueue(const SharedResource& link, Callback on_arrival) {
  const double wait = link.busy() ? network_.queue_s : 0;
  return
      [this, wait, on_arrival = std::move(on_arrival)] { loop_.ScheduleAfter(wait, on_arrival); };
}

void Cluster::SendToLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                         Callback on_arrival) {
  SimulatedServer& server = *servers_[shard];
  Transmit(worker->node, worker->node.net, worker->data[shard][lane]->up, server.node,
           server.lanes[lane], bytes, std::move(on_arrival));
}

void Cluster::SendFromLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                           Callback on_arrival) {
  SimulatedServer& server = *servers_[shard];
  Transmit(server.node, server.lanes[lane], worker->data[shard][lane]->down, worker->node,
           worker->node.net, bytes, std::move(on_arrival));
}

void Cluster::SendToControl(SimulatedWorker* worker, uint32_t shard, double bytes,
                            Callback on_arrival) {
  Node &from = worker->node, &to = servers_[shard]->node;
  Transmit(from, from.net, worker->control[shard]->up, to, to.net, bytes,
           AfterQueue(to.in, std::move(on_arrival)));
}

void Cluster::SendFromControl(SimulatedWorker* worker, uint32_t shard, double bytes,
                              Callback on_arrival) {
  Node &from = servers_[shard]->node, &to = worker->node;
  Transmit(from, from.net, worker->control[shard]->down, to, to.net, bytes,
           AfterQueue(from.out, std::move(on_arrival)));
}

}  // namespace tern::tools
