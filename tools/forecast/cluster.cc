#include "tools/forecast/cluster.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tern::tools {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double BytesPerSecond(double rate_mbit) {
  return rate_mbit <= 0 ? kInfinity : rate_mbit * 1e6 / 8 * kPayloadShare;
}

LinkRates RatesOf(double link_mbit, double send_mbit) {
  const double rate = BytesPerSecond(link_mbit);
  return {rate, std::min(rate, BytesPerSecond(send_mbit))};
}

}  // namespace

Cluster::Cluster(EventLoop& loop, const std::vector<uint32_t>& lane_counts, const Profile& profile,
                 uint32_t num_workers, const Network& network)
    : loop_(loop), profile_(profile), network_(network) {
  for (const uint32_t lane_count : lane_counts) {
    servers_.push_back(std::make_unique<SimulatedServer>(
        loop_, AssignMachine(), RatesOf(network.server_mbit, network.server_send_mbit),
        network.burst_bytes, lane_count));
  }
  for (uint32_t w = 0; w < num_workers; ++w) {
    workers_.push_back(std::make_unique<SimulatedWorker>(
        loop_, AssignMachine(), RatesOf(network.worker_mbit, network.worker_send_mbit), w));
    ConnectToServers(workers_.back().get());
  }
}

SharedResource& Cluster::AssignMachine() {
  if (network_.cores_shared == 0 || machines_.empty()) {
    const double num_cores = network_.cores_shared == 0 ? kInfinity : network_.cores_shared;
    machines_.push_back(std::make_unique<SharedResource>(loop_, num_cores, 1));
  }
  return *machines_.back();
}

void Cluster::ConnectToServers(SimulatedWorker* worker) {
  for (const auto& server : servers_) {
    worker->control_connections.push_back(std::make_unique<Connection>(worker->node, server->node));
    worker->lane_connections.emplace_back();
    for (size_t lane = 0; lane < server->lane_threads.size(); ++lane)
      worker->lane_connections.back().push_back(
          std::make_unique<Connection>(worker->node, server->node));
  }
}

// Sends a message. First the thread `sender` handles the message. Then the I/O threads and the
// links of both ends work on the message at the same time. When these four have finished and the
// delay of the network has passed, the thread `receiver` handles the message and calls
// `on_arrival`.
void Cluster::TransmitMessage(Node& from, WorkQueue& sender, HalfConnection& direction, Node& to,
                              WorkQueue& receiver, double bytes, Callback on_arrival) {
  auto num_unfinished = std::make_shared<int>(4);
  const double delay_s =
      network_.latency_s + std::max(0.0, profile_.message_s - 2 * profile_.message_cpu_s);
  Callback on_part_done = [this, num_unfinished, delay_s, &receiver,
                           on_arrival = std::move(on_arrival)] {
    if (--*num_unfinished > 0) return;
    loop_.ScheduleAfter(delay_s, [this, &receiver, on_arrival] {
      receiver.AddTask(profile_.message_cpu_s, on_arrival);
    });
  };
  sender.AddUrgentTask(profile_.message_cpu_s, [this, &from, &direction, &to, bytes, on_part_done] {
    const double io_s = bytes * profile_.byte_cpu_s;
    from.io_thread.AddTask(io_s, on_part_done);
    direction.send_queue.AddTask(
        bytes, on_part_done, 1, [this, &to, &direction, bytes, io_s, on_part_done] {
          direction.receive_queue.AddTask(bytes, on_part_done);
          to.io_thread.AddTask(io_s, on_part_done);
          SendAcknowledgements(*direction.opposite_direction, bytes * network_.ack_bytes_per_byte);
        });
  });
}

// Sends `bytes` bytes of TCP acknowledgements. Nothing waits for them, but they use the links.
void Cluster::SendAcknowledgements(HalfConnection& direction, double bytes) {
  if (bytes == 0) return;
  direction.send_queue.AddUrgentTask(bytes, nullptr);
  direction.receive_queue.AddUrgentTask(bytes, nullptr);
}

// Returns a callback for the arrival of a control message. The callback calls `on_arrival`. If
// `link` is busy when the message is sent, the callback first waits for network_.queue_s.
Callback Cluster::MakeDelayedCallback(const SharedResource& link, Callback on_arrival) {
  const double queue_wait_s = link.busy() ? network_.queue_s : 0;
  return [this, queue_wait_s, on_arrival = std::move(on_arrival)] {
    loop_.ScheduleAfter(queue_wait_s, on_arrival);
  };
}

void Cluster::SendToLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                         Callback on_arrival) {
  SimulatedServer& server = *servers_[shard];
  TransmitMessage(worker->node, worker->node.net_thread,
                  worker->lane_connections[shard][lane]->to_server, server.node,
                  server.lane_threads[lane], bytes, std::move(on_arrival));
}

void Cluster::SendFromLane(SimulatedWorker* worker, uint32_t shard, uint32_t lane, double bytes,
                           Callback on_arrival) {
  SimulatedServer& server = *servers_[shard];
  TransmitMessage(server.node, server.lane_threads[lane],
                  worker->lane_connections[shard][lane]->to_worker, worker->node,
                  worker->node.net_thread, bytes, std::move(on_arrival));
}

void Cluster::SendToControl(SimulatedWorker* worker, uint32_t shard, double bytes,
                            Callback on_arrival) {
  Node &from = worker->node, &to = servers_[shard]->node;
  TransmitMessage(from, from.net_thread, worker->control_connections[shard]->to_server, to,
                  to.net_thread, bytes,
                  MakeDelayedCallback(to.inbound_link, std::move(on_arrival)));
}

void Cluster::SendFromControl(SimulatedWorker* worker, uint32_t shard, double bytes,
                              Callback on_arrival) {
  Node &from = servers_[shard]->node, &to = worker->node;
  TransmitMessage(from, from.net_thread, worker->control_connections[shard]->to_worker, to,
                  to.net_thread, bytes,
                  MakeDelayedCallback(from.outbound_link, std::move(on_arrival)));
}

}  // namespace tern::tools
