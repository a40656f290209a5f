#include "server/central/down_link.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/logging.h"
#include "common/codec/codec.h"

namespace tern::server {

DownLink::DownLink(const setup::Setup& setup, const protocol::Chunk& chunk, uint32_t receivers,
                   std::span<const float> initial)
    : setup_(setup),
      chunk_(chunk),
      sends_changes_(setup.job.exchange().pull() == pb::Exchange::changes),
      sent_version_(receivers, 0) {
  if (!sends_changes_) return;
  held_weights_.assign(receivers, std::vector<float>(initial.begin(), initial.end()));
  difference_.resize(chunk.count);
}

protocol::ClockCell::Answer DownLink::Encode(uint32_t receiver, std::span<const float> w,
                                             uint64_t version,
                                             std::optional<uint64_t> held_version) {
  std::vector<uint8_t> code;
  code.reserve(chunk_.max_sum_bytes);
  if (!sends_changes_) {
    // Weights that are not finite are sent in fp32, because no codec encodes them. The worker that
    // receives them reports the error.
    if (EncodeValues(w, receiver, version, &code)) return {Bytes::Own(std::move(code)), false};
    return {Fp32Bytes(w), true};
  }
  std::vector<float>& receiver_weights = held_weights_[receiver];
  if (held_version == sent_version_[receiver]) {
    for (size_t i = 0; i < w.size(); ++i) difference_[i] = w[i] - receiver_weights[i];
    if (EncodeValues(difference_, receiver, version, &code)) {
      AddDecoded(code, receiver_weights);
      sent_version_[receiver] = version;
      return {Bytes::Own(std::move(code)), false};
    }
  }
  receiver_weights.assign(w.begin(), w.end());
  sent_version_[receiver] = version;
  return {Fp32Bytes(w), true};
}

protocol::ClockCell::Answer DownLink::EncodeHeldWeights(uint32_t receiver, std::span<const float> w,
                                                        uint64_t version) const {
  std::vector<uint8_t> code;
  if (!sends_changes_ && EncodeValues(w, receiver, version, &code))
    return {Bytes::Own(std::move(code)), false};
  return {Fp32Bytes(HeldWeights(receiver, w)), true};
}

std::span<const float> DownLink::HeldWeights(uint32_t receiver, std::span<const float> w) const {
  return sends_changes_ ? std::span<const float>(held_weights_[receiver]) : w;
}

bool DownLink::EncodeValues(std::span<const float> values, uint32_t receiver, uint64_t version,
                            std::vector<uint8_t>* code) const {
  const codec::Codec& codec = *setup_.plan.pull_codec;
  kernels::NoiseKey noise_key;
  noise_key.seed = setup_.job.seed();
  noise_key.stream = kernels::NoiseStream::kServerCodes;
  noise_key.rank = static_cast<uint16_t>(receiver);
  noise_key.round = version;
  const float* segment_values = values.data();
  for (const codec::Segment& segment : chunk_.segments) {
    const kernels::Stats stats = kernels::ComputeStats(segment_values, segment.count);
    if (!stats.is_finite) {
      code->clear();
      return false;
    }
    codec.Encode(segment_values, segment,
                 codec.Prepare(stats, {segment_values, segment.count}, noise_key), noise_key, code);
    segment_values += segment.count;
  }
  return true;
}

void DownLink::AddDecoded(std::span<const uint8_t> coded, std::span<float> values) const {
  const codec::Codec& codec = *setup_.plan.pull_codec;
  float* segment_values = values.data();
  for (const codec::Segment& segment : chunk_.segments) {
    const Result<size_t> code_bytes = codec.DecodeSingleCodeInBlocks(
        coded, segment, [segment_values](uint64_t first, std::span<const float> decoded) {
          for (size_t i = 0; i < decoded.size(); ++i) segment_values[first + i] += decoded[i];
        });
    CHECK(code_bytes.ok())
        << code_bytes.status().message();  // Cannot fail: this process made the code.
    coded = coded.subspan(*code_bytes);
    segment_values += segment.count;
  }
}

void DownLink::AddState(SavedState* state) {
  for (size_t receiver = 0; receiver < held_weights_.size(); ++receiver) {
    const std::string name = "held." + std::to_string(receiver);
    state->arrays.push_back({name, held_weights_[receiver]});
    state->numbers.push_back({name, &sent_version_[receiver]});
  }
}

}  // namespace tern::server
