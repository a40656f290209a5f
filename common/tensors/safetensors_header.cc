#include "common/tensors/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "common/base/text.h"
#include "common/tensors/dtypes.h"

namespace tern::tensors {
namespace {

using Json = nlohmann::json;
using Metadata = std::map<std::string, std::string>;

constexpr char kMetadataKey[] = "__metadata__";
// More than the checkpoint of any network has: 10,000 layers with 12 tensors each (4 tensors of a
// batch norm; two optimizer states and a moving average of its parameters).
constexpr size_t kMaxTensors = 131072;
constexpr size_t kMaxMetadata = 65536;
constexpr size_t kMaxKeysOfTensor = 16;
constexpr size_t kMaxDims = 8;

// The size in bytes of a tensor of that shape; nullopt if the size exceeds 63 bits.
std::optional<uint64_t> TensorBytes(const std::vector<uint64_t>& shape, size_t value_bytes) {
  unsigned __int128 bytes = value_bytes;
  bool is_empty = false;
  for (uint64_t dim : shape) {
    is_empty = is_empty || dim == 0;
    if (dim != 0) bytes *= dim;
    if (bytes >> 63 != 0) return std::nullopt;
  }
  return is_empty ? 0 : static_cast<uint64_t>(bytes);
}

// Receives the header from nlohmann's parser, event by event. An event returns false to stop the
// parser; error() then has the reason.
class HeaderHandler : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderHandler(Metadata* metadata) : metadata_(metadata) {}

  bool key(string_t& key) override;
  bool start_object(size_t) override;
  bool start_array(size_t) override;
  bool end_object() override;
  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }
  bool string(string_t& value) override;
  bool number_unsigned(number_unsigned_t value) override;
  bool null() override { return OnOtherValue(); }
  bool boolean(bool) override { return OnOtherValue(); }
  bool number_integer(number_integer_t) override { return OnOtherValue(); }
  bool number_float(number_float_t, const string_t&) override { return OnOtherValue(); }
  bool binary(binary_t&) override { return OnOtherValue(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return Refuse("the header is not a JSON object");
  }

  const Status& error() const { return error_; }
  std::vector<HeaderEntry> TakeEntries() { return std::move(entries_); }

 private:
  // What encloses the next value. kExtra is the value of a key of a tensor that is not read.
  enum class Place { kStart, kHeader, kMetadata, kTensor, kShape, kOffsets, kExtra };
  // The values of the current tensor's keys, as far as they were read.
  struct Fields {
    std::set<std::string> keys;
    std::optional<std::string> dtype;
    std::optional<std::vector<uint64_t>> shape, offsets;
  };

  bool Refuse(const std::string& message) {
    error_ = Status(Code::kBadData, message);
    return false;
  }
  bool RefuseDuplicate(const std::string& key) {
    return Refuse(Cat("the header has the key \"", Printable(key, 256), "\" twice"));
  }
  bool RefuseTensor(const std::string& fault) { return Refuse(TensorText(name_) + fault); }
  // Refuses a value that has the wrong type for its place.
  bool RefuseValue();
  // Takes a value that is neither a string nor a whole number from 0 on.
  bool OnOtherValue() { return IsIgnored() || RefuseValue(); }
  // Whether the next value belongs to a key of a tensor that is not read.
  bool IsIgnored() const {
    return place_ == Place::kExtra || (place_ == Place::kTensor && key_ != "dtype" &&
                                       key_ != "shape" && key_ != "data_offsets");
  }
  bool FinishTensor();

  Metadata* const metadata_;
  Place place_ = Place::kStart;
  std::set<std::string> names_;  // the keys of the header
  std::string name_;             // the newest key of the header
  std::string key_;              // the newest key of the tensor or of the metadata
  Fields fields_;
  std::vector<HeaderEntry> entries_;
  Status error_;
};

bool HeaderHandler::key(string_t& key) {
  if (place_ == Place::kHeader) {
    name_ = key;
    return names_.insert(key).second || RefuseDuplicate(key);
  }
  key_ = key;
  if (place_ == Place::kMetadata) {
    if (metadata_->contains(key)) return RefuseDuplicate(key);
    return metadata_->size() < kMaxMetadata ||
           Refuse(Cat("__metadata__ has more than ", kMaxMetadata, " entries, the most allowed"));
  }
  if (place_ != Place::kTensor) return true;
  if (!fields_.keys.insert(key).second) return RefuseDuplicate(key);
  return fields_.keys.size() <= kMaxKeysOfTensor ||
         RefuseTensor(Cat(" has more than ", kMaxKeysOfTensor, " keys, the most allowed"));
}

bool HeaderHandler::start_object(size_t) {
  if (place_ == Place::kStart) {
    place_ = Place::kHeader;
  } else if (place_ == Place::kHeader) {
    place_ = name_ == kMetadataKey ? Place::kMetadata : Place::kTensor;
    fields_ = Fields();
  } else if (place_ == Place::kTensor && IsIgnored()) {
    place_ = Place::kExtra;
  } else {
    return RefuseValue();
  }
  return true;
}

bool HeaderHandler::start_array(size_t) {
  if (place_ != Place::kTensor) return RefuseValue();
  if (key_ == "shape") {
    fields_.shape.emplace();
    place_ = Place::kShape;
  } else if (key_ == "data_offsets") {
    fields_.offsets.emplace();
    place_ = Place::kOffsets;
  } else if (IsIgnored()) {
    place_ = Place::kExtra;
  } else {
    return RefuseValue();
  }
  return true;
}

bool HeaderHandler::end_object() {
  if (place_ == Place::kExtra) {
    place_ = Place::kTensor;
    return true;
  }
  const bool is_tensor = place_ == Place::kTensor;
  place_ = Place::kHeader;
  return !is_tensor || FinishTensor();
}

bool HeaderHandler::string(string_t& value) {
  if (place_ == Place::kMetadata) {
    (*metadata_)[key_] = value;
  } else if (place_ == Place::kTensor && key_ == "dtype") {
    fields_.dtype = value;
  } else {
    return OnOtherValue();
  }
  return true;
}

bool HeaderHandler::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::kShape && fields_.shape->size() < kMaxDims) {
    fields_.shape->push_back(value);
  } else if (place_ == Place::kOffsets && fields_.offsets->size() < 2) {
    fields_.offsets->push_back(value);
  } else {
    return OnOtherValue();
  }
  return true;
}

