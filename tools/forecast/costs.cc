#include "tools/forecast/costs.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/algorithm/facts.h"

namespace tern::tools {

namespace {

struct CodecSpeeds {
  std::map<const codec::Codec*, CodecSpeed> speed_by_codec;
  CodecSpeed weights_speed;  // The speed of the codec of the weights that servers send to workers.
};

Result<CodecSpeeds> CodecSpeedsFor(const protocol::ExchangePlan& plan, const Profile& profile) {
  CodecSpeeds speeds;
  for (const codec::Codec* codec : plan.codec_of) {
    const Result<CodecSpeed> speed = profile.SpeedOf(std::string(codec->name()));
    if (!speed.ok()) return speed.status();
    speeds.speed_by_codec[codec] = *speed;
  }
  if (!plan.is_central) return speeds;
  const Result<CodecSpeed> weights_speed = profile.SpeedOf(std::string(plan.pull_codec->name()));
  if (!weights_speed.ok()) return weights_speed.status();
  speeds.weights_speed = *weights_speed;
  return speeds;
}

StepPattern StepPatternOf(const setup::Setup& setup, const Profile& profile) {
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  const double update_s = profile.update_s * static_cast<double>(setup.table.total);
  StepPattern pattern;
  pattern.has_rounds = setup.plan.has_rounds;
  pattern.quorum = setup.plan.workers - std::min(setup.plan.workers - 1, facts.num_backup_workers);
  pattern.period = facts.period;
  const bool updates_locally =
      facts.pushed_quantity != pb::AlgorithmTraits::gradient || facts.period > 1;
  if (updates_locally) {
    pattern.push_time = facts.exchanges_in_next_step ? StepPattern::PushTime::kBeforeCompute
                                                     : StepPattern::PushTime::kAfterCompute;
    pattern.local_s = update_s;
  } else if (!setup.job.exchange().overlap() || setup.job.train().clip_norm() > 0) {
    pattern.push_time = StepPattern::PushTime::kAfterCompute;
  }
  pattern.sends_one_bucket = facts.num_parts != 0;
  pattern.lag = facts.exchanges_ahead;
  pattern.updates_after_answers = pattern.lag > 0 && !updates_locally;
  if (pattern.updates_after_answers) pattern.local_s = update_s;
  pattern.applies_by_bucket = facts.applies_by_bucket;
  pattern.waits_in_forward = facts.applies_in_forward;
  pattern.pulls_first = setup.plan.pulls_first;
  if (pattern.pulls_first) {
    pattern.push_time = StepPattern::PushTime::kAfterCompute;
    // The weights are copied before they are pulled and after the term is formed.
    pattern.term_s = update_s + 2 * profile.copy_s * static_cast<double>(setup.table.total);
  }
  return pattern;
}

// Adds the cost of a segment (a piece of a chunk, within one tensor) to its bucket and chunk.
class CostAdder {
 public:
  CostAdder(const setup::Setup& setup, const Profile& profile, const CodecSpeeds& speeds)
      : plan_(setup.plan),
        profile_(profile),
        speeds_(speeds),
        pushes_gradients_(algorithm::FactsOf(setup.job).pushed_quantity ==
                          pb::AlgorithmTraits::gradient) {}

  void AddSegment(const codec::Segment& segment, BucketCost* bucket, ChunkCost* chunk) const {
    const CodecSpeed& speed = speeds_.speed_by_codec.at(plan_.codec_of[segment.tensor]);
    const auto elements = static_cast<double>(segment.count);
    bucket->prepare_s += elements * speed.prepare_s;
    chunk->encode_s += elements * speed.encode_s;
    chunk->add_s += elements * speed.add_s;
    if (plan_.is_central) {
      chunk->close_s += elements * (profile_.update_s + speeds_.weights_speed.close_s);
      chunk->pull_s += elements * speeds_.weights_speed.close_s;
      bucket->apply_s +=
          elements * (speeds_.weights_speed.decode_s + (pushes_gradients_ ? 0 : profile_.copy_s));
      return;
    }
    chunk->close_s += elements * speed.close_s;
    bucket->apply_s +=
        elements * (pushes_gradients_ ? speed.apply_s : speed.decode_s + profile_.copy_s);
  }

 private:
  const protocol::ExchangePlan& plan_;
  const Profile& profile_;
  const CodecSpeeds& speeds_;
  const bool pushes_gradients_;
};

// Returns the fraction of the step's compute after which a layer first reads a tensor of the
// bucket.
double NeedShareOf(const protocol::Bucket& bucket, const Profile& profile) {
  double share = 1;
  for (uint32_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensors; ++t)
    share = std::min(share, profile.need_shares[t]);
  return share;
}
// Returns the fraction of the step's compute after which all gradients of the bucket are final.
double ReadyShareOf(const protocol::Bucket& bucket, const Profile& profile) {
  double share = 0;
  for (uint32_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensors; ++t)
    share = std::max(share, profile.ready_shares[t]);
  return share;
}

}  // namespace

Result<StepCosts> CostsOf(const setup::Setup& setup, const Profile& profile,
                          const std::vector<BucketBytes>& sizes, double samples) {
  TERN_RETURN_IF_ERROR(profile.CheckFor(setup));
  const protocol::ExchangePlan& plan = setup.plan;
  const Result<CodecSpeeds> speeds = CodecSpeedsFor(plan, profile);
  if (!speeds.ok()) return speeds.status();
  StepCosts step_costs;
  step_costs.compute_s = profile.compute_fixed_s + samples * profile.compute_sample_s;
  step_costs.threads = profile.waits ? 0 : setup.job.workers().threads();
  step_costs.pattern = StepPatternOf(setup, profile);
  step_costs.lane_counts = plan.data_lanes;
  step_costs.credit_bytes = setup.job.exchange().credit_kib() * 1024.0;
  const CostAdder cost_adder(setup, profile, *speeds);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const protocol::Bucket& bucket = plan.buckets[b];
    BucketCost& bucket_cost = step_costs.buckets.emplace_back();
    bucket_cost.scale_bytes = sizes[b].scale_bytes;
    bucket_cost.scaled_bytes = sizes[b].scaled_bytes;
    bucket_cost.home_shard = bucket.home_shard;
    bucket_cost.need_s = NeedShareOf(bucket, profile) * step_costs.compute_s;
    bucket_cost.ready_s = ReadyShareOf(bucket, profile) * step_costs.compute_s;
    if (step_costs.pattern
            .updates_after_answers)  // The next backward pass overwrites the gradients.
      bucket_cost.copy_s = static_cast<double>(bucket.count) * profile.copy_s;
    for (const protocol::Chunk& chunk : bucket.chunks) {
      ChunkCost& chunk_cost = bucket_cost.chunks.emplace_back();
      chunk_cost.shard = chunk.shard;
      chunk_cost.lane = chunk.lane - 1;
      chunk_cost.push_bytes = sizes[b].push_bytes[chunk.index];
      chunk_cost.sum_bytes = sizes[b].sum_bytes[chunk.index];
      for (const codec::Segment& segment : chunk.segments)
        cost_adder.AddSegment(segment, &bucket_cost, &chunk_cost);
    }
  }
  return step_costs;
}

}  // namespace tern::tools
