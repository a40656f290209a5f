// Safetensors files, which PyTorch, NumPy and JAX can read and write. Tensors are written as
// float32; those of other floating-point types become float32 when they are read. The layout: the
// length of the header (8 bytes, little-endian), a JSON header (padded with spaces to a multiple of
// 8 bytes), then the bytes of the tensors without gaps. Equal input gives equal bytes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tern::tensors {

// A tensor to write. The caller owns the values. REQUIRES values.size() == product of shape.
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
  std::vector<Tensor> tensors;  // in the order of their bytes in the file
  std::map<std::string, std::string> metadata;
  // The dtype of each tensor that was not read, by its name: integers, truth values, 8-bit floats.
  std::map<std::string, std::string> unread;

  // Why `tensors` lack this one, behind its name in a message: `is missing`, or that it was not
  // read, why, and what to do.
  std::string WhyMissing(const std::string& name) const;
};

using Metadata = std::map<std::string, std::string>;

// Encode and decode the bytes of a safetensors file in memory. Decoding copies the tensors, checks
// the header (at most 16 MiB, 131,072 tensors, 3 levels), the shapes, and that the tensors' byte
// ranges cover the bytes after the header without gap or overlap. It converts F64, F16 and BF16 to
// float32 (dtypes.h), and names other tensors than these and F32 in `unread`. If a check fails,
// decoding returns kBadData, with a message that says what is wrong and where.
std::string EncodeSafetensors(const std::vector<TensorView>& tensors, const Metadata& metadata);
Result<TensorFile> DecodeSafetensors(std::string_view bytes);

// Writes a file atomically (common/base/atomic_file.h). Returns kCannotWrite, with the operating
// system's message, if that fails.
Status WriteSafetensors(const std::string& path, const std::vector<TensorView>& tensors,
                        const Metadata& metadata);
Result<TensorFile> ReadSafetensors(const std::string& path);

}  // namespace tern::tensors
