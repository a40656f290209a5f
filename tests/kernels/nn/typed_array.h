// Arrays of images on a GPU, and values whose sums are exact, for tests of layers' kernels.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/nn/device_images.h"
#include "kernels/nn/elementwise.h"
#include "tests/kernels/device/device_array.h"

namespace tern::kernels {

// Returns integers from -3 to 3, so that all sums are exact.
inline std::vector<float> SmallIntegers(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(random() % 7) - 3;
  return values;
}

// A device array of floats or of 16-bit numbers, which tests write and read as floats.
class TypedArray {
 public:
  TypedArray(DeviceType type, size_t n) : type_(type), n_(n), bytes_(n * BytesOf(type)) {}
  TypedArray(DeviceType type, const std::vector<float>& values) : TypedArray(type, values.size()) {
    DeviceArray<float> floats(values);
    EXPECT_EQ(FromFloatsOnDevice(nullptr, floats.data(), n_, type_, bytes_.data()), 0);
    EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  }
  void* data() { return bytes_.data(); }
  std::vector<float> Read() {
    DeviceArray<float> floats(n_);
    EXPECT_EQ(ToFloatsOnDevice(nullptr, type_, bytes_.data(), n_, floats.data()), 0);
    return floats.Read();
  }

 private:
  DeviceType type_;
  size_t n_;
  DeviceArray<uint8_t> bytes_;
};

}  // namespace tern::kernels
