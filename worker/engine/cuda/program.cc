#include "worker/engine/cuda/program.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "common/base/logging.h"

namespace tern::engine::cuda {

namespace {

// The least bytes of parameters in a segment (except the last): large enough for copies at full
// speed, and small enough that the segment's launches do not wait long for the copy.
constexpr size_t kMinSegmentBytes = size_t{4} << 20;

}  // namespace

Value Program::NewValue(const models::ImageDims& image) {
  return {image, plan_.AddBuffer(models::Elements(image) * batch_ * kernels::BytesOf(type_))};
}

Value Program::NewArray(size_t bytes) { return {{}, plan_.AddBuffer(bytes)}; }

Value Program::NewLastingArray(size_t bytes) {
  const Value array = NewArray(bytes);
  lasting_arrays_.push_back({array.buffer, bytes});
  return array;
}

void Program::Call(const char* what, const std::vector<Value>& values, Kernel kernel) {
  Append(values,
         [name = where_ + ", " + what, kernel = std::move(kernel)](auto stream, const Data& data) {
           return device::CheckCuda(kernel(stream, data), name);
         });
}

void Program::CallOperation(const char* what, const std::vector<Value>& values, Operation work) {
  Append(values,
         [name = where_ + ", " + what, work = std::move(work)](auto stream, const Data& data) {
           const Status work_status = work(stream, data);
           return work_status.ok() ? work_status : work_status.Within(name);
         });
}

void Program::Append(const std::vector<Value>& values, Operation work) {
  const auto step_number = static_cast<int>(steps_.size());
  for (const Value& value : values) plan_.RecordUse(value.buffer, step_number);
  Step& step = steps_.emplace_back();
  step.values = values;
  step.work = std::move(work);
}

void Program::ConvertWeights(const kernels::WeightArray& weights, const Value& kernel) {
  Append({kernel}, nullptr);
  steps_.back().weights = weights;
}

void Program::AddMark(int64_t Step::*mark, uint32_t p) { steps_.emplace_back().*mark = p; }

Status Program::Bind(const std::vector<size_t>& parameter_bytes, const kernels::DeviceStep* step) {
  device_step_ = step;
  CutPasses(parameter_bytes);
  for (const auto* segments : {&forward_segments_, &backward_segments_})
    for (const Segment& segment : *segments) RecordConversions(segment);
  for (const LastingArray& array : lasting_arrays_) {
    plan_.RecordUse(array.buffer, 0);
    plan_.RecordUse(array.buffer, static_cast<int>(steps_.size()));
  }
  auto arena = device::AllocateDeviceUninitialized(plan_.AssignOffsets());
  if (!arena.ok()) return arena.status();
  arena_ = std::move(*arena);
  const auto address_of = [this](int buffer) {
    return static_cast<std::byte*>(arena_.get()) + plan_.OffsetOf(buffer);
  };
  for (const LastingArray& array : lasting_arrays_)
    TERN_RETURN_IF_ERROR(device::ZeroDevice(address_of(array.buffer), array.bytes));
  for (Step& bound_step : steps_) {
    for (const Value& value : bound_step.values)
      bound_step.data.push_back(address_of(value.buffer));
  }
  for (auto* segments : {&forward_segments_, &backward_segments_})
    for (Segment& segment : *segments) TERN_RETURN_IF_ERROR(MakeWeightTable(&segment));
  return Ok();
}

void Program::RecordConversions(const Segment& segment) {
  const size_t conversion_step = segment.is_forward ? segment.begin : segment.end - 1;
  for (size_t i = segment.begin; i < segment.end; ++i) {
    if (steps_[i].weights.outputs > 0)
      plan_.RecordUse(steps_[i].values[0].buffer, static_cast<int>(conversion_step));
  }
}

Status Program::MakeWeightTable(Segment* segment) {
  std::vector<kernels::WeightArray> arrays;
  for (size_t i = segment->begin; i < segment->end; ++i) {
    if (steps_[i].weights.outputs == 0) continue;
    arrays.push_back(steps_[i].weights);
    arrays.back().kernel = steps_[i].data[0];
  }
  const std::vector<kernels::WeightBlock> blocks = kernels::BlocksOfWeights(arrays);
  for (const auto& [memory, bytes, data] :
       {std::tuple{&segment->weight_arrays, arrays.size() * sizeof arrays[0],
                   static_cast<const void*>(arrays.data())},
        std::tuple{&segment->weight_blocks, blocks.size() * sizeof blocks[0],
                   static_cast<const void*>(blocks.data())}}) {
    auto table_memory = device::AllocateDevice(data, bytes);
    if (!table_memory.ok()) return table_memory.status();
    *memory = std::move(*table_memory);
  }
  segment->weights = {static_cast<const kernels::WeightArray*>(segment->weight_arrays.get()),
                      static_cast<const kernels::WeightBlock*>(segment->weight_blocks.get()),
                      static_cast<uint32_t>(blocks.size())};
  return Ok();
}

void Program::Segment::AddParameter(uint32_t p, size_t num_bytes) {
  const bool is_first = parameters.begin == parameters.end;
  parameters.begin = is_first ? p : std::min(parameters.begin, p);
  parameters.end = is_first ? p + 1 : std::max(parameters.end, p + 1);
  bytes += num_bytes;
}

// All forward segments but the first begin at a mark of a read parameter, because the mark comes
// before the launches that read the parameter. A backward segment ends with a mark of a ready
// gradient, because the mark comes after the launches that compute the gradient.
void Program::CutPasses(const std::vector<size_t>& parameter_bytes) {
  Segment forward;
  forward.is_forward = true;
  for (size_t i = 0; i < backward_begin_; ++i) {
    if (steps_[i].read_parameter < 0) continue;
    if (forward.bytes >= kMinSegmentBytes) {
      forward.end = i;
      forward_segments_.push_back(std::exchange(forward, Segment()));
      forward.is_forward = true;
      forward.begin = i;
    }
    const auto p = static_cast<uint32_t>(steps_[i].read_parameter);
    forward.AddParameter(p, parameter_bytes[p]);
  }
  forward.end = backward_begin_;
  forward_segments_.push_back(std::move(forward));

  Segment backward;
  backward.begin = backward_begin_;
  for (size_t i = backward_begin_; i < steps_.size(); ++i) {
    if (steps_[i].ready_parameter < 0) continue;
    const auto p = static_cast<uint32_t>(steps_[i].ready_parameter);
    backward.AddParameter(p, parameter_bytes[p]);
    backward.end = i + 1;
    if (backward.bytes < kMinSegmentBytes) continue;
    backward_segments_.push_back(std::exchange(backward, Segment()));
    backward.begin = i + 1;
  }
  if (backward.bytes > 0) backward_segments_.push_back(std::move(backward));
}

Status Program::Launch(const device::Stream& stream, const Segment& segment) {
  if (segment.is_forward) {
    TERN_RETURN_IF_ERROR(device::CheckCuda(
        kernels::ToKernelsOnDevice(stream.get(), type_, segment.weights), "conversion of weights"));
  }
  for (size_t i = segment.begin; i < segment.end; ++i) {
    const Step& step = steps_[i];
    if (step.work) TERN_RETURN_IF_ERROR(step.work(stream.get(), step.data));
  }
  if (segment.is_forward) return Ok();
  return device::CheckCuda(
      kernels::FromKernelsOnDevice(stream.get(), type_, segment.weights, device_step_),
      "conversion of the gradients of weights");
}

// Captures the launches on the second run, because the first run also loads the kernels, and
// loading cannot be captured.
Status Program::Run(const device::Stream& stream, Segment* segment) {
  if (++segment->runs == 2) {
    auto graph = device::Graph::Capture(stream.get(), [&] { return Launch(stream, *segment); });
    if (graph.ok()) segment->graph = std::move(*graph);
    LOG_IF(WARNING, !graph.ok()) << "CUDA cannot capture launches, so they run one by one: "
                                 << graph.status().message();
  }
  return segment->graph != nullptr ? segment->graph->Launch(stream.get())
                                   : Launch(stream, *segment);
}

void Program::CountGraphs(Planning* planning) const {
  for (const auto* segments : {&forward_segments_, &backward_segments_}) {
    for (const Segment& segment : *segments) {
      ++planning->segments;
      if (segment.graph == nullptr) continue;
      ++planning->graphs;
      planning->graph_nodes += static_cast<uint32_t>(segment.graph->num_nodes());
    }
  }
}

Result<bool> Program::LaunchForward(const device::Stream& stream, const Transfers& transfers,
                                    const Need& need) {
  for (Segment& segment : forward_segments_) {
    const Range& range = segment.parameters;
    for (uint32_t p = range.begin; need && p < range.end; ++p)
      if (!need(p)) return false;
    TERN_RETURN_IF_ERROR(transfers.upload_parameters(range));
    TERN_RETURN_IF_ERROR(Run(stream, &segment));
  }
  return true;
}

Status Program::LaunchBackward(const device::Stream& stream, const Transfers& transfers) {
  for (Segment& segment : backward_segments_) {
    TERN_RETURN_IF_ERROR(Run(stream, &segment));
    TERN_RETURN_IF_ERROR(transfers.download_gradients(segment.parameters));
  }
  return Ok();
}

Status Program::AwaitBackward(const Transfers& transfers,
                              const std::function<void(uint32_t p)>& ready) {
  // With several segments, what is launched to encode the first gradients would wait for the last.
  const bool hands_over = transfers.hand_over && backward_segments_.size() == 1;
  for (const Segment& segment : backward_segments_) {
    const Range& range = segment.parameters;
    TERN_RETURN_IF_ERROR(hands_over ? transfers.hand_over(range)
                                    : transfers.wait_for_gradients(range));
    for (uint32_t p = range.end; ready && p-- > range.begin;) ready(p);
    if (hands_over) TERN_RETURN_IF_ERROR(transfers.wait_for_gradients(range));
  }
  return Ok();
}

}  // namespace tern::engine::cuda
