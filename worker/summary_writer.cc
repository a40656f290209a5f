#include "worker/summary_writer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "common/algorithm/facts.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "worker/tensorboard/code_figures.h"
#include "worker/tensorboard/histogram.h"

namespace tern::worker {

namespace {

constexpr Time kRateInterval = std::chrono::seconds(1);

void AddScalar(const std::string& tag, double value, pb::Event* event) {
  pb::Summary::Value* scalar = event->mutable_summary()->add_value();
  scalar->set_tag(tag);
  scalar->set_simple_value(static_cast<float>(value));
}

void AddHistogram(const std::string& tag, std::span<const float> values, pb::Event* event) {
  pb::Summary::Value* histogram = event->mutable_summary()->add_value();
  histogram->set_tag(tag);
  *histogram->mutable_histo() = tensorboard::HistogramOf(values);
}

// Adds by how much the code of a tensor differs from its values. `clamped`: the values after the
// codec clamped them; empty if it does not clamp.
void AddFigures(const std::string& name, std::span<const float> values,
                std::span<const float> decoded, std::span<const float> clamped, pb::Event* event) {
  if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0; })) return;
  const tensorboard::CodeFigures code = tensorboard::CodeFiguresOf(values, decoded);
  AddScalar("zeros/" + name, code.zero_share, event);
  AddScalar("q/" + name, code.q, event);
  AddScalar("angle/" + name, code.angle_degrees, event);
  if (clamped.empty()) return;
  const tensorboard::ClipFigures clip = tensorboard::ClipFiguresOf(values, clamped);
  AddScalar("clamped/" + name, clip.share, event);
  AddScalar("bias/" + name, clip.bias, event);
}

// Decodes one worker's code of one segment to `values`. `code` begins with that code. Returns the
// size of that code in bytes.
Result<size_t> DecodeSegment(const codec::Codec& codec, std::span<const uint8_t> code,
                             const codec::Segment& segment, float scaler, float* values) {
  if (!codec.shares_scaler()) return codec.DecodeSingleCode(code, segment, values);
  // A code whose scaler all workers share can only be decoded as a sum of codes, here of one code.
  const auto accumulator = codec.NewAccumulator(segment, 1);
  Result<size_t> code_bytes = accumulator->Add(0, code);
  if (!code_bytes.ok()) return code_bytes;
  std::vector<uint8_t> sum;
  accumulator->EncodeSum(&sum);
  TERN_RETURN_IF_ERROR(codec.Decode(sum, segment, 1, scaler, 0, segment.count, values));
  return code_bytes;
}

}  // namespace

std::unique_ptr<SummaryWriter> SummaryWriter::Make(const setup::Setup& setup, uint32_t rank,
                                                   const client::Progress& progress,
                                                   const net::Traffic& traffic) {
  if (!setup.job.metrics().tensorboard()) return nullptr;
  auto file = tensorboard::EventFile::Make(Cat(setup.job.output_dir(), "/events/worker.", rank));
  if (!file.ok()) {
    LOG(ERROR) << file.status().message() << "; training goes on without TensorBoard's events";
    return nullptr;
  }
  LOG(INFO) << "TensorBoard's events go to " << file->path();
  return std::unique_ptr<SummaryWriter>(
      new SummaryWriter(setup, progress, traffic, std::move(*file)));
}

SummaryWriter::SummaryWriter(const setup::Setup& setup, const client::Progress& progress,
                             const net::Traffic& traffic, tensorboard::EventFile file)
    : setup_(setup),
      progress_(progress),
      traffic_(traffic),
      histogram_interval_(setup.job.metrics().histograms_every_steps()),
      steps_a_push_(algorithm::FactsOf(setup.job).steps_a_push()),
      gradient_tag_(
          pb::AlgorithmTraits::Pushes_Name(algorithm::FactsOf(setup.job).pushed_quantity)),
      last_rates_time_(Now()),
      writer_(std::move(file), setup.plan.buckets.size()) {}

SummaryWriter::~SummaryWriter() {
  if (progress_.rounds.value() > last_counters_.steps) AddRates();
}

