#include "common/tensors/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace tern::tensors {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are copied without byte swapping");

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 16 << 20;
constexpr uint64_t kMaxDims = 8;
constexpr char kMetadata[] = "__metadata__";

Status BadData(const std::string& message) { return Status(Code::kBadData, message); }

struct HeaderEntry {
  std::string name;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

uint64_t ReadHeaderLength(std::string_view bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return length;
}

// nlohmann silently keeps the last of two equal keys; this parser reports the first duplicate.
std::optional<Json> ParseWithoutDuplicates(std::string_view text, std::string* duplicate) {
  std::vector<std::set<std::string>> keys_of_open_objects;
  const auto find_duplicate = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys_of_open_objects.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_of_open_objects.pop_back();
    if (event == Json::parse_event_t::key && duplicate->empty()) {
      const std::string& key = value.get_ref<const std::string&>();
      if (!keys_of_open_objects.back().insert(key).second) *duplicate = key;
    }
    return true;
  };
  Json json = Json::parse(text, find_duplicate, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return std::nullopt;
  return json;
}

std::optional<std::vector<uint64_t>> ParseWholeNumbers(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<uint64_t> numbers;
  for (const Json& item : *found) {
    if (!item.is_number_unsigned()) return std::nullopt;
    numbers.push_back(item.get<uint64_t>());
  }
  return numbers;
}

// The size in bytes of a float32 tensor of that shape; nullopt if the size exceeds 63 bits.
std::optional<uint64_t> TensorBytes(const std::vector<uint64_t>& shape) {
  unsigned __int128 bytes = sizeof(float);
  bool is_empty = false;
  for (uint64_t dim : shape) {
    is_empty = is_empty || dim == 0;
    if (dim != 0) bytes *= dim;
    if (bytes >> 63 != 0) return std::nullopt;
  }
  return is_empty ? 0 : static_cast<uint64_t>(bytes);
}

Result<HeaderEntry> ParseEntry(const std::string& name, const Json& json) {
  const std::string tensor_text = "tensor \"" + name.substr(0, 256) + "\"";
  if (!json.is_object()) return BadData(tensor_text + " is not described by a JSON object");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) return BadData(tensor_text + " has no dtype");
  if (*dtype != "F32") {
    return BadData(tensor_text + " has dtype " + dtype->get<std::string>().substr(0, 32) +
                   "; only F32 is read");
  }
  const auto shape = ParseWholeNumbers(json, "shape");
  if (!shape || shape->size() > kMaxDims) {
    return BadData(tensor_text + ": shape must be a list of at most 8 whole numbers");
  }
  const auto offsets = ParseWholeNumbers(json, "data_offsets");
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return BadData(tensor_text + ": data_offsets must be two whole numbers, begin and end");
  }
  const std::optional<uint64_t> bytes = TensorBytes(*shape);
  const uint64_t span_bytes = (*offsets)[1] - (*offsets)[0];
  if (!bytes || *bytes != span_bytes) {
    return BadData(tensor_text + ": data_offsets span " + std::to_string(span_bytes) +
                   " bytes, its shape needs " +
                   (bytes ? std::to_string(*bytes) : "more than 2^63"));
  }
  return HeaderEntry{name, *shape, (*offsets)[0], (*offsets)[1]};
}

Status ParseMetadata(const Json& json, Metadata* metadata) {
  if (!json.is_object()) return BadData("__metadata__ must be a JSON object of strings");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return BadData("__metadata__ must hold strings only");
    (*metadata)[key] = value.get<std::string>();
  }
  return Ok();
}

// Checks that the ranges of the entries, in their order, cover [0, num_bytes) without gap or
// overlap.
Status CheckRanges(const std::vector<HeaderEntry>& entries, uint64_t num_bytes) {
  uint64_t expected_begin = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != expected_begin) {
      return BadData("tensor \"" + entry.name.substr(0, 256) + "\" begins at byte " +
                     std::to_string(entry.begin) + ", but the tensor before it ends at " +
                     std::to_string(expected_begin));
    }
    expected_begin = entry.end;
  }
  if (expected_begin == num_bytes) return Ok();
  return BadData("the tensors need " + std::to_string(expected_begin) + " bytes, but " +
                 std::to_string(num_bytes) +
                 " follow the header; the file is truncated or damaged");
}

Result<std::vector<HeaderEntry>> ParseHeader(std::string_view text, Metadata* metadata) {
  std::string duplicate;
  const std::optional<Json> json = ParseWithoutDuplicates(text, &duplicate);
  if (!json) return BadData("the header is not a JSON object");
  if (!duplicate.empty()) {
    return BadData("the header has the key \"" + duplicate.substr(0, 256) + "\" twice");
  }
  std::vector<HeaderEntry> entries;
  for (const auto& [name, value] : json->items()) {
    if (name == kMetadata) {
      TERN_RETURN_IF_ERROR(ParseMetadata(value, metadata));
      continue;
    }
    Result<HeaderEntry> entry = ParseEntry(name, value);
    if (!entry.ok()) return entry.status();
    entries.push_back(std::move(*entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  return entries;
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
  const std::string_view tensor_bytes = bytes.substr(kLengthBytes + header_bytes);
  TERN_RETURN_IF_ERROR(CheckRanges(*entries, tensor_bytes.size()));
  for (HeaderEntry& entry : *entries) {
    Tensor tensor{std::move(entry.name), std::move(entry.shape), {}};
    tensor.values.resize((entry.end - entry.begin) / sizeof(float));
    if (!tensor.values.empty()) {
      std::memcpy(tensor.values.data(), tensor_bytes.data() + entry.begin, entry.end - entry.begin);
    }
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

}  // namespace tern::tensors
