// Error feedback (Seide et al. 2014): encodes v = g + r, where g is the gradient and r the
// residual. Then r becomes the difference between v and the decoded code of v.
#include "common/codec/error_feedback.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/codec/wrapper.h"

namespace tern::codec {

namespace {

// Wraps a codec and adds error feedback to it, as the codec's memory on workers.
class ErrorFeedbackCodec : public CodecWrapper {
 public:
  using CodecWrapper::CodecWrapper;
  std::unique_ptr<Memory> NewMemory(uint64_t count) const override {
    return std::make_unique<ErrorFeedback>(count);
  }
};

}  // namespace

std::span<const float> ErrorFeedback::Compensate(uint64_t begin, std::span<const float> g,
                                                 std::span<float> v) {
  for (size_t i = 0; i < g.size(); ++i) v[i] = g[i] + residual_[begin + i];
  return v;
}

void ErrorFeedback::Update(uint64_t begin, std::span<const float> v, std::span<const float> sent) {
  for (size_t i = 0; i < v.size(); ++i) residual_[begin + i] = v[i] - sent[i];
}

void ErrorFeedback::UpdateSparse(uint64_t begin, std::span<const float> v,
                                 std::span<const uint32_t> positions) {
  std::copy(v.begin(), v.end(), residual_.data() + begin);
  for (const uint32_t i : positions) residual_[begin + i] = 0;
}

Result<std::unique_ptr<Codec>> WithErrorFeedback(std::unique_ptr<Codec> inner) {
  if (inner->HasMemory()) return inner;  // The codec already has a memory.
  if (inner->is_stochastic()) {
    return Status(Code::kBadJob,
                  "exchange.error_feedback is true, but the codes of " +
                      std::string(inner->name()) +
                      " are drawn without bias: what one leaves out is noise, which must not be "
                      "added to the next; leave the key out, or choose a codec that rounds");
  }
  return std::unique_ptr<Codec>(std::make_unique<ErrorFeedbackCodec>(std::move(inner)));
}

}  // namespace tern::codec
