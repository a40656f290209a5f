// Safetensors files of float32 tensors: 8 bytes little-endian length of a JSON header, the header
// (padded with spaces to a multiple of 8), then the tensors' bytes without gaps. PyTorch, NumPy and
// JAX open them. The same input gives the same bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern::tensors {

// A named array, by reference. REQUIRES values.size() == product of shape.
struct TensorView {
  std::string name;
  std::vector<uint64_t> shape;
  std::span<const float> values;
};

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};

struct TensorFile {
  std::vector<Tensor> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

using Metadata = std::map<std::string, std::string>;

// In memory, as a worker sends its state. Decoding copies, and checks everything: the length of the
// header (at most 16 MiB), its JSON, dtype F32, shapes, and that the ranges cover the bytes
// exactly, without gap or overlap. kBadData says what is wrong and where.
std::string EncodeSafetensors(const std::vector<TensorView>& tensors, const Metadata& metadata);
Result<TensorFile> DecodeSafetensors(std::string_view bytes);

// Writes a file under a temporary name beside it, flushes it to disk, and renames it, so that
// `path` is always either the old file or the whole new one. kCannotWrite if the system refuses.
Status WriteSafetensors(const std::string& path, const std::vector<TensorView>& tensors,
                        const Metadata& metadata);
Result<TensorFile> ReadSafetensors(const std::string& path);

}  // namespace tern::tensors
