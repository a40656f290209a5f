#include "common/tensors/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/text.h"
#include "common/tensors/dtypes.h"
#include "common/tensors/safetensors_header.h"

namespace tern::tensors {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are copied without byte swapping");

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 16 << 20;
constexpr char kMetadata[] = "__metadata__";

Status BadData(const std::string& message) { return Status(Code::kBadData, message); }

uint64_t ReadHeaderLength(std::string_view bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return length;
}

// Checks that the ranges of the entries, in their order, cover [0, num_bytes) without gap or
// overlap.
Status CheckRanges(const std::vector<HeaderEntry>& entries, uint64_t num_bytes) {
  uint64_t expected_begin = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != expected_begin) {
      return BadData(TensorText(entry.name) + " begins at byte " + std::to_string(entry.begin) +
                     ", but the tensor before it ends at " + std::to_string(expected_begin));
    }
    expected_begin = entry.end;
  }
  if (expected_begin == num_bytes) return Ok();
  return BadData("the tensors need " + std::to_string(expected_begin) + " bytes, but " +
                 std::to_string(num_bytes) +
                 " follow the header; the file is truncated or damaged");
}

// Returns the JSON text. Replaces bytes that are not UTF-8, which JSON does not allow.
std::string ToJsonText(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// Returns the JSON header. It lists the tensors in the given order, which is the order of their
// bytes. So it is written by hand: a Json object would sort them by name.
std::string MakeHeaderText(const std::vector<TensorView>& tensors, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += ToJsonText(kMetadata) + ":" + ToJsonText(metadata);
  uint64_t begin = 0;
  for (const TensorView& tensor : tensors) {
    const uint64_t end = begin + tensor.values.size_bytes();
    if (text.size() > 1) text += ",";
    text += ToJsonText(tensor.name) + ":{\"dtype\":\"F32\",\"shape\":" + ToJsonText(tensor.shape) +
            ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::string TensorFile::WhyMissing(const std::string& name) const {
  const auto found = unread.find(name);
  if (found == unread.end()) return "is missing";
  return Cat("has dtype ", Printable(found->second, 32),
             ", expected F32, F16, BF16 or F64: save it as one of these");
}

std::string EncodeSafetensors(const std::vector<TensorView>& tensors, const Metadata& metadata) {
  const std::string header = MakeHeaderText(tensors, metadata);
  const uint64_t header_bytes = header.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &header_bytes, kLengthBytes);
  uint64_t file_bytes = kLengthBytes + header_bytes;
  for (const TensorView& tensor : tensors) file_bytes += tensor.values.size_bytes();
  bytes.reserve(file_bytes);
  bytes += header;
  for (const TensorView& tensor : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size_bytes());
  }
  return bytes;
}

Result<TensorFile> DecodeSafetensors(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) {
    return BadData("it has " + std::to_string(bytes.size()) +
                   " bytes; a safetensors file begins with 8 bytes of header length");
  }
  const uint64_t header_bytes = ReadHeaderLength(bytes);
  if (header_bytes > kMaxHeaderBytes) {
    return BadData("the header claims " + std::to_string(header_bytes) + " bytes; at most " +
                   std::to_string(kMaxHeaderBytes) + " are allowed; is this a safetensors file?");
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    return BadData("the header claims " + std::to_string(header_bytes) + " bytes, but only " +
                   std::to_string(bytes.size() - kLengthBytes) + " follow; the file is truncated");
  }
  TensorFile file;
  Result<std::vector<HeaderEntry>> entries =
      ParseHeader(bytes.substr(kLengthBytes, header_bytes), &file.metadata);
  if (!entries.ok()) return entries.status();
  std::stable_sort(entries->begin(), entries->end(),
                   [](const HeaderEntry& a, const HeaderEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  const std::string_view tensor_bytes = bytes.substr(kLengthBytes + header_bytes);
  TERN_RETURN_IF_ERROR(CheckRanges(*entries, tensor_bytes.size()));
  for (HeaderEntry& entry : *entries) {
    const size_t value_bytes = FloatBytes(entry.dtype);
    if (value_bytes == 0) {
      file.unread[entry.name] = std::move(entry.dtype);
      continue;
    }
    const uint64_t num_bytes = entry.end - entry.begin;
    Tensor tensor{std::move(entry.name), std::move(entry.shape), {}};
    tensor.values.resize(num_bytes / value_bytes);
    ToFloats(entry.dtype, tensor_bytes.substr(entry.begin, num_bytes), tensor.values);
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

}  // namespace tern::tensors
