// Memory of a GPU and seconds on it, for gpu_bench. One stream, the default one; one thread. What
// CUDA refuses ends the program with a sentence: what it has printed until then holds.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tern::bench {

// Ends the program, with 75, unless `error` is 0.
void Check(int error, const char* call);

// An array in device memory. Its elements are anything until they are written.
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
  // All of it by `count` values, over and over.
  void Fill(const T* values, size_t count) {
    for (size_t at = 0; at < size_; at += count) {
      const size_t here = count < size_ - at ? count : size_ - at;
      Check(cudaMemcpy(data_ + at, values, here * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
    }
  }
  std::vector<T> Read() const {  // after all that was launched
    std::vector<T> values(size_);
    Check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return values;
  }

 private:
  size_t size_;
  T* data_ = nullptr;
};

// How to measure: so many regions, each of as many calls as take at least so long.
struct Regions {
  int count = 7;
  double seconds = 0.05;
};

// A call of `work`, which launches: its seconds on the device, by events, region by region. The
// first calls only warm up. `turn` counts the calls, for work that goes round among its arrays.
std::vector<double> SecondsOf(const Regions& regions,
                              const std::function<void(uint64_t turn)>& work);
// The same by the host's clock, for work that waits itself.
std::vector<double> HostSecondsOf(const Regions& regions, const std::function<void()>& work);

// One line of JSON: {"name", "seconds": the median, "bytes", "launches", "samples", "note"}.
// `bytes`: what a call has to move at least; 0 where that means nothing. `launches`: of a call.
void PrintFigure(const std::string& name, const std::vector<double>& seconds, double bytes,
                 const std::string& note, int launches = 1);

}  // namespace tern::bench
