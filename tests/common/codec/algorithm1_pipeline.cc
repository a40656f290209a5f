#include "tests/common/codec/algorithm1_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/update/optimizer.h"

namespace tern::codec {
namespace {

constexpr uint64_t kSegment =
    500;  // elements; not a multiple of 8, so segments begin inside noise blocks

update::Schedule MakeSchedule(const Problem& problem) {
  pb::Train def;
  def.mutable_schedule()->set_name("poly");
  def.mutable_schedule()->set_learning_rate(problem.learning_rate);
  def.mutable_schedule()->set_power(0.5);
  return *update::Schedule::Make(def, problem.steps);
}

std::vector<int8_t> ReadCodes(std::span<const uint8_t> payload, size_t n, bool scaler_first) {
  std::vector<int8_t> codes(n);
  const uint8_t* mask = payload.data() + (scaler_first ? sizeof(float) : 0);
  kernels::ExpandCodes(mask, mask + kernels::PlaneBytes(n), n, codes.data());
  return codes;
}

}  // namespace

Parts SoundParts(const Problem& problem) {
  Parts parts;
  parts.problem = problem;
  parts.codec = std::move(*MakeCodec("ternary", problem.options));
  for (uint32_t tensor = 0; tensor < problem.sizes.size(); ++tensor)
    parts.exchanged.push_back(tensor);
  return parts;
}

Pipeline::Pipeline(Parts parts)
    : parts_(std::move(parts)), schedule_(MakeSchedule(parts_.problem)) {
  const Problem& problem = parts_.problem;
  pb::Optimizer def;
  def.set_name(parts_.optimizer);
  def.set_momentum(problem.momentum);
  for (int i = 0; i < problem.workers; ++i) {
    Replica replica;
    size_t parameters = 0;
    for (size_t tensor = 0; tensor < problem.sizes.size(); ++tensor) {
      std::vector<float>& w = replica.weights.emplace_back();
      for (size_t k = 0; k < problem.sizes[tensor]; ++k) {
        w.push_back(static_cast<float>(problem.InitialWeight(tensor, k)));
      }
      parameters += w.size();
    }
    replica.optimizer = std::move(*update::MakeOptimizer(def, parameters));
    replicas_.push_back(std::move(replica));
  }
}

Tensors<float> Pipeline::Gradients(uint64_t step, uint32_t tensor) const {
  Tensors<float> gradients;
  const auto decay = static_cast<float>(parts_.problem.DecayOf(tensor));
  for (int i = 0; i < parts_.problem.workers; ++i) {
    const std::vector<float>& w = replicas_[i].weights[tensor];
    std::vector<float>& g = gradients.emplace_back(w.size());
    for (size_t k = 0; k < w.size(); ++k) {
      g[k] = static_cast<float>(parts_.problem.Gradient(step, i, tensor, k, w[k]));
    }
    kernels::AddDecay(g.data(), w.data(), w.size(), decay, g.data());
  }
  return gradients;
}

void Pipeline::ExchangeSegment(uint64_t step, const Segment& segment,
                               const Tensors<float>& gradients,
                               const std::vector<Prepared>& prepared, std::vector<Pushed>* pushed,
                               Tensors<float>* means) {
  const int workers = parts_.problem.workers;
  const auto sum = parts_.codec->NewAccumulator(segment, workers);
  for (int arrival = 0; arrival < workers; ++arrival) {
    const int i =
        static_cast<int>((arrival + step) % workers);  // another worker arrives first each time
    kernels::NoiseKey noise;
    noise.seed = parts_.problem.seed;
    noise.rank = static_cast<uint16_t>(i);
    noise.round = step;
    std::vector<uint8_t> payload;
    parts_.codec->Encode(gradients[i].data() + segment.begin, segment, prepared[i], noise,
                         &payload);
    const std::vector<int8_t> codes =
        ReadCodes(payload, segment.count, parts_.problem.options.scaler_per_worker);
    std::vector<int8_t>& all = (*pushed)[i].codes;
    all.insert(all.end(), codes.begin(), codes.end());
    const Result<size_t> used = sum->Add(i, payload);
    ASSERT_TRUE(used.ok()) << used.status().message();
  }
  std::vector<uint8_t> down;
  sum->EncodeSum(&down);
  for (int i = 0; i < workers; ++i) {
    const Status decoded = parts_.codec->Decode(down, segment, workers, prepared[i].scaler, 0,
                                                segment.count, (*means)[i].data() + segment.begin);
    ASSERT_TRUE(decoded.ok()) << decoded.message();
  }
}

std::vector<Pushed> Pipeline::Exchange(uint64_t step, uint32_t tensor, Tensors<float>* means) {
  const Tensors<float> gradients = Gradients(step, tensor);
  std::vector<Prepared> prepared;
  float shared = 0;
  for (const std::vector<float>& g : gradients) {
    prepared.push_back(parts_.codec->Prepare(kernels::ComputeStats(g.data(), g.size()), g, {}));
    shared = std::max(shared, prepared.back().scaler);
  }
  std::vector<Pushed> pushed(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (parts_.codec->shares_scaler()) prepared[i].scaler = shared;
    pushed[i].scaler = prepared[i].scaler;
  }
  const uint64_t n = gradients[0].size();
  means->assign(gradients.size(), std::vector<float>(n));
  for (uint64_t begin = 0; begin < n; begin += kSegment) {
    ExchangeSegment(step, {tensor, begin, std::min(kSegment, n - begin)}, gradients, prepared,
                    &pushed, means);
  }
  return pushed;
}

std::vector<std::vector<Pushed>> Pipeline::Step(uint64_t step) {
  std::vector<std::vector<Pushed>> all(replicas_.size(),
                                       std::vector<Pushed>(parts_.problem.sizes.size()));
  const auto rate = static_cast<float>(schedule_.Rate(step));
  std::vector<size_t> first(1);  // index of each tensor's first element in the arena
  for (size_t size : parts_.problem.sizes) first.push_back(first.back() + size);
  for (uint32_t tensor : parts_.exchanged) {
    Tensors<float> means;
    std::vector<Pushed> pushed = Exchange(step, tensor, &means);
    for (size_t i = 0; i < replicas_.size(); ++i) {
      all[i][tensor] = std::move(pushed[i]);
      std::vector<float>& w = replicas_[i].weights[tensor];
      replicas_[i].optimizer->Update(w.data(), means[i].data(), first[tensor], w.size(),
                                     {rate, step + 1}, 0);
    }
  }
  return all;
}

}  // namespace tern::codec
