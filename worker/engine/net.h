// The training net on one device. Plans once (shapes, primitives, memory by lifetime), then only
// runs.
//
//   Make -> { Forward -> Backward? }*
//
// Parameters, gradients and statistics live in the caller's arenas, in canonical order
// (models/shapes.h), plain row-major; some layers keep copies in the layouts that the backend
// prefers. An evaluation net (training = false) is a second Net over the same parameters and
// statistics; it may run at any time between.
//
// Threads: one at a time. The backend uses as many as omp_set_num_threads said, on the calling
// thread, when Make ran: set it before, and call Forward and Backward on that thread with the same
// setting. For one number of threads (and kind of CPU) two runs give the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "common/base/status.h"
#include "kernels/pixels.h"
#include "models/shapes.h"
#include "proto/net.pb.h"

namespace tern::engine {

class DeviceModel;

// Sums over a set of samples.
struct Score {
  double loss = 0;       // sum of the losses
  uint64_t correct = 0;  // the label has the largest score (of equal ones the first)
  uint64_t among_five = 0;
  uint64_t samples = 0;
};

enum class Device { kCpu, kCuda };

// What convolutions and dense layers multiply; sums are taken in fp32, and parameters, their
// gradients and statistics stay so. kTf32: fp32 as a GPU's tensor cores take it, on a CPU fp32
// itself. kBf16: on a GPU images are kept in bfloat16, too. kFp16: images and products in half, on
// a GPU only; their gradients are scaled, so that none vanishes: a step whose gradients overflow is
// taken again with half the scale.
enum class Precision { kFp32, kTf32, kBf16, kFp16 };

// Asked before the first layer that reads parameter p does so (index in the table): whoever is
// asked may still write that parameter until it returns. `false` ends the pass there.
using Need = std::function<bool(uint32_t p)>;

class Net {
 public:
  struct Options {
    Device device = Device::kCpu;
    uint32_t batch = 0;  // samples of one Forward
    bool training = true;
    uint64_t seed = 0;  // of dropout, with the worker's rank and the step
    uint16_t rank = 0;
    Precision precision = Precision::kFp32;
    // Where there is one, images come as bytes, and the device makes of them what it says: the bits
    // that kernels::PixelTables would. On a GPU only.
    std::optional<kernels::PixelRule> pixels = std::nullopt;
  };
  // Of the caller, who keeps them longer than the net: table.total elements, the gradients only in
  // training; table.statistics_total, read in evaluation and updated by each Forward in training.
  struct Arenas {
    const float* parameters = nullptr;
    float* gradients = nullptr;
    float* statistics = nullptr;
    // Of a GPU's net: where its weights and gradients lie in place of the first two.
    DeviceModel* model = nullptr;
  };
  static Result<std::unique_ptr<Net>> Make(const pb::NetDef& def, const Options& options,
                                           const Arenas& arenas);
  virtual ~Net() = default;

  struct Feed {
    std::span<const float> images;     // [batch, C, H, W]
    std::span<const uint32_t> labels;  // each < classes
    uint32_t used = 0;  // samples that count, 1 to batch; the rest are padding of an evaluation
    uint64_t step = 0;  // which draws dropout
    // Unless empty, where the scores go that the loss is taken of: [batch, classes].
    std::span<float> scores = {};
    // With Options::pixels, instead of `images`: [batch, C, H, W], and [batch].
    std::span<const uint8_t> bytes = {};
    std::span<const kernels::PixelDraws> draws = {};
  };
  // Copies the images and reads the parameters afresh. Returns the mean loss of the samples that
  // count (training uses all), adding the sums to *score (nullptr: to nothing). `need(p)` is called
  // on this thread, where there is one: p from 0 to the last, a layer's weight and bias one after
  // the other. What comes of a pass that it ended means nothing.
  virtual double Forward(const Feed& feed, Score* score, const Need& need = nullptr) = 0;
  // d(mean loss)/d(parameters) into the gradients arena. `ready(p)` is called, on this thread, when
  // the gradient of parameter p (index in the table) is final: p falls from the last to 0, each
  // layer's bias before its weight. REQUIRES a Forward just before and the parameters unchanged
  // since: layers read them again.
  virtual void Backward(const std::function<void(uint32_t p)>& ready) = 0;
  // What the next Forward will be given, as bytes: a device fetches them while it is at work on
  // these. It stays as it is until that Forward has returned, or Unstage. Of a training net,
  // between Forward and Backward. Elsewhere than on a GPU it is nothing.
  virtual void Stage(const Feed& /*next*/) {}
  virtual void Unstage() {}  // another feed will be given, or none
  // While what is returned lives, a device fetches faster, and beside its work, from this memory of
  // the caller's. Any thread.
  virtual std::shared_ptr<void> Pin(const void* /*begin*/, size_t /*bytes*/) const {
    return nullptr;
  }
  // What a device refused, if it has refused anything: nothing since means anything, and Backward
  // has called nothing ready.
  virtual Status status() const { return Ok(); }
};

}  // namespace tern::engine
