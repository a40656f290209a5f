// The types of values that a safetensors file may have and that become float32 when it is read.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace tern::tensors {

// The bytes of a value of the type F64, F32, F16 or BF16 of safetensors; 0 for any other.
size_t FloatBytes(std::string_view dtype);

// Converts values (little-endian, at any address) to float32: exactly, or F64 rounded to nearest
// even, where what is beyond float32 becomes infinite. REQUIRES FloatBytes(dtype) != 0 and
// bytes.size() == FloatBytes(dtype) * values.size().
void ToFloats(std::string_view dtype, std::string_view bytes, std::span<float> values);

}  // namespace tern::tensors
