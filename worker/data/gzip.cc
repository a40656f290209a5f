#include "worker/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace tern::data {
namespace {

// zlib's windowBits: a window of 2^15 bytes; adding 16 selects the gzip format.
constexpr int kGzipWindowBits = 15 + 16;
constexpr size_t kOutputPieceBytes = size_t{1} << 18;  // The most bytes that one inflate() writes.
// The most bytes given to zlib at once, because zlib counts its input in 32 bits.
constexpr size_t kMaxInputBytes = size_t{1} << 30;

struct StreamCloser {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

Status BadDataError(const std::string& name, const std::string& what) {
  return Status(Code::kBadData, name + ": " + what);
}

// Returns the error for `zlib_result`, which zlib returned for compressed data of `input_size`
// bytes.
Status InflateError(const z_stream& stream, int zlib_result, const std::string& name,
                    size_t input_size) {
  if (zlib_result == Z_BUF_ERROR || zlib_result == Z_OK) {
    return BadDataError(name, "truncated gzip: the file ends after " + std::to_string(input_size) +
                                  " bytes in the middle of the packed data; get it again");
  }
  const std::string message = stream.msg ? stream.msg : "code " + std::to_string(zlib_result);
  if (message == "incorrect data check") {
    return BadDataError(
        name, "the gzip checksum (CRC-32) does not match the unpacked data; get it again");
  }
  return BadDataError(name, "damaged gzip (" + message + "); get it again");
}

// Decompresses up to `max_bytes` bytes. If there are more, returns those, or an error with the text
// `limit` if `limit` is not empty.
Result<std::string> Unpack(std::string_view bytes, const std::string& name, uint64_t max_bytes,
                           const std::string& limit) {
  if (!IsGzip(bytes)) return BadDataError(name, "not gzip: it does not begin with 1f 8b");
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipWindowBits) != Z_OK) {
    return Status(Code::kInternal, name + ": zlib does not start");
  }
  const std::unique_ptr<z_stream, StreamCloser> closer(&stream);

  std::string output;
  std::vector<char> output_piece(kOutputPieceBytes);
  size_t next_input = 0;  // The index of the first byte that has not been given to zlib.
  for (;;) {
    if (stream.avail_in == 0) {
      const size_t input_size = std::min(bytes.size() - next_input, kMaxInputBytes);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + next_input));
      stream.avail_in = static_cast<uInt>(input_size);
      next_input += input_size;
    }
    stream.next_out = reinterpret_cast<Bytef*>(output_piece.data());
    stream.avail_out = static_cast<uInt>(output_piece.size());
    const int zlib_result = inflate(&stream, Z_NO_FLUSH);
    const size_t num_output = output_piece.size() - stream.avail_out;
    const uint64_t num_allowed = max_bytes - output.size();
    if (num_output > num_allowed && !limit.empty()) {
      return BadDataError(name,
                          "unpacks to more than " + std::to_string(max_bytes) + " bytes, " + limit);
    }
    output.append(output_piece.data(), std::min<uint64_t>(num_output, num_allowed));
    if (limit.empty() && output.size() == max_bytes) return output;
    if (zlib_result == Z_STREAM_END) {
      const std::string_view rest_bytes = bytes.substr(next_input - stream.avail_in);
      if (rest_bytes.empty()) return output;
      if (!IsGzip(rest_bytes)) {
        return BadDataError(
            name, std::to_string(rest_bytes.size()) +
                      " bytes follow the end of the gzip data; expected none; get it again");
      }
      inflateReset(&stream);  // Another gzip member follows.
    } else if (zlib_result != Z_OK ||
               (num_output == 0 && stream.avail_in == 0 && next_input == bytes.size())) {
      return InflateError(stream, zlib_result, name, bytes.size());
    }
  }
}

}  // namespace

bool IsGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

Result<std::string> Gunzip(std::string_view bytes, const std::string& name, uint64_t max_bytes,
                           const std::string& limit) {
  return Unpack(bytes, name, max_bytes, limit);
}

Result<std::string> GunzipBegin(std::string_view bytes, const std::string& name,
                                uint64_t num_bytes) {
  return Unpack(bytes, name, num_bytes, "");
}

}  // namespace tern::data
