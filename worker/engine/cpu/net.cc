#include <algorithm>
#include <new>
#include <vector>

#include "common/base/logging.h"
#include "worker/engine/backends.h"
#include "worker/engine/cpu/layers.h"
#include "worker/engine/net_planner.h"
#include "worker/engine/specs.h"

namespace tern::engine {
namespace {

Status BadJobError(const std::string& message) { return Status(Code::kBadJob, message); }

// oneDNN multiplies bfloat16 on CPUs with AVX-512 only. The values of cpu_isa are sets of bits.
bool CpuMultipliesBf16() {
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

bool HasCpuLayer(pb::LayerDef::KindCase kind) { return FindLayerKind(kind) != nullptr; }

class CpuNet : public Net {
 public:
  CpuNet(const pb::NetDef& def, uint32_t batch) : def_(def), batch_size_(batch) {}

  Status MakeLayers(const Options& options, const Arenas& arenas) {
    const auto table = models::MakeParameterTable(def_, options.freeze);
    if (!table.ok()) return table.status();
    if (options.is_training) frozen_gradients_.resize(table->frozen_total);
    auto layers = PlanLayers(def_, options, *table, arenas, frozen_gradients_.data(), HasCpuLayer);
    if (!layers.ok()) return layers.status();
    layers_ = std::move(*layers);
    return Ok();
  }
  // Appends all steps of the net to the program. If oneDNN or `new` throws an exception, *where
  // says what was being planned, for example which layer.
  void Plan(std::string* where);

  double Forward(const Feed& feed, Score* score, const Need& need) override {
    CHECK_EQ(feed.images.size(), batch_size_ * image_elements_);
    CHECK(feed.used >= 1 && feed.used <= batch_size_ && feed.labels.size() >= feed.used);
    for (uint32_t n = 0; n < feed.used; ++n) CHECK_LT(feed.labels[n], def_.classes());
    ForwardIo& io = program_.io();
    io = {feed, {}};
    program_.RunForward(need);
    if (score != nullptr) {
      score->loss += io.score.loss;
      score->correct += io.score.correct;
      score->among_five += io.score.among_five;
      score->samples += io.score.samples;
    }
    return io.score.loss / feed.used;
  }

  void Backward(const std::function<void(uint32_t p)>& ready) override {
    program_.RunBackward(ready);
  }

 private:
  Value PlanInput();

  const pb::NetDef def_;
  const uint64_t batch_size_;
  uint64_t image_elements_ = 0;  // The number of elements of one input image.
  // Of layers with frozen and trained parameters: the gradients of the frozen ones.
  std::vector<float> frozen_gradients_;
  Program program_;
  std::vector<PlannedLayer> layers_;
};

// Appends the step that copies the images of the feed. The copy is needed because Backward reads
// the images, too, and the caller's memory may no longer exist then.
Value CpuNet::PlanInput() {
  const pb::ImageShape& input = def_.input();
  const models::ImageDims image = {input.channels(), input.height(), input.width()};
  image_elements_ = models::Elements(image);
  const Value images = program_.NewValue(
      DescOf(DimsOf(static_cast<uint32_t>(batch_size_), image), dnnl::memory::format_tag::nchw));
  const ForwardIo* io = &program_.io();
  program_.Call({images}, [io](const std::vector<float*>& addresses) {
    std::copy(io->feed.images.begin(), io->feed.images.end(), addresses[0]);
  });
  return images;
}

void CpuNet::Plan(std::string* where) {
  using Planner = NetPlanner<Program, Layer, Value>;
  const Planner::Backend backend{
      [](const LayerSpec& spec) { return FindLayerKind(spec.def->kind_case())->make(spec); },
      [this](const Value& a, const Value& b) { return program_.AddSum(a, b); },
      [where](const std::string& layer) { *where = layer; }};
  Planner(&program_, backend, PlanInput()).Plan(layers_);
  *where = "the arena";
  program_.Bind();
}

}  // namespace

Status CheckPrecisionOnCpu(Precision precision) {
  if (precision == Precision::kFp16) {
    return BadJobError(
        "train.precision is fp16, which a CPU does not have: set it to bf16 or fp32, or "
        "workers.device to cuda");
  }
  if (precision == Precision::kBf16 && !CpuMultipliesBf16()) {
    return BadJobError(
        "train.precision is bf16, which this CPU does not have (it lacks AVX-512): set it to fp32");
  }
  return Ok();
}

Result<std::unique_ptr<Net>> MakeCpuNet(const pb::NetDef& def, const Net::Options& options,
                                        const Net::Arenas& arenas) {
  CHECK(!options.pixels.has_value());
  TERN_RETURN_IF_ERROR(CheckPrecisionOnCpu(options.precision));
  auto net = std::make_unique<CpuNet>(def, options.batch);
  TERN_RETURN_IF_ERROR(net->MakeLayers(options, arenas));
  std::string where = "the engine";
  try {
    net->Plan(&where);
    return std::unique_ptr<Net>(std::move(net));
  } catch (const dnnl::error& error) {
    return BadJobError(where + ": oneDNN cannot run it at a batch of " +
                       std::to_string(options.batch) + ": " + error.what());
  } catch (const std::bad_alloc&) {
    return BadJobError(where + ": not enough memory at a batch of " +
                       std::to_string(options.batch) + "; " + SmallerBatch(options.is_training) +
                       ", or take a smaller net");
  }
}

}  // namespace tern::engine
