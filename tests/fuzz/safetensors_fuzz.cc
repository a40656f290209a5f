// Fuzzes the parser of safetensors files (weights and checkpoints): parses arbitrary bytes as a
// file, and as the JSON header of a file. A file that is accepted must stay the same when it is
// written and read again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "common/tensors/safetensors.h"

namespace {

using tern::tensors::DecodeSafetensors;

void CheckFile(const std::string& bytes) {
  const auto file = DecodeSafetensors(bytes);
  if (!file.ok()) {
    if (file.status().message().empty()) std::abort();
    for (const unsigned char c : file.status().message()) {
      if (c < 0x20 || c >= 0x7f) std::abort();
    }
    return;
  }
  std::vector<tern::tensors::TensorView> views;
  for (const auto& tensor : file->tensors)
    views.push_back({tensor.name, tensor.shape, tensor.values});
  const auto again = DecodeSafetensors(EncodeSafetensors(views, file->metadata));
  if (!again.ok() || again->metadata != file->metadata ||
      again->tensors.size() != file->tensors.size())
    std::abort();
  for (size_t i = 0; i < file->tensors.size(); ++i) {
    const auto &a = file->tensors[i], &b = again->tensors[i];
    const bool are_equal =
        a.name == b.name && a.shape == b.shape && a.values.size() == b.values.size() &&
        (a.values.empty() ||
         std::memcmp(a.values.data(), b.values.data(), 4 * a.values.size()) == 0);
    if (!are_equal) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  CheckFile(bytes);
  // The tensors of the corpus take this many bytes.
  constexpr size_t kTensorBytes = 32;
  std::string file(sizeof(uint64_t), '\0');
  const uint64_t header_bytes = size;
  std::memcpy(file.data(), &header_bytes, sizeof header_bytes);
  CheckFile(file + bytes + std::string(kTensorBytes, '\1'));
  return 0;
}
