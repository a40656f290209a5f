#include "common/tensors/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace tern::tensors {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors' bytes are copied as they are");

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 16 << 20;
constexpr uint64_t kMaxDims = 8;
constexpr char kMetadata[] = "__metadata__";

Status Bad(const std::string& message) { return Status(Code::kBadData, message); }

struct Entry {
  std::string name;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

uint64_t ReadLength(std::string_view bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  return length;
}

// nlohmann keeps the last of two equal keys without a word; this parse refuses them.
std::optional<Json> ParseWithoutDuplicates(std::string_view text, std::string* duplicate) {
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && duplicate->empty()) {
      const std::string& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) *duplicate = key;
    }
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return std::nullopt;
  return json;
}

std::optional<std::vector<uint64_t>> Numbers(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return std::nullopt;
  std::vector<uint64_t> numbers;
  for (const Json& item : *found) {
    if (!item.is_number_unsigned()) return std::nullopt;
    numbers.push_back(item.get<uint64_t>());
  }
  return numbers;
}

// Bytes of a float32 tensor of that shape; nothing if they do not fit 63 bits.
std::optional<uint64_t> BytesOf(const std::vector<uint64_t>& shape) {
  unsigned __int128 bytes = sizeof(float);
  bool empty = false;
  for (uint64_t dim : shape) {
    empty = empty || dim == 0;
    if (dim != 0) bytes *= dim;
    if (bytes >> 63 != 0) return std::nullopt;
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

Result<Entry> ParseEntry(const std::string& name, const Json& json) {
  const std::string where = "tensor \"" + name.substr(0, 256) + "\"";
  if (!json.is_object()) return Bad(where + " is described by no JSON object");
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) return Bad(where + " has no dtype");
  if (*dtype != "F32") {
    return Bad(where + " has dtype " + dtype->get<std::string>().substr(0, 32) +
               "; only F32 is read");
  }
  const auto shape = Numbers(json, "shape");
  if (!shape || shape->size() > kMaxDims) {
    return Bad(where + ": shape must be a list of at most 8 whole numbers");
  }
  const auto offsets = Numbers(json, "data_offsets");
  if (!offsets || offsets->size() != 2 || (*offsets)[0] > (*offsets)[1]) {
    return Bad(where + ": data_offsets must be two whole numbers, begin and end");
  }
  const std::optional<uint64_t> bytes = BytesOf(*shape);
  const uint64_t length = (*offsets)[1] - (*offsets)[0];
  if (!bytes || *bytes != length) {
    return Bad(where + ": data_offsets span " + std::to_string(length) +
               " bytes, its shape needs " + (bytes ? std::to_string(*bytes) : "more than 2^63"));
  }
  return Entry{name, *shape, (*offsets)[0], (*offsets)[1]};
}

Status ParseMetadata(const Json& json, Metadata* metadata) {
  if (!json.is_object()) return Bad("__metadata__ must be a JSON object of texts");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return Bad("__metadata__ must hold texts only");
    (*metadata)[key] = value.get<std::string>();
  }
  return Ok();
}

// The ranges, in order, must cover [0, size) without gap or overlap.
Status CheckCover(const std::vector<Entry>& entries, uint64_t size) {
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      return Bad("tensor \"" + entry.name.substr(0, 256) + "\" begins at byte " +
                 std::to_string(entry.begin) + ", but the one before ends at " +
                 std::to_string(at));
    }
    at = entry.end;
  }
  if (at == size) return Ok();
  return Bad("the tensors need " + std::to_string(at) + " bytes, but " + std::to_string(size) +
             " follow the header; the file is truncated or damaged");
}

Result<std::vector<Entry>> ParseHeader(std::string_view text, Metadata* metadata) {
  std::string duplicate;
  const std::optional<Json> json = ParseWithoutDuplicates(text, &duplicate);
  if (!json) return Bad("the header is not a JSON object");
  if (!duplicate.empty()) {
    return Bad("the header has the key \"" + duplicate.substr(0, 256) + "\" twice");
  }
  std::vector<Entry> entries;
  for (const auto& [name, value] : json->items()) {
    if (name == kMetadata) {
      TERN_RETURN_IF_ERROR(ParseMetadata(value, metadata));
      continue;
    }
    Result<Entry> entry = ParseEntry(name, value);
    if (!entry.ok()) return entry.status();
    entries.push_back(std::move(*entry));
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  return entries;
}

// Text that is not UTF-8 is replaced: JSON cannot carry it.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// In the order given, which is that of the bytes; a Json object would sort by name.
std::string HeaderText(const std::vector<TensorView>& tensors, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += Dump(kMetadata) + ":" + Dump(metadata);
  uint64_t at = 0;
  for (const TensorView& tensor : tensors) {
    const uint64_t end = at + tensor.values.size_bytes();
    if (text.size() > 1) text += ",";
    text += Dump(tensor.name) + ":{\"dtype\":\"F32\",\"shape\":" + Dump(tensor.shape) +
            ",\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::string EncodeSafetensors(const std::vector<TensorView>& tensors, const Metadata& metadata) {
  const std::string text = HeaderText(tensors, metadata);
  const uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  uint64_t size = kLengthBytes + length;
  for (const TensorView& tensor : tensors) size += tensor.values.size_bytes();
  bytes.reserve(size);
  bytes += text;
  for (const TensorView& tensor : tensors) {
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()), tensor.values.size_bytes());
  }
  return bytes;
}

Result<TensorFile> DecodeSafetensors(std::string_view bytes) {
  if (bytes.size() < kLengthBytes) {
    return Bad("it has " + std::to_string(bytes.size()) +
               " bytes; a safetensors file begins with 8 bytes of header length");
  }
  const uint64_t length = ReadLength(bytes);
  if (length > kMaxHeader) {
    return Bad("the header claims " + std::to_string(length) + " bytes; at most " +
               std::to_string(kMaxHeader) + " are read, so this is no safetensors file of ours");
  }
  if (length > bytes.size() - kLengthBytes) {
    return Bad("the header claims " + std::to_string(length) + " bytes, but only " +
               std::to_string(bytes.size() - kLengthBytes) + " follow; the file is truncated");
  }
  TensorFile file;
  Result<std::vector<Entry>> entries =
      ParseHeader(bytes.substr(kLengthBytes, length), &file.metadata);
  if (!entries.ok()) return entries.status();
  const std::string_view data = bytes.substr(kLengthBytes + length);
  TERN_RETURN_IF_ERROR(CheckCover(*entries, data.size()));
  for (Entry& entry : *entries) {
    Tensor tensor{std::move(entry.name), std::move(entry.shape), {}};
    tensor.values.resize((entry.end - entry.begin) / sizeof(float));
    if (!tensor.values.empty()) {
      std::memcpy(tensor.values.data(), data.data() + entry.begin, entry.end - entry.begin);
    }
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

}  // namespace tern::tensors
