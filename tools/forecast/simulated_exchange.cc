#include "tools/forecast/simulated_exchange.h"

#include <vector>

namespace tern::tools {

std::pair<size_t, size_t> SimulatedExchange::BucketsOf(uint64_t round) const {
  const size_t num_buckets = costs_.buckets.size(), bucket = (round - 1) % num_buckets;
  return costs_.pattern.one_bucket ? std::pair{bucket, bucket + 1}
                                   : std::pair{size_t{0}, num_buckets};
}

void SimulatedExchange::PushRound(SimulatedWorker* worker, uint64_t round) {
  const auto [first, end] = BucketsOf(round);
  for (size_t b = first; b < end; ++b) PushBucket(worker, round, b);
}

void SimulatedExchange::PushBucket(SimulatedWorker* worker, uint64_t round, size_t bucket) {
  EventLoop& loop = cluster_.loop();
  loop.ScheduleAfter(profile_.hop_s, [this, &loop, worker, round, bucket] {
    worker->coder.Add(costs_.buckets[bucket].prepare_s, [this, &loop, worker, round, bucket] {
      const BucketCost& cost = costs_.buckets[bucket];
      if (cost.scale_bytes == 0) return Encode(worker, round, bucket);
      loop.ScheduleAfter(profile_.hop_s, [this, worker, round, bucket, &cost] {
        cluster_.SendToControl(worker, cost.home, cost.scale_bytes,
                               [this, round, bucket] { OnScalers(round, bucket); });
      });
    });
  });
}

void SimulatedExchange::OnScalers(uint64_t round, size_t bucket) {
  if (++scaler_counts_[{round, bucket}] != costs_.pattern.quorum) return;
  const BucketCost& cost = costs_.buckets[bucket];
  for (const auto& worker : cluster_.workers()) {
    cluster_.SendFromControl(
        worker.get(), cost.home, cost.scaled_bytes, [this, to = worker.get(), round, bucket] {
          cluster_.loop().ScheduleAfter(profile_.hop_s,
                                        [this, to, round, bucket] { Encode(to, round, bucket); });
        });
  }
}

void SimulatedExchange::Encode(SimulatedWorker* worker, uint64_t round, size_t bucket) {
  for (size_t c = 0; c < costs_.buckets[bucket].chunks.size(); ++c) {
    // The coder thread encodes this bucket before it computes the statistics of other buckets.
    worker->coder.AddUrgent(
        costs_.buckets[bucket].chunks[c].encode_s, [this, worker, round, bucket, c] {
          cluster_.loop().ScheduleAfter(profile_.hop_s, [this, worker, round, bucket, c] {
            PushChunk(worker, round, bucket, c);
          });
        });
  }
}

void SimulatedExchange::PushChunk(SimulatedWorker* worker, uint64_t round, size_t bucket,
                                  size_t chunk) {
  const double now = cluster_.loop().now();
  if (worker->first_push.empty()) worker->busy_since = now;
  worker->first_push.try_emplace(round, now);
  const ChunkCost& cost = costs_.buckets[bucket].chunks[chunk];
  Callback send = [this, worker, &cost, round, bucket, chunk] {
    cluster_.SendToLane(
        worker, cost.shard, cost.lane, cost.push_bytes,
        [this, worker, round, bucket, chunk] { OnPush(worker, round, bucket, chunk); });
  };
  worker->pending_pushes[cost.shard][cost.lane].emplace(
      PushPriority{round, bucket, chunk}, PendingPush{cost.push_bytes, std::move(send)});
  SendPending(worker, cost);
}

// Sends waiting pushes to the lane of `cost` as long as the worker has credit there: the bytes that
// it has pushed without an answer stay within a limit.
void SimulatedExchange::SendPending(SimulatedWorker* worker, const ChunkCost& cost) {
  double& unanswered_bytes = worker->unanswered_bytes[cost.shard][cost.lane];
  auto& pending_pushes = worker->pending_pushes[cost.shard][cost.lane];
  while (!pending_pushes.empty() &&
         (unanswered_bytes == 0 ||
          unanswered_bytes + pending_pushes.begin()->second.bytes <= costs_.credit_bytes)) {
    const PendingPush next = std::move(pending_pushes.extract(pending_pushes.begin()).mapped());
    unanswered_bytes += next.bytes;
    next.send();
  }
}

void SimulatedExchange::OnPush(SimulatedWorker* worker, uint64_t round, size_t bucket,
                               size_t chunk) {
  const ChunkCost& cost = costs_.buckets[bucket].chunks[chunk];
  WorkQueue& lane = cluster_.server(cost.shard).lanes[cost.lane];
  lane.AddUrgent(cost.add_s, [this, worker, round, bucket, chunk, &cost, &lane] {
    if (!costs_.pattern.rounds) {
      lane.AddUrgent(cost.close_s, [this, worker, round, bucket, chunk] {
        Answer(worker, round, bucket, chunk);
      });
    } else if (++push_counts_[{round, bucket, chunk}] == costs_.pattern.quorum) {
      lane.AddUrgent(cost.close_s, [this, round, bucket, chunk] {
        for (const auto& to : cluster_.workers()) Answer(to.get(), round, bucket, chunk);
      });
    }
  });
}

void SimulatedExchange::Answer(SimulatedWorker* worker, uint64_t round, size_t bucket,
                               size_t chunk) {
  const ChunkCost& cost = costs_.buckets[bucket].chunks[chunk];
  cluster_.SendFromLane(
      worker, cost.shard, cost.lane, cost.sum_bytes,
      [this, worker, round, bucket, &cost] { OnAnswer(worker, round, bucket, cost); });
}

void SimulatedExchange::OnAnswer(SimulatedWorker* worker, uint64_t round, size_t bucket,
                                 const ChunkCost& cost) {
  double& unanswered_bytes = worker->unanswered_bytes[cost.shard][cost.lane];
  unanswered_bytes -= cost.push_bytes;
  if (unanswered_bytes < 1) unanswered_bytes = 0;  // Removes rounding errors.
  SendPending(worker, cost);
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

// Counts an answer that a worker got. After the last answer of a round it adds the duration of the
// exchange, from the first push to this answer, to the worker's totals.
void SimulatedExchange::CountAnswer(SimulatedWorker* worker, uint64_t round) {
  size_t chunks = 0;
  const auto [first, end] = BucketsOf(round);
  for (size_t b = first; b < end; ++b) chunks += costs_.buckets[b].chunks.size();
  if (++answered_chunks_[{round, worker}] < chunks) return;
  answered_chunks_.erase({round, worker});
  const auto pushed = worker->first_push.find(round);
  // A round may close with the pushes of other workers before this worker pushes anything.
  if (pushed == worker->first_push.end()) return;
  const double now = cluster_.loop().now();
  worker->exchange_s += now - pushed->second;
  ++worker->exchanges;
  worker->first_push.erase(pushed);
  if (worker->first_push.empty()) worker->busy_s += now - worker->busy_since;
}

}  // namespace tern::tools
