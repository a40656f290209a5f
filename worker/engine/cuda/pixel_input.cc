#include "worker/engine/cuda/pixel_input.h"

#include <utility>

#include "common/base/logging.h"
#include "kernels/device/tiling.h"
#include "kernels/nn/device_images.h"

namespace tern::engine::cuda {
namespace {

Status Allocate(size_t bytes, device::DeviceMemory* memory) {
  auto new_memory = device::AllocateDevice(bytes);
  if (!new_memory.ok()) return new_memory.status();
  *memory = std::move(*new_memory);
  return Ok();
}

}  // namespace

Result<std::unique_ptr<PixelInput>> PixelInput::Make(const kernels::PixelRule& rule,
                                                     const kernels::DeviceImages& images,
                                                     bool uploads_ahead) {
  CHECK_EQ(rule.channels.size(), images.c);
  std::unique_ptr<PixelInput> input(new PixelInput);
  input->images_ = images;
  input->num_buffers_ = uploads_ahead ? 2 : 1;
  auto stream = device::Stream::Make();
  if (!stream.ok()) return stream.status();
  input->upload_stream_ = std::move(*stream);
  auto event = device::Event::Make();
  if (!event.ok()) return event.status();
  input->upload_done_ = std::move(*event);
  const size_t channels_bytes = rule.channels.size() * sizeof(kernels::ChannelScale);
  TERN_RETURN_IF_ERROR(Allocate(channels_bytes, &input->channels_));
  TERN_RETURN_IF_ERROR(
      Allocate(size_t{images.n} * (images.c + 2) * sizeof(float), &input->moments_));
  for (size_t i = 0; i < input->num_buffers_; ++i) {
    TERN_RETURN_IF_ERROR(Allocate(images.size(), &input->buffers_[i].bytes));
    TERN_RETURN_IF_ERROR(
        Allocate(images.n * sizeof(kernels::PixelDraws), &input->buffers_[i].draws));
  }
  TERN_RETURN_IF_ERROR(
      input->upload_stream_->CopyIn(input->channels_.get(), rule.channels.data(), channels_bytes));
  TERN_RETURN_IF_ERROR(input->upload_stream_->Wait());
  input->rule_ = {static_cast<const kernels::ChannelScale*>(input->channels_.get()),
                  rule.changes_colors, rule.standardizes};
  return input;
}

Status PixelInput::Upload(const Net::Feed& feed) {
  const Buffer& buffer = buffers_[next_buffer_];
  // Unlike the bytes, the random numbers are not page-locked.
  TERN_RETURN_IF_ERROR(
      upload_stream_->CopyInNow(buffer.draws.get(), feed.draws.data(), feed.draws.size_bytes()));
  TERN_RETURN_IF_ERROR(
      upload_stream_->CopyIn(buffer.bytes.get(), feed.bytes.data(), feed.bytes.size_bytes()));
  return upload_done_->Record(*upload_stream_);
}

Status PixelInput::Stage(const Net::Feed& next) {
  CHECK_EQ(num_buffers_, 2u);
  TERN_RETURN_IF_ERROR(Unstage());
  staged_bytes_ = next.bytes.data();
  staged_step_ = next.step;
  return Upload(next);
}

Status PixelInput::Unstage() {
  if (std::exchange(staged_bytes_, nullptr) == nullptr) return Ok();
  return upload_stream_->Wait();
}

Status PixelInput::Prepare(const device::Stream& stream, const Net::Feed& feed,
                           kernels::DeviceStep* step) {
  if (staged_bytes_ == feed.bytes.data() && staged_step_ == feed.step) {
    staged_bytes_ = nullptr;
  } else {
    TERN_RETURN_IF_ERROR(Unstage());
    TERN_RETURN_IF_ERROR(Upload(feed));
  }
  step->bytes = static_cast<const uint8_t*>(buffers_[next_buffer_].bytes.get());
  step->draws = static_cast<const kernels::PixelDraws*>(buffers_[next_buffer_].draws.get());
  next_buffer_ = (next_buffer_ + 1) % num_buffers_;
  return stream.WaitFor(*upload_done_);
}

int PixelInput::Launch(kernels::DeviceStream stream, const kernels::DeviceStep* step,
                       uint32_t stored_channels, kernels::DeviceType type, void* images) const {
  return kernels::PixelsToImagesOnDevice(stream, step, images_, rule_,
                                         static_cast<float*>(moments_.get()), stored_channels, type,
                                         images);
}

}  // namespace tern::engine::cuda
