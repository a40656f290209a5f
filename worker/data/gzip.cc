#include "worker/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace tern::data {
namespace {

// zlib's windowBits: a window of 2^15 bytes; adding 16 selects the gzip format.
constexpr int kGzipWindowBits = 15 + 16;
constexpr size_t kOutputPiece = size_t{1} << 18;  // The most bytes that one call decompresses.
// The most bytes given to zlib at once, because it counts its input in 32 bits.
constexpr size_t kMaxInput = size_t{1} << 30;

struct StreamCloser {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

Status BadDataError(const std::string& name, const std::string& what) {
  return Status(Code::kBadData, name + ": " + what);
}

// Returns the error for zlib's result `code`, of compressed data of `size` bytes.
Status ErrorOf(const z_stream& stream, int code, const std::string& name, size_t size) {
  if (code == Z_BUF_ERROR || code == Z_OK) {
    return BadDataError(name, "truncated gzip: the file ends after " + std::to_string(size) +
                                  " bytes in the middle of the packed data; get it again");
  }
  const std::string message = stream.msg ? stream.msg : "code " + std::to_string(code);
  if (message == "incorrect data check") {
    return BadDataError(
        name, "the gzip checksum (CRC-32) does not match the unpacked data; get it again");
  }
  return BadDataError(name, "damaged gzip (" + message + "); get it again");
}

}  // namespace

bool IsGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

Result<std::string> Gunzip(std::string_view bytes, const std::string& name, uint64_t cap) {
  if (!IsGzip(bytes)) return BadDataError(name, "not gzip: it does not begin with 1f 8b");
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipWindowBits) != Z_OK) {
    return Status(Code::kInternal, name + ": zlib does not start");
  }
  const std::unique_ptr<z_stream, StreamCloser> closer(&stream);

  std::string out;
  std::vector<char> piece(kOutputPiece);
  size_t next = 0;  // The first byte of `bytes` that has not been given to zlib.
  for (;;) {
    if (stream.avail_in == 0) {
      const size_t input_size = std::min(bytes.size() - next, kMaxInput);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data() + next));
      stream.avail_in = static_cast<uInt>(input_size);
      next += input_size;
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    const size_t num_output = piece.size() - stream.avail_out;
    if (num_output > cap - out.size()) {
      return BadDataError(
          name, "unpacks to more than " + std::to_string(cap) + " bytes, the most allowed");
    }
    out.append(piece.data(), num_output);
    if (code == Z_STREAM_END) {
      const std::string_view rest = bytes.substr(next - stream.avail_in);
      if (rest.empty()) return out;
      if (!IsGzip(rest)) {
        return BadDataError(
            name, std::to_string(rest.size()) +
                      " bytes follow the end of the gzip data; expected none; get it again");
      }
      inflateReset(&stream);  // Another gzip member follows.
    } else if (code != Z_OK || (num_output == 0 && stream.avail_in == 0 && next == bytes.size())) {
      return ErrorOf(stream, code, name, bytes.size());
    }
  }
}

}  // namespace tern::data
