// Measures the limits of this machine's GPU, and Tern's kernels on it. Prints one line of JSON per
// measurement (gpu_timing.h) as soon as it is done; the first line describes the device.
// gpu_check.py computes ratios from these lines.
//
//   gpu_bench [--device_only] [--elements 134217728] [--nets alexnet,resnet50] [--regions 7]
//             [--region_ms 50]
//
// Every measurement times --regions regions. A region is a series of calls, so many that a trial
// run takes at least --region_ms milliseconds.
//
// The "bytes" of a line are the necessary memory traffic. The kernels that compute statistics or
// encode read 4 bytes per element; the kernels that encode also write the codes. The kernel that
// updates the weights reads the encoded sum, and reads or writes 4 bytes for every access to a
// weight or its optimizer state. Intermediate results of kernels do not count.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "bench/gpu_timing.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/text.h"
#include "kernels/codes/planes.h"
#include "kernels/codes/rotate.h"
#include "kernels/codes/stats.h"
#include "kernels/codes/ternary.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/batch_norm.h"
#include "kernels/update/arrays.h"
#include "kernels/update/optimizer_math.h"
#include "kernels/update/update.h"
#include "models/graph/shapes.h"
#include "models/models.h"

namespace tern::bench {
namespace {

using kernels::Part;

// The elements of a chunk, the unit in which a gradient is encoded and sent: 4096 KiB of floats.
constexpr uint64_t kChunkElements = uint64_t{4096} * 1024 / sizeof(float);
constexpr float kSigma = 0.01f, kClip = 0.025f;
// Longer arrays repeat this many random values.
constexpr size_t kPatternSize = size_t{1} << 22;
// Calls use several arrays in turn that together have at least this many bytes, more than any
// cache. But arrays of at most kPatternSize values are used again and again.
constexpr uint64_t kMinArrayBytes = uint64_t{400} << 20;

struct Setting {
  uint64_t elements = uint64_t{1} << 27;
  std::string nets = "alexnet,resnet50";
  RegionOptions regions;
  bool device_only = false;
};

std::vector<float> NormalValues(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, kSigma);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Returns tensors of `counts` elements, one after the other as in a model. A Part is a range of the
// elements of one tensor.
std::vector<Part> MakeTensors(const std::vector<uint64_t>& counts) {
  std::vector<Part> parts;
  uint64_t begin = 0;
  for (uint32_t t = 0; t < counts.size(); ++t) {
    parts.push_back({begin, counts[t], 0, t, t});
    begin += counts[t];
  }
  return parts;
}

// Cuts the tensors into chunks of kChunkElements. Returns the segments: the parts of a chunk that
// belong to one tensor.
std::vector<Part> CutIntoSegments(const std::vector<Part>& tensors) {
  std::vector<Part> segments;
  uint64_t room_in_chunk = kChunkElements;
  uint32_t chunk = 0;
  for (const Part& tensor : tensors) {
    for (uint64_t offset_in_tensor = 0; offset_in_tensor < tensor.count;) {
      if (room_in_chunk == 0) room_in_chunk = kChunkElements, ++chunk;
      const uint64_t count = std::min(room_in_chunk, tensor.count - offset_in_tensor);
      segments.push_back(
          {tensor.begin + offset_in_tensor, count, offset_in_tensor, tensor.tensor, chunk});
      offset_in_tensor += count;
      room_in_chunk -= count;
    }
  }
  return segments;
}

// Parts of tensors in device memory, cut into tiles of a fixed size for the kernels.
struct TiledParts {
  explicit TiledParts(const std::vector<Part>& parts)
      : host_tiling(kernels::CutIntoTiles(parts)),
        tiles(host_tiling.tiles),
        parts(host_tiling.parts),
        chunks(host_tiling.chunks) {}
  kernels::DeviceTiling DeviceView() {
    return {tiles.data(), parts.data(), chunks.data(),
            static_cast<uint32_t>(host_tiling.tiles.size())};
  }