void SummaryWriter::OnSteps(uint64_t steps) {
  step_ = steps + 1;
  const uint64_t rounds = progress_.rounds.value();
  if (rounds == std::exchange(rounds_seen_, rounds)) {  // Unchanged: a start or restart.
    last_histogram_step_ = steps;
    observed_until_step_ = 0;
    if (rounds == 0) last_counters_ = ReadCounters();
    // TensorBoard then drops what it has of this step and later ones.
    pb::Event start = NewEvent(step_);
    start.mutable_session_log()->set_status(pb::SessionLog::START);
    writer_.Add(std::move(start));
    return;
  }
  pb::Event event = NewEvent(steps);
  const uint64_t gradients = progress_.steps.value();
  if (gradients != std::exchange(gradients_seen_, gradients))  // Else the round closed without it.
    AddScalar("train/loss", progress_.loss.value(), &event);
  AddScalar("learning_rate", progress_.learning_rate.value(), &event);
  writer_.Add(std::move(event));
  if (Now() - last_rates_time_ >= kRateInterval) AddRates();
}

void SummaryWriter::OnEvaluation(uint64_t steps, const pb::Figures& figures) {
  if (figures.test_samples() == 0) return;
  const auto num_samples = static_cast<double>(figures.test_samples());
  pb::Event event = NewEvent(steps);
  AddScalar("test/accuracy", static_cast<double>(figures.test_correct()) / num_samples, &event);
  AddScalar("test/top5", static_cast<double>(figures.test_top5_correct()) / num_samples, &event);
  AddScalar("test/loss", figures.test_loss() / num_samples, &event);
  writer_.Add(std::move(event));
}

uint64_t SummaryWriter::StepToObserve() {
  if (histogram_interval_ == 0) return 0;
  if (step_ / histogram_interval_ > last_histogram_step_ / histogram_interval_) {
    last_histogram_step_ = step_;
    observed_until_step_ = step_ + steps_a_push_;
  }
  return step_ < observed_until_step_ ? step_ : 0;
}

void SummaryWriter::OnMean(uint64_t step, uint32_t bucket, std::vector<float> mean) {
  if (setup_.plan.buckets[bucket].arena_index != 0) return;
  writer_.AddLater([this, step, bucket, mean = std::move(mean)](pb::Event* event) {
    *event = NewEvent(step);
    VisitTensors(bucket, [&](uint32_t t, uint64_t begin, uint64_t end) {
      AddHistogram("averaged/" + setup_.table.parameters[t].name,
                   std::span(mean).subspan(begin, end - begin), event);
    });
  });
}

void SummaryWriter::OnPushedBucket(PushedBucket pushed) {
  // Arena 0 has the parameters, the other arenas the optimizer's state, which has no histograms.
  if (setup_.plan.buckets[pushed.bucket].arena_index != 0) return;
  // A std::function must be copyable; the shared pointer avoids a copy of the values.
  auto shared_pushed = std::make_shared<const PushedBucket>(std::move(pushed));
  writer_.AddLater([this, shared_pushed = std::move(shared_pushed)](pb::Event* event) {
    MakeHistograms(*shared_pushed, event);
  });
}

SummaryWriter::CounterValues SummaryWriter::ReadCounters() const {
  return {progress_.rounds.value(), progress_.samples.value(), traffic_.Bytes(net::Direction::kOut),
          traffic_.Bytes(net::Direction::kIn), Seconds(progress_.train_time.value())};
}

void SummaryWriter::AddRates() {
  const CounterValues current = ReadCounters(), previous = std::exchange(last_counters_, current);
  last_rates_time_ = Now();
  pb::Event event = NewEvent(step_ - 1);
  const auto steps = static_cast<double>(current.steps - previous.steps);
  if (current.seconds > previous.seconds) {
    AddScalar("samples_per_s",
              static_cast<double>(current.samples - previous.samples) /
                  (current.seconds - previous.seconds),
              &event);
  }
  AddScalar("bytes_up_per_step",
            static_cast<double>(current.bytes_sent - previous.bytes_sent) / steps, &event);
  AddScalar("bytes_down_per_step",
            static_cast<double>(current.bytes_received - previous.bytes_received) / steps, &event);
  writer_.Add(std::move(event));
}

