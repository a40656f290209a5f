#include "tools/forecast/simulated_exchange.h"

#include <tuple>

#include "common/protocol/rounds/forms.h"

namespace tern::tools {

namespace {

using protocol::Cell;
using protocol::Exchange;
using protocol::Kind;
using protocol::LaneRef;
using protocol::Message;

constexpr uint32_t kControlLane = 0;

double PayloadBytes(const Message& message) { return static_cast<double>(message.payload.size()); }

// Returns what identifies the sum that an answer carries: kind, bucket, chunk and round (without
// rounds: the worker's count of its pushes). The answers that carry one sum to several workers have
// the same value. Messages that are not answers have a value that no sum has.
std::tuple<Kind, uint32_t, uint32_t, uint64_t> ClosedSumOf(const Message& message) {
  Kind kind{};
  const pb::Outcome* outcome = protocol::AsOutcome(message.head, &kind);
  if (outcome == nullptr) return {Kind::kFigures, 0, 0, 0};
  return {kind, outcome->bucket(), outcome->chunk(), protocol::ExchangeOf(*outcome)};
}

}  // namespace

SimulatedExchange::SimulatedExchange(Cluster& cluster, const StepCosts& costs,
                                     const Profile& profile,
                                     std::function<void(SimulatedWorker*)> on_answer)
    : cluster_(cluster),
      costs_(costs),
      profile_(profile),
      on_answer_(std::move(on_answer)),
      zeros_(MakeZeros(costs)),
      lanes_(costs, static_cast<uint32_t>(cluster.workers().size()), zeros_) {
  for (const auto& worker : cluster.workers()) {
    Exchange::Options options;
    options.rank = worker->rank;
    options.incarnation = kOnlyIncarnation;
    options.epoch = kOnlyEpoch;
    options.credit_bytes = static_cast<uint64_t>(costs.credit_bytes);
    options.is_elastic =
        costs.pattern.has_rounds && costs.pattern.quorum < cluster.workers().size();
    WorkerClient& client = clients_.emplace_back(WorkerClient{Exchange(options), {}});
    std::vector<Exchange::Outgoing> no_messages;
    for (uint32_t shard = 0; shard < lanes_.lanes().size(); ++shard) {
      for (uint32_t lane = 0; lane < lanes_.lanes()[shard].size(); ++lane)
        client.exchange.OnLaneUp({shard, lane}, kOnlyIncarnation, Now(), &no_messages);
    }
  }
}

protocol::Time SimulatedExchange::Now() const {
  return std::chrono::duration_cast<protocol::Time>(
      std::chrono::duration<double>(cluster_.loop().now()));
}

std::pair<size_t, size_t> SimulatedExchange::BucketRangeOf(uint64_t round) const {
  const size_t num_buckets = costs_.buckets.size(), bucket = (round - 1) % num_buckets;
  return costs_.pattern.sends_one_bucket ? std::pair{bucket, bucket + 1}
                                         : std::pair{size_t{0}, num_buckets};
}

size_t SimulatedExchange::CountChunksOf(uint64_t round) const {
  size_t num_chunks = 0;
  const auto [first, end] = BucketRangeOf(round);
  for (size_t b = first; b < end; ++b) num_chunks += costs_.buckets[b].chunks.size();
  return num_chunks;
}

void SimulatedExchange::PushRound(SimulatedWorker* worker, uint64_t round) {
  const auto [first, end] = BucketRangeOf(round);
  for (size_t b = first; b < end; ++b) PushBucket(worker, round, b);
}

void SimulatedExchange::PullWeights(SimulatedWorker* worker, uint64_t round) {
  for (uint32_t b = 0; b < costs_.buckets.size(); ++b) {
    const std::vector<ChunkCost>& chunks = costs_.buckets[b].chunks;
    for (uint32_t c = 0; c < chunks.size(); ++c) {
      CountPush(worker, round);
      Contribute(worker, {Kind::kPush, b, c}, {chunks[c].shard, chunks[c].lane + 1},
                 protocol::Pull{});
    }
  }
}

void SimulatedExchange::PushBucket(SimulatedWorker* worker, uint64_t round, size_t bucket) {
  cluster_.loop().ScheduleAfter(profile_.hop_s, [this, worker, round, bucket] {
    worker->coder_thread.AddTask(costs_.buckets[bucket].prepare_s, [this, worker, round, bucket] {
      OnBucketPrepared(worker, round, bucket);
    });
  });
}

void SimulatedExchange::OnBucketPrepared(SimulatedWorker* worker, uint64_t round, size_t bucket) {
  const BucketCost& cost = costs_.buckets[bucket];
  if (cost.scale_bytes == 0) return EncodeBucket(worker, round, bucket);
  cluster_.loop().ScheduleAfter(profile_.hop_s, [this, worker, round, bucket, &cost] {
    SendContribution(worker, {Kind::kScale, static_cast<uint32_t>(bucket), 0},
                     {cost.home_shard, kControlLane}, round, cost.scale_bytes);
    ClientOf(worker).open_rounds[round].scaler_states[bucket].has_own_scalers = true;
    EncodeIfScalersAreKnown(worker, round, bucket);
  });
}

// Encodes the bucket once the worker has computed its own scalers and received the shared scalers.
// If rounds can close without some workers, the shared scalers may arrive first.
void SimulatedExchange::EncodeIfScalersAreKnown(SimulatedWorker* worker, uint64_t round,
                                                size_t bucket) {
  const OpenRound::ScalerState& scaler_state =
      ClientOf(worker).open_rounds[round].scaler_states[bucket];
  if (!scaler_state.has_own_scalers || !scaler_state.has_shared_scalers) return;
  cluster_.loop().ScheduleAfter(
      profile_.hop_s, [this, worker, round, bucket] { EncodeBucket(worker, round, bucket); });
}

void SimulatedExchange::EncodeBucket(SimulatedWorker* worker, uint64_t round, size_t bucket) {
  for (size_t c = 0; c < costs_.buckets[bucket].chunks.size(); ++c) {
    // The coder thread encodes this bucket before it computes the statistics of other buckets.
    worker->coder_thread.AddUrgentTask(
        costs_.buckets[bucket].chunks[c].encode_s, [this, worker, round, bucket, c] {
          cluster_.loop().ScheduleAfter(profile_.hop_s, [this, worker, round, bucket, c] {
            PushChunk(worker, round, bucket, c);
          });
        });
  }
}

void SimulatedExchange::PushChunk(SimulatedWorker* worker, uint64_t round, size_t bucket,
                                  size_t chunk) {
  const ChunkCost& cost = costs_.buckets[bucket].chunks[chunk];
  CountPush(worker, round);
  SendContribution(worker,
                   {Kind::kPush, static_cast<uint32_t>(bucket), static_cast<uint32_t>(chunk)},
                   {cost.shard, cost.lane + 1}, round, cost.push_bytes);
}

void SimulatedExchange::SendContribution(SimulatedWorker* worker, const Cell& cell, LaneRef lane,
                                         uint64_t round, double bytes) {
  Bytes payload = BlankPayload(zeros_, bytes);
  protocol::Contribution contribution;
  if (costs_.pattern.has_rounds) {
    contribution = protocol::InRound{round, std::move(payload)};
  } else {
    contribution = protocol::AtClock{round, std::move(payload)};
  }
  Contribute(worker, cell, lane, std::move(contribution));
}

void SimulatedExchange::Contribute(SimulatedWorker* worker, const Cell& cell, LaneRef lane,
                                   protocol::Contribution contribution) {
  std::vector<Exchange::Outgoing> messages_to_servers;
  ClientOf(worker).exchange.Contribute(cell, lane, std::move(contribution), Now(),
                                       &messages_to_servers);
  SendToServers(worker, messages_to_servers);
}

void SimulatedExchange::SendToServers(SimulatedWorker* worker,
                                      const std::vector<Exchange::Outgoing>& messages) {
  for (const Exchange::Outgoing& outgoing : messages) {
    const protocol::LaneRef lane = outgoing.lane;
    const Message& message = outgoing.message;
    Callback on_arrival = [this, worker, lane, message] { OnContribution(worker, lane, message); };
    if (lane.lane == kControlLane) {
      cluster_.SendToControl(worker, lane.shard, PayloadBytes(message), std::move(on_arrival));
    } else {
      cluster_.SendToLane(worker, lane.shard, lane.lane - 1, PayloadBytes(message),
                          std::move(on_arrival));
    }
  }
}

void SimulatedExchange::OnContribution(SimulatedWorker* worker, LaneRef lane,
                                       const Message& message) {
  Kind kind{};
  const pb::Contribution* contribution = protocol::AsContribution(message.head, &kind);
  if (kind != Kind::kPush || message.payload.empty()) return HandleInLane(worker, lane, message);
  const ChunkCost& cost = costs_.buckets[contribution->bucket()].chunks[contribution->chunk()];
  cluster_.server(lane.shard)
      .lane_threads[lane.lane - 1]
      .AddUrgentTask(cost.add_s,
                     [this, worker, lane, message] { HandleInLane(worker, lane, message); });
}

// Lets the lane handle a message. If the message closes the sum of a chunk, the lane's thread works
// for the chunk's `close_s` before the answers leave.
void SimulatedExchange::HandleInLane(SimulatedWorker* worker, LaneRef lane,
                                     const Message& message) {
  const protocol::Sends messages_to_workers = lanes_.OnMessage(lane, worker->rank, message);
  for (size_t first = 0, end = 0; first < messages_to_workers.size(); first = end) {
    const auto closed_sum = ClosedSumOf(messages_to_workers[first].message);
    while (end < messages_to_workers.size() &&
           ClosedSumOf(messages_to_workers[end].message) == closed_sum)
      ++end;
    const protocol::Sends answers(messages_to_workers.begin() + static_cast<ptrdiff_t>(first),
                                  messages_to_workers.begin() + static_cast<ptrdiff_t>(end));
    const auto [kind, bucket, chunk, round] = closed_sum;
    if (kind != Kind::kPush) {
      SendToWorkers(lane, answers);
      continue;
    }
    const ChunkCost& cost = costs_.buckets[bucket].chunks[chunk];
    cluster_.server(lane.shard)
        .lane_threads[lane.lane - 1]
        .AddUrgentTask(round == kPullRound ? cost.pull_s : cost.close_s,
                       [this, lane, answers] { SendToWorkers(lane, answers); });
  }
}

void SimulatedExchange::SendToWorkers(LaneRef lane, const protocol::Sends& messages) {
  for (const protocol::Send& send : messages) SendToWorkers(lane, send);
}

void SimulatedExchange::SendToWorkers(LaneRef lane, const protocol::Send& send) {
  SimulatedWorker* const receiver = cluster_.workers()[SimulatedLanes::RankOf(send.to)].get();
  const double bytes = PayloadBytes(send.message);
  Callback on_arrival = [this, receiver, lane, message = send.message] {
    OnMessage(receiver, lane, message);
  };
  if (lane.lane == kControlLane) {
    cluster_.SendFromControl(receiver, lane.shard, bytes, std::move(on_arrival));
  } else {
    cluster_.SendFromLane(receiver, lane.shard, lane.lane - 1, bytes, std::move(on_arrival));
  }
}

void SimulatedExchange::OnMessage(SimulatedWorker* worker, LaneRef lane, const Message& message) {
  Exchange& exchange = ClientOf(worker).exchange;
  std::vector<Exchange::Outgoing> messages_to_servers;
  std::vector<Exchange::Delivery> deliveries;
  Kind kind{};
  if (const pb::Outcome* outcome = protocol::AsOutcome(message.head, &kind)) {
    deliveries =
        exchange.OnOutcome(lane, kind, *outcome, message.payload, Now(), &messages_to_servers);
  } else if (message.head.refuse().then() == pb::Refuse::again) {
    exchange.OnRoomAgain(lane, Now(), &messages_to_servers);
  }
  SendToServers(worker, messages_to_servers);
  for (const Exchange::Delivery& delivery : deliveries) OnDelivery(worker, delivery);
}

void SimulatedExchange::OnDelivery(SimulatedWorker* worker, const Exchange::Delivery& delivery) {
  const uint64_t round = protocol::ExchangeOf(delivery.outcome);
  const size_t bucket = delivery.cell.bucket;
  if (delivery.cell.kind == Kind::kScale) {
    ClientOf(worker).open_rounds[round].scaler_states[bucket].has_shared_scalers = true;
    return EncodeIfScalersAreKnown(worker, round, bucket);
  }
  CountAnswer(worker, round);
  cluster_.loop().ScheduleAfter(profile_.hop_s, [this, worker, round, bucket] {
    std::vector<size_t>& answer_counts = worker->answer_counts[round];
    answer_counts.resize(costs_.buckets.size());
    ++answer_counts[bucket];
    on_answer_(worker);
  });
}

bool SimulatedExchange::HasAnswer(SimulatedWorker* worker, uint64_t round, size_t bucket) const {
  std::vector<size_t>& answer_counts = worker->answer_counts[round];
  answer_counts.resize(costs_.buckets.size());
  return answer_counts[bucket] == costs_.buckets[bucket].chunks.size();
}

void SimulatedExchange::OnRoundApplied(SimulatedWorker* worker, uint64_t round) {
  worker->answer_counts.erase(round);
  WorkerClient& client = ClientOf(worker);
  client.open_rounds.erase(round);
  if (costs_.pattern.has_rounds && round > 0) client.exchange.SetApplied(round);
}

void SimulatedExchange::CountPush(SimulatedWorker* worker, uint64_t round) {
  WorkerClient& client = ClientOf(worker);
  // A round may close with the pushes of other workers before this worker pushes anything.
  if (round <= client.exchange.applied() ||
      client.open_rounds[round].num_answered_chunks == CountChunksOf(round))
    return;
  const double now = cluster_.loop().now();
  if (worker->first_push_times.empty()) worker->busy_since = now;
  worker->first_push_times.try_emplace(round, now);
}

void SimulatedExchange::CountAnswer(SimulatedWorker* worker, uint64_t round) {
  if (++ClientOf(worker).open_rounds[round].num_answered_chunks < CountChunksOf(round)) return;
  const auto first_push_time = worker->first_push_times.find(round);
  if (first_push_time == worker->first_push_times.end()) return;
  const double now = cluster_.loop().now();
  worker->exchange_s += now - first_push_time->second;
  ++worker->num_finished_exchanges;
  worker->first_push_times.erase(first_push_time);
  if (worker->first_push_times.empty()) worker->busy_s += now - worker->busy_since;
}

}  // namespace tern::tools
