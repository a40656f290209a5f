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
      changes_(setup.job.exchange().pull() == pb::Exchange::changes),
      sent_version_(receivers, 0) {
  if (!changes_) return;
  held_weights_.assign(receivers, std::vector<float>(initial.begin(), initial.end()));
  difference_.resize(chunk.count);
}

protocol::ClockCell::Answer DownLink::Encode(uint32_t receiver, std::span<const float> w,
                                             uint64_t version, std::optional<uint64_t> holds) {
  std::vector<uint8_t> out;
  out.reserve(chunk_.max_sum_bytes);
  if (!changes_) {
    // Weights that are not finite are sent in fp32, because no codec encodes them. The worker that
    // receives them reports the error.
    if (EncodeValues(w, receiver, version, &out)) return {Bytes::Own(std::move(out)), false};
    return {Fp32Bytes(w), true};
  }
  std::vector<float>& held = held_weights_[receiver];
  if (holds == sent_version_[receiver]) {
    for (size_t i = 0; i < w.size(); ++i) difference_[i] = w[i] - held[i];
    if (EncodeValues(difference_, receiver, version, &out)) {
      AddDecoded(out, held);
      sent_version_[receiver] = version;
      return {Bytes::Own(std::move(out)), false};
    }
  }
  held.assign(w.begin(), w.end());
  sent_version_[receiver] = version;
  return {Fp32Bytes(w), true};
}

protocol::ClockCell::Answer DownLink::Repeat(uint32_t receiver, std::span<const float> w,
                                             uint64_t version) const {
  std::vector<uint8_t> out;
  if (!changes_ && EncodeValues(w, receiver, version, &out))
    return {Bytes::Own(std::move(out)), false};
  return {Fp32Bytes(Held(receiver, w)), true};
}

std::span<const float> DownLink::Held(uint32_t receiver, std::span<const float> w) const {
  return changes_ ? std::span<const float>(held_weights_[receiver]) : w;
}

bool DownLink::EncodeValues(std::span<const float> values, uint32_t receiver, uint64_t version,
                            std::vector<uint8_t>* out) const {
  const codec::Codec& codec = *setup_.plan.pull_codec;
  kernels::NoiseKey noise;
  noise.seed = setup_.job.seed();
  noise.stream = kernels::NoiseStream::kServerCodes;
  noise.rank = static_cast<uint16_t>(receiver);
  noise.round = version;
  const float* from = values.data();
  for (const codec::Segment& segment : chunk_.segments) {
    const kernels::Stats stats = kernels::ComputeStats(from, segment.count);
    if (!stats.finite) {
      out->clear();
      return false;
    }
    codec.Encode(from, segment, codec.Prepare(stats, {from, segment.count}, noise), noise, out);
    from += segment.count;
  }
  return true;
}

void DownLink::AddDecoded(std::span<const uint8_t> coded, std::span<float> values) const {
  const codec::Codec& codec = *setup_.plan.pull_codec;
  float* to = values.data();
  for (const codec::Segment& segment : chunk_.segments) {
    const Result<size_t> size =
        codec.DecodeAloneTo(coded, segment, [to](uint64_t first, std::span<const float> decoded) {
          for (size_t i = 0; i < decoded.size(); ++i) to[first + i] += decoded[i];
        });
    CHECK(size.ok()) << size.status().message();  // Cannot fail: this process made the code.
    coded = coded.subspan(*size);
    to += segment.count;
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