pb::Event SummaryWriter::NewEvent(uint64_t step) const {
  pb::Event event;
  event.set_wall_time(tensorboard::WallTime());
  event.set_step(static_cast<int64_t>(step));
  return event;
}

void SummaryWriter::VisitTensors(
    uint32_t bucket_index, const std::function<void(uint32_t, uint64_t, uint64_t)>& use) const {
  const protocol::Bucket& bucket = setup_.plan.buckets[bucket_index];
  for (uint32_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensors; ++t) {
    const uint64_t tensor_begin = setup_.plan.tensor_begin[t];
    const uint64_t tensor_end = tensor_begin + setup_.plan.tensor_count[t];
    use(t, std::max(tensor_begin, bucket.begin) - bucket.begin,
        std::min(tensor_end, bucket.begin + bucket.count) - bucket.begin);
  }
}

void SummaryWriter::MakeHistograms(const PushedBucket& pushed, pb::Event* event) const {
  *event = NewEvent(pushed.step);
  const std::vector<float> decoded_values = DecodePushed(pushed), clamped = ClampPushed(pushed);
  VisitTensors(pushed.bucket, [&](uint32_t t, uint64_t begin, uint64_t end) {
    const std::string& name = setup_.table.parameters[t].name;
    const auto of_tensor = [&](const std::vector<float>& values) {
      return std::span(values).subspan(begin, end - begin);
    };
    AddHistogram(Cat(gradient_tag_, "/", name), of_tensor(pushed.values), event);
    AddHistogram("coded/" + name, of_tensor(decoded_values), event);
    // Either all parts of a tensor are clamped, or none.
    const uint32_t first_part = setup_.plan.buckets[pushed.bucket].first_part;
    const uint32_t part = std::max(setup_.plan.first_part[t], first_part);
    const bool is_clamped = std::isfinite(pushed.limits[part - first_part]);
    if (is_clamped) AddHistogram("clipped/" + name, of_tensor(clamped), event);
    AddFigures(name, of_tensor(pushed.values), of_tensor(decoded_values),
               is_clamped ? of_tensor(clamped) : std::span<const float>(), event);
  });
}

std::vector<float> SummaryWriter::ClampPushed(const PushedBucket& pushed) const {
  const protocol::Bucket& bucket = setup_.plan.buckets[pushed.bucket];
  std::vector<float> clamped(pushed.values);
  for (uint32_t i = 0; i < bucket.parts; ++i) {
    const protocol::Part& part = setup_.plan.parts[bucket.first_part + i];
    const uint64_t begin = setup_.plan.tensor_begin[part.tensor] + part.begin - bucket.begin;
    for (uint64_t at = begin; at < begin + part.count; ++at)
      clamped[at] = std::clamp(clamped[at], -pushed.limits[i], pushed.limits[i]);
  }
  return clamped;
}

std::vector<float> SummaryWriter::DecodePushed(const PushedBucket& pushed) const {
  const protocol::Bucket& bucket = setup_.plan.buckets[pushed.bucket];
  std::vector<float> decoded_values(bucket.count);
  for (const protocol::Chunk& chunk : bucket.chunks) {
    std::span<const uint8_t> codes =
        pushed.codes[chunk.index].span().subspan(chunk.num_scalers * sizeof(float));
    for (size_t i = 0; i < chunk.segments.size(); ++i) {
      const codec::Segment& segment = chunk.segments[i];
      const uint64_t begin =
          setup_.plan.tensor_begin[segment.tensor] + segment.begin - bucket.begin;
      const Result<size_t> code_bytes = DecodeSegment(
          *setup_.plan.codec_of[segment.tensor], codes, segment,
          pushed.scalers[chunk.part_of_segment[i] - bucket.first_part], &decoded_values[begin]);
      // Cannot fail, because this worker made the code.
      CHECK(code_bytes.ok()) << code_bytes.status().message();
      codes = codes.subspan(*code_bytes);
    }
  }
  return decoded_values;
}

}  // namespace tern::worker
