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
void ExitOnError(int error, const char* call);

// An array in device memory. Its elements are uninitialized unless it is made from values.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    void* memory = nullptr;
    ExitOnError(cudaMalloc(&memory, size * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    Fill(values.data(), values.size());
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  size_t size() const { return size_; }
  // Fills the array with repetitions of the `count` values at `values` in host memory.
  void Fill(const T* values, size_t count) {
    for (size_t first = 0; first < size_; first += count) {
      const size_t copy_count = count < size_ - first ? count : size_ - first;
      ExitOnError(cudaMemcpy(data_ + first, values, copy_count * sizeof(T), cudaMemcpyHostToDevice),
                  "cudaMemcpy");
    }
  }
  // Copies the array to the host, after all launched work has finished.
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    ExitOnError(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
                "cudaMemcpy");
    return values;
  }

 private:
  size_t size_;
  T* data_ = nullptr;
};

// How to measure: `count` regions are timed. A region is a series of calls, so many that a trial
// run takes at least `min_seconds`.
struct RegionOptions {
  int count = 7;
  double min_seconds = 0.05;
};

// Measures how many seconds a call of `work`, which launches kernels or copies, takes on the
// device. Returns one value per region, measured with CUDA events after warm-up calls. `turn` is
// the number of the call, for work that uses several arrays in turn.
std::vector<double> MeasureSeconds(const RegionOptions& regions,
                                   const std::function<void(uint64_t turn)>& work);
// Measures by the host's clock how many seconds a call of `work` takes. `work` itself waits for the
// device. Returns one value per region.
std::vector<double> MeasureHostSeconds(const RegionOptions& regions,
                                       const std::function<void()>& work);

// Prints one line of JSON: {"name", "seconds": the median, "bytes", "launches", "samples": all
// `seconds`, "note"}. `bytes`: the minimum memory traffic of a call; 0 if this does not apply.
// `launches`: the number of kernel launches per call.
void PrintMeasurement(const std::string& name, const std::vector<double>& seconds, double bytes,
                      const std::string& note, int launches = 1);

}  // namespace tern::bench
