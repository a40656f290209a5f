// What a worker on a CPU computes, for tests of the model on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/codec/codec.h"
#include "kernels/codes/stats.h"
#include "worker/device/device_model.h"

namespace tern::device {

// Encodes gradients on the CPU, one round after the other.
class CpuCoder {
 public:
  explicit CpuCoder(const DeviceModel::Layout& layout) : layout_(layout) {
    for (const auto& bucket : layout.buckets) {
      memories_.push_back(layout.codec->NewMemory(bucket[0].count));
      params_of_tensor_.emplace_back();
    }
  }
  // Returns the codes of each chunk.
  std::vector<std::vector<uint8_t>> EncodeRound(const std::vector<float>& gradients,
                                                kernels::NoiseKey noise) {
    std::vector<float> compensated_gradients = gradients;
    for (uint32_t t = 0; t < memories_.size(); ++t) {
      const kernels::Part& part = layout_.buckets[t][0];
      const std::span<float> tensor_values{compensated_gradients.data() + part.begin, part.count};
      if (memories_[t] != nullptr) {
        const std::span<const float> v = memories_[t]->Compensate(0, tensor_values, tensor_values);
        std::copy(v.begin(), v.end(), tensor_values.begin());
      }
      if (layout_.codec->rotates())
        layout_.codec->Rotate(t, 0, tensor_values, tensor_values.data());
      noise.tensor = t;
      params_of_tensor_[t] = layout_.codec->Prepare(
          kernels::ComputeStats(tensor_values.data(), tensor_values.size()), tensor_values, noise);
    }
    std::vector<std::vector<uint8_t>> codes;
    for (const auto& chunk : layout_.chunks) {
      codes.emplace_back();
      for (const kernels::Part& part : chunk)
        EncodePart(part, {compensated_gradients.data() + part.begin, part.count}, noise,
                   &codes.back());
    }
    return codes;
  }
  const codec::EncodeParams& EncodeParamsOf(uint32_t tensor) const {
    return params_of_tensor_[tensor];
  }
  // What the codec keeps between rounds: for each array's name, the values of all tensors in order.
  std::map<std::string, std::vector<float>> CodecMemories() {
    std::map<std::string, std::vector<float>> memory_values;
    for (const auto& memory : memories_) {
      if (memory == nullptr) continue;
      SavedState state;
      memory->AddState(&state);
      for (const SavedState::Array& array : state.arrays)
        memory_values[array.name].insert(memory_values[array.name].end(), array.values.begin(),
                                         array.values.end());
    }
    return memory_values;
  }

 private:
  void EncodePart(const kernels::Part& part, std::span<const float> part_values,
                  const kernels::NoiseKey& noise, std::vector<uint8_t>* codes) {
    const codec::Segment segment{part.tensor, part.first, part.count, layout_.columns[part.tensor]};
    const size_t code_begin = codes->size();
    layout_.codec->Encode(part_values.data(), segment, params_of_tensor_[part.tensor], noise,
                          codes);
    codec::Memory* memory = memories_[part.tensor].get();
    if (memory == nullptr) return;
    std::vector<float> decoded(part.count);
    ASSERT_TRUE(
        layout_.codec
            ->DecodeSingleCode(std::span(*codes).subspan(code_begin), segment, decoded.data())
            .ok());
    memory->Update(part.first, part_values, decoded);
  }

  const DeviceModel::Layout& layout_;
  std::vector<std::unique_ptr<codec::Memory>> memories_;  // what the codec keeps between rounds
  std::vector<codec::EncodeParams> params_of_tensor_;
};

}  // namespace tern::device
