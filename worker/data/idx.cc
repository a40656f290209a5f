#include "worker/data/idx.h"

#include <cstdio>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "worker/data/files.h"
#include "worker/data/gzip.h"

namespace tern::data {
namespace {

constexpr uint64_t kMaxIdxBytes = uint64_t{4} << 30;
constexpr uint8_t kUnsignedByte = 0x08;
constexpr size_t kMagicBytes = 4;  // The bytes 0, 0, type of a value, number of dimensions.
constexpr size_t kMaxDims = 4;

Status BadDataError(const std::string& name, const std::string& what) {
  return Status(Code::kBadData, name + ": " + what);
}

// Reads a big-endian 32-bit number.
uint32_t ReadWord(const std::string& bytes, size_t offset) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return word;
}

std::string HexWord(uint32_t word) {
  char hex_text[11];
  std::snprintf(hex_text, sizeof hex_text, "0x%08x", word);
  return hex_text;
}

std::string ShapeText(std::span<const uint32_t> dims) {
  std::string shape;
  for (const uint32_t dim : dims) shape += (shape.empty() ? "" : " x ") + std::to_string(dim);
  return shape;
}

const char* TypeName(uint8_t type) {
  switch (type) {
    case kUnsignedByte:
      return "unsigned byte";
    case 0x09:
      return "signed byte";
    case 0x0b:
      return "16-bit integer";
    case 0x0c:
      return "32-bit integer";
    case 0x0d:
      return "float";
    case 0x0e:
      return "double";
    default:
      return nullptr;
  }
}

// Checks the first four bytes (the magic number), and returns the number of dimensions.
Result<size_t> ParseMagic(const std::string& bytes, const std::string& name) {
  if (bytes.size() < kMagicBytes) {
    return BadDataError(name, "truncated: " + std::to_string(bytes.size()) +
                                  " bytes, shorter than any IDX header; get it again");
  }
  const uint32_t magic = ReadWord(bytes, 0);
  const uint8_t type_code = magic >> 8 & 0xff;
  const size_t num_dims = magic & 0xff;
  if (magic >> 16 != 0 || TypeName(type_code) == nullptr) {
    return BadDataError(name, "not an IDX file: it begins with " + HexWord(magic) +
                                  ", expected 0x00000803 (images) or 0x00000801 (labels)");
  }
  if (type_code != kUnsignedByte) {
    return BadDataError(name, "an IDX file of type " + std::string(TypeName(type_code)) +
                                  " (it begins with " + HexWord(magic) +
                                  "), expected unsigned bytes (0x000008..)");
  }
  if (num_dims < 1 || num_dims > kMaxDims) {
    return BadDataError(name, "an IDX file of " + std::to_string(num_dims) +
                                  " dimensions (it begins with " + HexWord(magic) +
                                  "), expected 1 to 4");
  }
  return num_dims;
}

// Returns the product of the dimensions, or kMaxIdxBytes + 1 if it is larger than kMaxIdxBytes.
uint64_t CountValues(std::span<const uint32_t> dims) {
  uint64_t num_values = 1;
  for (const uint32_t dim : dims) {
    if (num_values > kMaxIdxBytes / dim) return kMaxIdxBytes + 1;
    num_values *= dim;
  }
  return num_values;
}

// What the header of an IDX file promises.
struct IdxHeader {
  std::vector<uint32_t> dims;
  uint64_t header_bytes = 0, num_values = 0;
};

// Parses the header at the begin of `bytes`.
Result<IdxHeader> ParseHeader(const std::string& bytes, const std::string& name) {
  const Result<size_t> num_dims = ParseMagic(bytes, name);
  if (!num_dims.ok()) return num_dims.status();
  IdxHeader header;
  header.header_bytes = kMagicBytes + 4 * *num_dims;
  if (bytes.size() < header.header_bytes) {
    return BadDataError(name, "truncated: " + std::to_string(bytes.size()) +
                                  " bytes, but the header of " + std::to_string(*num_dims) +
                                  " dimensions alone takes " + std::to_string(header.header_bytes) +
                                  "; get it again");
  }
  for (size_t d = 0; d < *num_dims; ++d)
    header.dims.push_back(ReadWord(bytes, kMagicBytes + 4 * d));
  const std::string shape = ShapeText(header.dims);
  for (const uint32_t dim : header.dims) {
    if (dim == 0)
      return BadDataError(name, "a dimension of zero (" + shape + "): there is nothing in it");
  }
  header.num_values = CountValues(header.dims);
  if (header.num_values > kMaxIdxBytes) {
    return BadDataError(name,
                        "the header promises " + shape + " values, more than the 4 GiB allowed");
  }
  return header;
}

// Decompresses an IDX file, but no more bytes than its header promises.
Result<std::string> UnpackIdx(const std::string& bytes, const std::string& name) {
  const Result<std::string> begin = GunzipBegin(bytes, name, kMagicBytes + 4 * kMaxDims);
  if (!begin.ok()) return begin;
  const Result<IdxHeader> header = ParseHeader(*begin, name);
  if (!header.ok()) return header.status();
  return Gunzip(bytes, name, header->header_bytes + header->num_values,
                "which its header promises (" + ShapeText(header->dims) +
                    " values after the header); get it again");
}

}  // namespace

Result<IdxArray> ParseIdx(const std::string& bytes, const std::string& name) {
  Result<IdxHeader> header = ParseHeader(bytes, name);
  if (!header.ok()) return header.status();
  const uint64_t num_following = bytes.size() - header->header_bytes;
  const std::string explanation = "the header promises " + ShapeText(header->dims) + " = " +
                                  std::to_string(header->num_values) + " values, " +
                                  std::to_string(num_following) + " follow; get it again";
  if (num_following < header->num_values) return BadDataError(name, "truncated: " + explanation);
  if (num_following > header->num_values)
    return BadDataError(name, "bytes after the end: " + explanation);
  IdxArray array;
  array.dims = std::move(header->dims);
  array.values.assign(bytes.begin() + static_cast<std::ptrdiff_t>(header->header_bytes),
                      bytes.end());
  return array;
}

Result<IdxArray> ReadIdx(const std::string& path) {
  const std::string packed_path = path + ".gz";
  std::error_code error;
  const bool is_plain = std::filesystem::exists(path, error);
  if (!is_plain && !std::filesystem::exists(packed_path, error)) {
    return Status(Code::kBadData, "found neither " + path + " nor " + packed_path +
                                      "; check data.dir and its permissions");
  }
  const std::string& existing_path = is_plain ? path : packed_path;
  std::string bytes;
  TERN_RETURN_IF_ERROR(
      ReadWholeFile(existing_path, "an IDX file, plain or gzip", kMaxIdxBytes, &bytes));
  // The first bytes, not the suffix, tell whether the file is compressed: an uncompressed IDX file
  // with the suffix .gz is accepted, too.
  if (IsGzip(bytes)) {
    Result<std::string> unpacked = UnpackIdx(bytes, existing_path);
    if (!unpacked.ok()) return unpacked.status();
    bytes = std::move(*unpacked);
  } else if (!is_plain && !bytes.starts_with('\0')) {
    return BadDataError(existing_path, "not gzip: it does not begin with 1f 8b; get it again");
  }
  return ParseIdx(bytes, existing_path);
}

}  // namespace tern::data