bool HeaderHandler::RefuseValue() {
  switch (place_) {
    case Place::kStart:
      return Refuse("the header is not a JSON object");
    case Place::kHeader:
      if (name_ == kMetadataKey) return Refuse("__metadata__ must be a JSON object of strings");
      return RefuseTensor(" is not described by a JSON object");
    case Place::kMetadata:
      return Refuse("__metadata__ must hold strings only");
    case Place::kExtra:
      return RefuseTensor(": the header nests more than three deep");
    default:
      break;
  }
  if (place_ == Place::kTensor && key_ == "dtype") return RefuseTensor(" has no dtype");
  if (place_ == Place::kShape || (place_ == Place::kTensor && key_ == "shape"))
    return RefuseTensor(": shape must be a list of at most 8 whole numbers");
  return RefuseTensor(": data_offsets must be two whole numbers, begin and end");
}

bool HeaderHandler::FinishTensor() {
  if (!fields_.dtype) return RefuseTensor(" has no dtype");
  if (!fields_.shape) return RefuseTensor(": shape must be a list of at most 8 whole numbers");
  const bool has_offsets = fields_.offsets && fields_.offsets->size() == 2 &&
                           (*fields_.offsets)[0] <= (*fields_.offsets)[1];
  if (!has_offsets) return RefuseTensor(": data_offsets must be two whole numbers, begin and end");
  const uint64_t begin = (*fields_.offsets)[0], end = (*fields_.offsets)[1];
  const size_t value_bytes = FloatBytes(*fields_.dtype);
  const std::optional<uint64_t> bytes = TensorBytes(*fields_.shape, value_bytes);
  if (value_bytes != 0 && (!bytes || *bytes != end - begin)) {
    return RefuseTensor(Cat(": data_offsets span ", end - begin, " bytes, its shape needs ",
                            bytes ? std::to_string(*bytes) : "more than 2^63"));
  }
  entries_.push_back({name_, std::move(*fields_.dtype), std::move(*fields_.shape), begin, end});
  return entries_.size() <= kMaxTensors ||
         Refuse(Cat("the header has more than ", kMaxTensors, " tensors, the most allowed"));
}

}  // namespace

std::string TensorText(const std::string& name) {
  return Cat("tensor \"", Printable(name, 256), "\"");
}

Result<std::vector<HeaderEntry>> ParseHeader(std::string_view text, Metadata* metadata) {
  HeaderHandler handler(metadata);
  if (!Json::sax_parse(text, &handler)) return handler.error();
  return handler.TakeEntries();
}

}  // namespace tern::tensors
