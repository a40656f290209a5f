// GPU memory and timing for gpu_bench. Uses the default stream and one thread. A CUDA error ends
// the program with a message; measurements printed before it are valid.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tern::bench {

// Ends the program with exit code 75 unless `error` is 0.
void Check(int error, const char* call);

// An array in device memory, uninitialized.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(size_t size) : size_(size) {
    void* memory = nullptr;
    Check(cudaMalloc(&memory, size * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    Fill(values.data(), values.size());
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* data() { return data_; }
  size_t size() const { return size_; }
  // Fills the array with repetitions of `count` values.
  void Fill(const T* values, size_t count) {
    for (size_t at = 0; at < size_; at += count) {
      const size_t here = count < size_ - at ? count : size_ - at;
      Check(cudaMemcpy(data_ + at, values, here * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
  }
  std::vector<T> Read() const {  // waits for all launched work
    std::vector<T> values(size_);
    Check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return values;
  }

 private:
  size_t size_;
  T* data_ = nullptr;
};

// How to measure: `count` regions, each with enough calls to take at least `seconds`.
struct Regions {
  int count = 7;
  double seconds = 0.05;
};

// The seconds on the device of a call of `work`, which launches kernels: one value per region,
// measured with CUDA events after warm-up calls. `turn` counts the calls, for work that uses
// several arrays in turn.
std::vector<double> SecondsOf(const Regions& regions,
                              const std::function<void(uint64_t turn)>& work);
// The same by the host's clock, for work that waits for the device itself.
std::vector<double> HostSecondsOf(const Regions& regions, const std::function<void()>& work);

// One line of JSON: {"name", "seconds": the median, "bytes", "launches", "samples", "note"}.
// `bytes`: the minimum memory traffic of a call; 0 if it does not apply. `launches`: per call.
void PrintFigure(const std::string& name, const std::vector<double>& seconds, double bytes,
                 const std::string& note, int launches = 1);

}  // namespace tern::bench