  kernels::Tiling host_tiling;
  DeviceArray<kernels::Tile> tiles;
  DeviceArray<kernels::TiledPart> parts;
  DeviceArray<kernels::TiledChunk> chunks;
};

uint64_t NumElements(const std::vector<Part>& tensors) {
  return tensors.back().begin + tensors.back().count;
}

// Returns arrays of normally distributed values, each with one value per element of a model. Calls
// use the arrays in turn. Arrays longer than kPatternSize are together larger than any cache, so no
// cache holds the array of the next call.
std::vector<std::unique_ptr<DeviceArray<float>>> MakeArenas(uint64_t elements) {
  const std::vector<float> values =
      NormalValues(std::min<size_t>(kPatternSize, static_cast<size_t>(elements)), 1);
  std::vector<std::unique_ptr<DeviceArray<float>>> arenas;
  do {
    arenas.push_back(std::make_unique<DeviceArray<float>>(elements));
    arenas.back()->Fill(values.data(), values.size());
  } while (arenas.size() * elements * sizeof(float) < kMinArrayBytes && elements > kPatternSize);
  return arenas;
}

// Measures the kernels that compute statistics of tensors and encode them as ternary codes.
class TernarizeBenchmark {
 public:
  explicit TernarizeBenchmark(const std::vector<Part>& tensors)
      : elements_(NumElements(tensors)),
        tensors_(tensors),
        segments_(CutIntoSegments(tensors)),
        arenas_(MakeArenas(elements_)),
        partial_stats_(tensors_.host_tiling.tiles.size()),
        stats_(tensors.size()),
        num_finished_tiles_(std::vector<uint32_t>(
            kernels::NumStatsCounters(tensors.size(), tensors_.host_tiling.tiles.size()))),
        scales_(
            std::vector<kernels::TernaryScale>(segments_.host_tiling.parts.size(), {kClip, kClip})),
        tile_states_(std::vector<uint64_t>(segments_.host_tiling.tiles.size())),
        part_states_(std::vector<uint64_t>(segments_.host_tiling.parts.size())),
        num_finished_by_chunk_(std::vector<uint32_t>(segments_.host_tiling.chunks.size())),
        num_begun_(std::vector<uint32_t>(1)),
        codes_(segments_.host_tiling.out_bytes),
        code_sizes_(segments_.host_tiling.chunks.size()) {}

  void MeasureAndPrint(const std::string& name, const RegionOptions& regions) {
    const double read_bytes = 4.0 * static_cast<double>(elements_);
    const auto codes_seconds =
        MeasureSeconds(regions, [this](uint64_t turn) { LaunchCodes(turn); });
    const std::vector<uint64_t> code_sizes = code_sizes_.Read();
    const double code_bytes = std::accumulate(code_sizes.begin(), code_sizes.end(), 0.0);
    const std::string note =
        Cat(tensors_.host_tiling.parts.size(), " tensors of ", elements_, " elements in ",
            code_sizes.size(), " chunks; codes of ", HumanBytes(static_cast<uint64_t>(code_bytes)));
    PrintMeasurement(name + "_codes", codes_seconds, read_bytes + code_bytes, note);
    const auto stats_seconds =
        MeasureSeconds(regions, [this](uint64_t turn) { LaunchStats(turn); });
    PrintMeasurement(name + "_statistics", stats_seconds, read_bytes, note);
    const auto stats_and_codes_seconds = MeasureSeconds(regions, [this](uint64_t turn) {
      LaunchStats(turn);
      LaunchCodes(turn);
    });
    PrintMeasurement(name + "_statistics_and_codes", stats_and_codes_seconds,
                     2 * read_bytes + code_bytes, note, 2);
  }

 private:
  const float* ArenaForTurn(uint64_t turn) { return arenas_[turn % arenas_.size()]->data(); }
  void LaunchStats(uint64_t turn) {
    ExitOnError(kernels::ComputeStatsOnDevice(nullptr, ArenaForTurn(turn), tensors_.DeviceView(),
                                              partial_stats_.data(), num_finished_tiles_.data(),
                                              stats_.data()),
                "launch of statistics");
  }
  void LaunchCodes(uint64_t turn) {
    ExitOnError(kernels::TernarizeOnDevice(
                    nullptr, ArenaForTurn(turn), segments_.DeviceView(), scales_.data(),
                    {.seed = 1, .stream = kernels::NoiseStream::kCodes, .round = turn},
                    {tile_states_.data(), part_states_.data(), num_finished_by_chunk_.data(),
                     num_begun_.data()},
                    codes_.data(), code_sizes_.data()),
                "launch of codes");
  }

