#include "tests/common/codec/algorithm1_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/codec/codecs.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/update/optimizer.h"

namespace tern::codec {
namespace {

// Elements per segment (part of a tensor that is encoded by itself). Not a multiple of 8, so that
// segments begin inside a block of random numbers.
constexpr uint64_t kSegmentElements = 500;

update::Schedule MakeSchedule(const Problem& problem) {
  pb::Train config;
  config.mutable_schedule()->set_name("poly");
  config.mutable_schedule()->set_learning_rate(problem.learning_rate);
  config.mutable_schedule()->set_power(0.5);
  return *update::Schedule::Make(config, problem.steps);
}

// The codes -1, 0 and 1 of a payload of n elements.
std::vector<int8_t> ReadCodes(std::span<const uint8_t> payload, size_t n, bool has_scaler) {
  std::vector<int8_t> codes(n);
  const uint8_t* mask = payload.data() + (has_scaler ? sizeof(float) : 0);
  kernels::ExpandCodes(mask, mask + kernels::PlaneBytes(n), n, codes.data());
  return codes;
}

}  // namespace

Components CorrectComponents(const Problem& problem) {
  Components components;
  components.problem = problem;
  components.codec = std::move(*MakeCodec("ternary", problem.options));
  for (uint32_t tensor = 0; tensor < problem.sizes.size(); ++tensor)
    components.exchanged_tensors.push_back(tensor);
  return components;
}

Pipeline::Pipeline(Components components)
    : components_(std::move(components)), schedule_(MakeSchedule(components_.problem)) {
  const Problem& problem = components_.problem;
  pb::Optimizer config;
  config.set_name(components_.optimizer);
  config.set_momentum(problem.momentum);
  for (int i = 0; i < problem.workers; ++i) {
    Replica replica;
    size_t num_parameters = 0;
    for (size_t tensor = 0; tensor < problem.sizes.size(); ++tensor) {
      std::vector<float>& w = replica.weights.emplace_back();
      for (size_t k = 0; k < problem.sizes[tensor]; ++k) {
        w.push_back(static_cast<float>(problem.InitialWeight(tensor, k)));
      }
      num_parameters += w.size();
    }
    replica.optimizer = std::move(*update::MakeOptimizer(config, num_parameters));
    replicas_.push_back(std::move(replica));
  }
}

Tensors<float> Pipeline::ComputeGradients(uint64_t step, uint32_t tensor) const {
  Tensors<float> gradients;
  const auto decay = static_cast<float>(components_.problem.DecayOf(tensor));
  for (int i = 0; i < components_.problem.workers; ++i) {
    const std::vector<float>& w = replicas_[i].weights[tensor];
    std::vector<float>& g = gradients.emplace_back(w.size());
    for (size_t k = 0; k < w.size(); ++k) {
      g[k] = static_cast<float>(components_.problem.Gradient(step, i, tensor, k, w[k]));
    }
    kernels::AddDecay(g.data(), w.data(), w.size(), decay, g.data());
  }
  return gradients;
}

void Pipeline::ExchangeSegment(uint64_t step, const Segment& segment,
                               const Tensors<float>& gradients,
                               const std::vector<EncodeParams>& encode_params,
                               std::vector<PushedTensor>* pushed, Tensors<float>* means) {
  const int workers = components_.problem.workers;
  const auto sum = components_.codec->NewAccumulator(segment, workers);
  for (int arrival = 0; arrival < workers; ++arrival) {
    // In each step another worker's payload arrives first.
    const int rank = static_cast<int>((arrival + step) % workers);
    kernels::NoiseKey noise;
    noise.seed = components_.problem.seed;
    noise.rank = static_cast<uint16_t>(rank);
    noise.round = step;
    std::vector<uint8_t> payload;
    components_.codec->Encode(gradients[rank].data() + segment.begin, segment, encode_params[rank],
                              noise, &payload);
    const std::vector<int8_t> codes =
        ReadCodes(payload, segment.count, components_.problem.options.scaler_per_worker);
    std::vector<int8_t>& tensor_codes = (*pushed)[rank].codes;
    tensor_codes.insert(tensor_codes.end(), codes.begin(), codes.end());
    const Result<size_t> consumed_bytes = sum->Add(rank, payload);
    ASSERT_TRUE(consumed_bytes.ok()) << consumed_bytes.status().message();
  }
  std::vector<uint8_t> encoded_sum;
  sum->EncodeSum(&encoded_sum);
  for (int i = 0; i < workers; ++i) {
    const Status decode_status =
        components_.codec->Decode(encoded_sum, segment, workers, encode_params[i].scaler, 0,
                                  segment.count, (*means)[i].data() + segment.begin);
    ASSERT_TRUE(decode_status.ok()) << decode_status.message();
  }
}

std::vector<PushedTensor> Pipeline::ExchangeTensor(uint64_t step, uint32_t tensor,
                                                   Tensors<float>* means) {
  const Tensors<float> gradients = ComputeGradients(step, tensor);
  std::vector<EncodeParams> encode_params;
  float shared_scaler = 0;
  for (const std::vector<float>& g : gradients) {
    encode_params.push_back(
        components_.codec->Prepare(kernels::ComputeStats(g.data(), g.size()), g, {}));
    shared_scaler = std::max(shared_scaler, encode_params.back().scaler);
  }
  std::vector<PushedTensor> pushed(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (components_.codec->shares_scaler()) encode_params[i].scaler = shared_scaler;
    pushed[i].scaler = encode_params[i].scaler;
  }
  const uint64_t n = gradients[0].size();
  means->assign(gradients.size(), std::vector<float>(n));
  for (uint64_t begin = 0; begin < n; begin += kSegmentElements) {
    ExchangeSegment(step, {tensor, begin, std::min(kSegmentElements, n - begin)}, gradients,
                    encode_params, &pushed, means);
  }
  return pushed;
}

std::vector<std::vector<PushedTensor>> Pipeline::TrainOneStep(uint64_t step) {
  std::vector<std::vector<PushedTensor>> all_pushed(
      replicas_.size(), std::vector<PushedTensor>(components_.problem.sizes.size()));
  const auto rate = static_cast<float>(schedule_.Rate(step));
  // The index of each tensor's first element, if all tensors are laid out one after another.
  std::vector<size_t> tensor_begins(1);
  for (size_t size : components_.problem.sizes)
    tensor_begins.push_back(tensor_begins.back() + size);
  for (uint32_t tensor : components_.exchanged_tensors) {
    Tensors<float> means;
    std::vector<PushedTensor> pushed = ExchangeTensor(step, tensor, &means);
    for (size_t i = 0; i < replicas_.size(); ++i) {
      all_pushed[i][tensor] = std::move(pushed[i]);
      std::vector<float>& w = replicas_[i].weights[tensor];
      replicas_[i].optimizer->Update(w.data(), means[i].data(), tensor_begins[tensor], w.size(),
                                     {rate, step + 1}, {});
    }
  }
  return all_pushed;
}

}  // namespace tern::codec
