#include "common/protocol/plan/cuts.h"

#include <algorithm>
#include <set>

#include "common/base/text.h"

namespace tern::protocol {

uint64_t CutBefore(const TensorsOfArena& tensors, uint64_t at) {
  if (at == tensors.parameters()) return at;
  const auto& begins = tensors.tensor_begin;
  const auto next_tensor = std::upper_bound(begins.begin(), begins.end(), at);
  const auto t = static_cast<size_t>(next_tensor - begins.begin()) - 1;
  return at - (at - begins[t]) % tensors.codec_of[t]->Granularity(tensors.column[t]);
}

std::vector<Bucket> CutBuckets(const TensorsOfArena& tensors, uint64_t limit) {
  std::vector<Bucket> buckets;
  for (size_t t = tensors.tensor_count.size(); t-- > 0;) {
    if (buckets.empty() || buckets.back().count + tensors.tensor_count[t] > limit)
      buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.begin = tensors.tensor_begin[t];
    bucket.count += tensors.tensor_count[t];
    bucket.first_tensor = static_cast<uint32_t>(t);
    ++bucket.tensors;
  }
  return buckets;
}

Result<std::vector<Bucket>> CutRanges(const TensorsOfArena& tensors, uint64_t num_parts,
                                      const std::string& key) {
  const uint64_t num_parameters = tensors.parameters();
  if (num_parts > num_parameters) {
    return Status(Code::kBadJob, Cat(key, " is ", num_parts, ", expected at most ", num_parameters,
                                     ", the number of parameters"));
  }
  std::vector<Bucket> buckets(num_parts);
  for (uint64_t i = 0; i < num_parts; ++i) {
    Bucket& bucket = buckets[i];
    bucket.begin = CutBefore(tensors, i * num_parameters / num_parts);
    bucket.count = CutBefore(tensors, (i + 1) * num_parameters / num_parts) - bucket.begin;
    if (bucket.count == 0) {
      return Status(Code::kBadJob,
                    Cat(key, " is ", num_parts, ", expected less: part ", i,
                        " would be empty, because its elements are coded together with others"));
    }
    for (uint32_t t = 0; t < tensors.tensor_count.size(); ++t) {
      const uint64_t begin = tensors.tensor_begin[t], end = begin + tensors.tensor_count[t];
      if (end <= bucket.begin || begin >= bucket.begin + bucket.count) continue;
      if (bucket.tensors++ == 0) bucket.first_tensor = t;
    }
  }
  return buckets;
}

PartsOfTensors CutParts(const TensorsOfArena& tensors, const std::vector<Bucket>& buckets) {
  std::set<uint64_t> bucket_begins;
  for (const Bucket& bucket : buckets) bucket_begins.insert(bucket.begin);
  PartsOfTensors cut;
  for (uint32_t t = 0; t < tensors.tensor_count.size(); ++t) {
    cut.first_part.push_back(static_cast<uint32_t>(cut.parts.size()));
    const uint64_t tensor_begin = tensors.tensor_begin[t], count = tensors.tensor_count[t];
    const uint64_t scaler_elements = tensors.codec_of[t]->scaler_elements();
    const uint64_t part_elements = scaler_elements == 0 ? count : scaler_elements;
    for (uint64_t at = 0, end = 0; at < count; at = end) {
      end = std::min(count, (at / part_elements + 1) * part_elements);
      const auto next_begin = bucket_begins.upper_bound(tensor_begin + at);
      if (next_begin != bucket_begins.end()) end = std::min(end, *next_begin - tensor_begin);
      cut.parts.push_back({t, at, end - at});
    }
  }
  cut.first_part.push_back(static_cast<uint32_t>(cut.parts.size()));
  return cut;
}

}  // namespace tern::protocol
