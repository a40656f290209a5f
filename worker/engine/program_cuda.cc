#include "worker/engine/program_cuda.h"

#include <utility>

namespace tern::engine::cuda {

Value Program::NewValue(const models::ImageDims& image) {
  return {image, plan_.Add(models::Elements(image) * batch_ * kernels::BytesOf(type_))};
}

Value Program::NewArray(size_t bytes) { return {{}, plan_.Add(bytes)}; }

void Program::Call(const char* what, const std::vector<Value>& values, Launch launch) {
  Append(values, [name = where_ + ", " + what, launch = std::move(launch)](
                     auto stream, const Data& data) { return Check(launch(stream, data), name); });
}

void Program::Do(const char* what, const std::vector<Value>& values, Work work) {
  Append(values,
         [name = where_ + ", " + what, work = std::move(work)](auto stream, const Data& data) {
           const Status done = work(stream, data);
           return done.ok() ? done : done.Within(name);
         });
}

void Program::Append(const std::vector<Value>& values, Work work) {
  const auto time = static_cast<int>(steps_.size());
  for (const Value& value : values) plan_.Use(value.buffer, time);
  Step& step = steps_.emplace_back();
  step.values = values;
  step.work = std::move(work);
}

void Program::AddMark(int64_t Step::*mark, uint32_t p) { steps_.emplace_back().*mark = p; }

Status Program::Bind() {
  auto arena = AllocateDevice(plan_.Place());
  if (!arena.ok()) return arena.status();
  arena_ = std::move(*arena);
  for (Step& step : steps_) {
    for (const Value& value : step.values) {
      step.data.push_back(static_cast<std::byte*>(arena_.get()) + plan_.OffsetOf(value.buffer));
    }
  }
  return Ok();
}

Status Program::RunForward(const Stream& stream, const Traffic& traffic, const Need& need) {
  for (size_t i = 0; i < backward_; ++i) {
    const Step& step = steps_[i];
    if (step.reads < 0) {
      TERN_RETURN_IF_ERROR(step.work(stream.get(), step.data));
      continue;
    }
    const auto p = static_cast<uint32_t>(step.reads);
    if (need && !need(p)) return Ok();
    TERN_RETURN_IF_ERROR(traffic.fetch(p));
  }
  return Ok();
}

Status Program::RunBackward(const Stream& stream, const Traffic& traffic,
                            const std::function<void(uint32_t p)>& ready) {
  std::vector<uint32_t> brought;
  for (size_t i = backward_; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.ready < 0) {
      TERN_RETURN_IF_ERROR(step.work(stream.get(), step.data));
      continue;
    }
    brought.push_back(static_cast<uint32_t>(step.ready));
    TERN_RETURN_IF_ERROR(traffic.bring(brought.back()));
  }
  for (const uint32_t p : brought) {
    TERN_RETURN_IF_ERROR(traffic.arrived(p));
    if (ready) ready(p);
  }
  return Ok();
}

}  // namespace tern::engine::cuda