  uint64_t elements_;
  TiledParts tensors_, segments_;
  std::vector<std::unique_ptr<DeviceArray<float>>> arenas_;
  DeviceArray<kernels::DeviceStats> partial_stats_, stats_;
  DeviceArray<uint32_t> num_finished_tiles_;
  DeviceArray<kernels::TernaryScale> scales_;
  DeviceArray<uint64_t> tile_states_, part_states_;
  DeviceArray<uint32_t> num_finished_by_chunk_, num_begun_;
  DeviceArray<uint8_t> codes_;
  DeviceArray<uint64_t> code_sizes_;
};

// Measures the rotation of all tensors in blocks of 4096 elements, before they are encoded.
void MeasureRotation(const std::string& name, const std::vector<Part>& tensors,
                     const RegionOptions& regions) {
  const uint64_t elements = NumElements(tensors);
  const auto arenas = MakeArenas(elements);
  DeviceArray<float> rotated(elements);
  TiledParts tiled_tensors(tensors);
  const auto seconds = MeasureSeconds(regions, [&](uint64_t turn) {
    ExitOnError(
        kernels::RotateOnDevice(nullptr, tiled_tensors.DeviceView(), {.seed = 1, .block = 4096},
                                arenas[turn % arenas.size()]->data(), rotated.data()),
        "launch of a rotation");
  });
  PrintMeasurement(name + "_rotation", seconds, 8.0 * static_cast<double>(elements),
                   Cat(elements, " elements in blocks of 4096"));
}

// Random sums of the ternary codes of `workers` workers, for all parts. A sum is stored as planes
// of two's complement: a plane holds one bit of each element. Every part uses a prefix of the
// longest part's sums.
struct RandomSums {
  RandomSums(const std::vector<Part>& parts, int workers) {
    uint64_t max_count = 0;
    for (const Part& part : parts) max_count = std::max(max_count, part.count);
    const auto num_planes = static_cast<size_t>(kernels::SumBits(workers));
    const size_t plane_bytes = kernels::PlaneBytes(max_count);
    std::vector<uint8_t> planes(num_planes * plane_bytes);
    std::mt19937_64 random(6);
    std::uniform_int_distribution<int> random_sum(-workers, workers);
    for (uint64_t i = 0; i < max_count; ++i) {
      const auto sum = static_cast<uint32_t>(random_sum(random));
      for (size_t p = 0; p < num_planes; ++p)
        planes[p * plane_bytes + i / 8] |= static_cast<uint8_t>((sum >> p & 1) << i % 8);
    }
    for (const Part& part : parts) {
      sum_locations.push_back({planes_of_parts.size(), kClip});
      for (size_t p = 0; p < num_planes; ++p) {
        const auto begin = planes.begin() + static_cast<ptrdiff_t>(p * plane_bytes);
        planes_of_parts.insert(planes_of_parts.end(), begin,
                               begin + static_cast<ptrdiff_t>(kernels::PlaneBytes(part.count)));
      }
    }
  }
  std::vector<uint8_t> planes_of_parts;
  std::vector<kernels::SumLocation> sum_locations;
};

// Measures the kernel that decodes sums of ternary codes and updates the weights.
void MeasureUpdates(const std::string& name, const std::vector<Part>& tensors,
                    const RegionOptions& regions) {
  const std::vector<Part> segments = CutIntoSegments(tensors);
  const uint64_t elements = NumElements(tensors);
  const std::vector<float> values = NormalValues(std::min<size_t>(kPatternSize, elements), 2);
  std::vector<float> positive_values = values;
  for (float& value : positive_values) value = std::abs(value);
  TiledParts tiled_segments(segments);
  // `momentum` is also the first moment of Adam; `second_moment` is only used by Adam.
  DeviceArray<float> weights(elements), momentum(elements), second_moment(elements);
  weights.Fill(values.data(), values.size());
  second_moment.Fill(positive_values.data(), positive_values.size());
  DeviceArray<kernels::TensorRates> tensor_rates(
      std::vector<kernels::TensorRates>(segments.size(), {1e-4f, 0}));
  DeviceArray<uint32_t> found_invalid(std::vector<uint32_t>(1));
  for (const uint32_t workers : {2u, 4u, 8u}) {
    const RandomSums sums(segments, static_cast<int>(workers));
    DeviceArray<uint8_t> planes(sums.planes_of_parts);
    DeviceArray<kernels::SumLocation> sum_locations(sums.sum_locations);
    for (const bool is_adam : {false, true}) {
      momentum.Fill(values.data(), values.size());
      const kernels::UpdateStep step{
          is_adam ? kernels::UpdateRule::kAdam : kernels::UpdateRule::kMomentum,
          1e-6f,
          0.9f,
          {1e-6f, 1.02f, 0.9f, 0.1f, 0.999f, 0.001f, 1e-8f}};
      const auto seconds = MeasureSeconds(regions, [&](uint64_t) {
        ExitOnError(
            kernels::DecodeAndUpdateOnDevice(
                nullptr, tiled_segments.DeviceView(), planes.data(), sum_locations.data(), workers,
                step, tensor_rates.data(), {weights.data(), momentum.data(), second_moment.data()},
                found_invalid.data()),
            "launch of updates");
      });
      const double state_bytes = (is_adam ? 24.0 : 16.0) * static_cast<double>(elements);
      PrintMeasurement(Cat(name, "_decode_", is_adam ? "adam" : "momentum", "_", workers), seconds,
                       static_cast<double>(sums.planes_of_parts.size()) + state_bytes,
                       Cat(elements, " parameters, sums of ", workers, " workers, ",
                           kernels::SumBits(static_cast<int>(workers)), " planes"));
    }
  }
  if (found_invalid.Read()[0] != 0) {
    std::fprintf(stderr, "gpu_bench: the kernel reports valid sums as invalid\n");
    std::exit(static_cast<int>(Code::kInternal));
  }
}

// Measures copies within device memory, and between device and host.
void MeasureCopies(const Setting& setting) {
  const auto traffic_bytes = static_cast<double>(setting.elements) * sizeof(float);
  const std::vector<float> values =
      NormalValues(std::min<size_t>(kPatternSize, setting.elements), 3);
  DeviceArray<float> source(setting.elements), target(setting.elements);
  source.Fill(values.data(), values.size());
  const size_t array_bytes = setting.elements * sizeof(float);
  PrintMeasurement("copy",
                   MeasureSeconds(setting.regions,
                                  [&](uint64_t) {
                                    ExitOnError(
                                        cudaMemcpyAsync(target.data(), source.data(), array_bytes,
                                                        cudaMemcpyDeviceToDevice, nullptr),
                                        "cudaMemcpyAsync on the device");
                                  }),
                   2 * traffic_bytes, Cat(HumanBytes(array_bytes), ", bytes read and written"));
  std::vector<float> host_values(setting.elements / 2);
  for (size_t i = 0; i < host_values.size(); ++i) host_values[i] = values[i % values.size()];
  const size_t host_bytes = host_values.size() * sizeof(float);
  if (cudaHostRegister(host_values.data(), host_bytes, cudaHostRegisterDefault) != cudaSuccess) {
    cudaGetLastError();  // Clears the error, so that the next call does not return it.
    std::fprintf(stderr, "gpu_bench: cannot pin memory; skips copies from and to the host\n");
    return;
  }
  const std::string pinned_note = Cat(HumanBytes(host_bytes), ", pinned");
  PrintMeasurement(
      "to_device",
      MeasureSeconds(setting.regions,
                     [&](uint64_t) {
                       ExitOnError(cudaMemcpyAsync(target.data(), host_values.data(), host_bytes,
                                                   cudaMemcpyHostToDevice, nullptr),
                                   "cudaMemcpyAsync to the device");
                     }),
      static_cast<double>(host_bytes), pinned_note);
  PrintMeasurement(
      "from_device",
      MeasureSeconds(setting.regions,
                     [&](uint64_t) {
                       ExitOnError(cudaMemcpyAsync(host_values.data(), source.data(), host_bytes,
                                                   cudaMemcpyDeviceToHost, nullptr),
                                   "cudaMemcpyAsync from the device");
                     }),
      static_cast<double>(host_bytes), pinned_note);
  ExitOnError(cudaHostUnregister(host_values.data()), "cudaHostUnregister");
}

// Measures the time of a kernel launch, without and with waiting for its end.
void MeasureLaunches(const RegionOptions& regions) {
  DeviceArray<float> average(std::vector<float>(1)), weight(std::vector<float>(1));
  const auto launch = [&] {
    ExitOnError(kernels::EmaUpdateOnDevice(nullptr, average.data(), weight.data(), 1, 0.5f),
                "launch");
  };
  PrintMeasurement("launch", MeasureSeconds(regions, [&](uint64_t) { launch(); }), 0,
                   "launches of a kernel with one element");
  PrintMeasurement("launch_and_wait",
                   MeasureHostSeconds(regions,
                                      [&] {
                                        launch();
                                        ExitOnError(cudaStreamSynchronize(nullptr),
                                                    "cudaStreamSynchronize");
                                      }),
                   0, "the same, with a wait after each");
}

// Prints a JSON line that describes the GPU. Ends the program with exit code 78 if there is no GPU.
void PrintDevice() {
  int num_devices = 0, driver_version = 0, runtime_version = 0, multiprocessors = 0, l2_bytes = 0,
      clock_khz = 0, memory_khz = 0, major = 0, minor = 0;
  const cudaError_t count_error = cudaGetDeviceCount(&num_devices);
  if (count_error != cudaSuccess || num_devices == 0) {
    std::fprintf(stderr, "gpu_bench: there is no GPU here%s%s\n",
                 count_error == cudaSuccess ? "" : ": CUDA says: ",
                 count_error == cudaSuccess ? "" : cudaGetErrorString(count_error));
    std::exit(static_cast<int>(Code::kBadJob));
  }
  cudaDeviceProp properties;
  ExitOnError(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  size_t free_bytes = 0, total_bytes = 0;
  ExitOnError(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  ExitOnError(cudaDriverGetVersion(&driver_version), "cudaDriverGetVersion");
  ExitOnError(cudaRuntimeGetVersion(&runtime_version), "cudaRuntimeGetVersion");
  const auto query_attribute = [](int* to, cudaDeviceAttr attribute) {
    if (cudaDeviceGetAttribute(to, attribute, 0) != cudaSuccess) *to = 0;  // 0 means unknown.
  };
  query_attribute(&multiprocessors, cudaDevAttrMultiProcessorCount);
  query_attribute(&l2_bytes, cudaDevAttrL2CacheSize);
  query_attribute(&clock_khz, cudaDevAttrClockRate);
  query_attribute(&memory_khz, cudaDevAttrMemoryClockRate);
  query_attribute(&major, cudaDevAttrComputeCapabilityMajor);
  query_attribute(&minor, cudaDevAttrComputeCapabilityMinor);
  std::printf(
      "{\"name\": \"device\", \"device\": \"%s\", \"compute_capability\": \"%d.%d\", "
      "\"memory_bytes\": %zu, \"multiprocessors\": %d, \"l2_bytes\": %d, \"clock_khz\": %d, "
      "\"memory_clock_khz\": %d, \"cuda_of_driver\": %d, \"cuda_runtime\": %d}\n",
      properties.name, major, minor, total_bytes, multiprocessors, l2_bytes, clock_khz, memory_khz,
      driver_version, runtime_version);
  std::fflush(stdout);
}

// Returns the tensors of the network `name`, for images of the size in its publication.
std::vector<Part> TensorsOfNet(const std::string& name) {
  pb::Model model;
  model.set_name(name);
  const models::PublishedImage image = models::PublishedImageOf(name);
  pb::ImageShape shape;
  shape.set_channels(image.channels);
  shape.set_height(image.side);
  shape.set_width(image.side);
  const auto net = models::BuildNet(model, shape, image.classes);
  if (!net.ok()) {
    std::fprintf(stderr, "gpu_bench: %s\n", net.status().message().c_str());
    std::exit(static_cast<int>(Code::kUsage));
  }
  const auto table = models::MakeParameterTable(*net);
  std::vector<uint64_t> counts;
  for (const models::Parameter& parameter : table->parameters) counts.push_back(parameter.count);
  return MakeTensors(counts);
}

int Main(int argc, char** argv) {
  Setting setting;
  bool is_valid = true;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--device_only") {
      setting.device_only = true;
      continue;
    }
    const char* value = ++i < argc ? argv[i] : "";
    if (flag == "--elements") {
      setting.elements = std::strtoull(value, nullptr, 10);
    } else if (flag == "--nets") {
      setting.nets = value;
    } else if (flag == "--regions") {
      setting.regions.count = std::atoi(value);
    } else if (flag == "--region_ms") {
      setting.regions.min_seconds = std::atof(value) / 1e3;
    } else {
      is_valid = false;
    }
  }
  if (!is_valid || setting.elements < 2 || setting.regions.count < 1) {
    std::fprintf(stderr,
                 "gpu_bench [--device_only] [--elements N >= 2] [--nets A,B] [--regions N >= 1] "
                 "[--region_ms MS]\n");
    return static_cast<int>(Code::kUsage);
  }
  PrintDevice();
  if (setting.device_only) return 0;
  MeasureCopies(setting);
  MeasureLaunches(setting.regions);
  for (size_t begin = 0; begin < setting.nets.size();) {
    const size_t end = std::min(setting.nets.find(',', begin), setting.nets.size());
    const std::string net = setting.nets.substr(begin, end - begin);
    const std::vector<Part> tensors = TensorsOfNet(net);
    TernarizeBenchmark(tensors).MeasureAndPrint(net, setting.regions);
    MeasureRotation(net, tensors, setting.regions);
    MeasureUpdates(net, tensors, setting.regions);
    begin = end + 1;
  }
  TernarizeBenchmark(MakeTensors({setting.elements}))
      .MeasureAndPrint("one_tensor", setting.regions);
  return 0;
}

}  // namespace
}  // namespace tern::bench

int main(int argc, char** argv) { return tern::bench::Main(argc, argv); }
