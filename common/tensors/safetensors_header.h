// Parses the JSON header of a safetensors file (safetensors.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern::tensors {

// A tensor in the header: its shape, and its bytes [begin, end) among those after the header.
struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Parses the header in one pass, and stops at the first fault. Time and memory grow with the length
// of the text, times the logarithm of the number of tensors. A header has at most 131,072 tensors
// and 65,536 entries of metadata, and nests objects and lists at most three deep. Returns the
// entries in the order of the text. Checks each entry by itself: a dtype, a shape of at most 8
// numbers, and a byte range, which has the shape's size if the dtype is one of dtypes.h. kBadData
// if a check fails.
Result<std::vector<HeaderEntry>> ParseHeader(std::string_view text,
                                             std::map<std::string, std::string>* metadata);

// How error messages name a tensor: `tensor "fc.weight"`, with control characters replaced, and
// shortened if the name is long.
std::string TensorText(const std::string& name);

}  // namespace tern::tensors
