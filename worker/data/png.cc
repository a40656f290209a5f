#include "worker/data/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "common/base/text.h"

namespace tern::data {
namespace {

// Deflate, PNG's compression, expands one byte to at most 1032 bytes. A header that claims more is
// invalid.
constexpr uint64_t kMaxExpansionFactor = 1032;
constexpr uint32_t kMaxSide = 1u << 26;
constexpr size_t kMaxChunkBytes = size_t{8} << 20;  // The most bytes of a PNG chunk without pixels.
constexpr uint32_t kMaxCachedChunks = 64;           // How many such chunks libpng keeps in memory.

// The chunks that are skipped without being unpacked, because no pixel depends on them. Their names
// have 4 letters and a zero byte each. A small chunk can unpack to kMaxChunkBytes, and an image can
// have any number of some of them.
constexpr png_byte kSkippedChunks[] = "iCCP\0zTXt\0iTXt\0tEXt\0eXIf\0sPLT\0hIST\0pCAL\0sCAL\0tIME";
constexpr int kNumSkippedChunks = sizeof kSkippedChunks / 5;

// The state of libpng's callbacks: where to jump on an error, the message, and the unread input.
struct ReadState {
  jmp_buf exit_point;
  char text[128];
  const uint8_t* next_byte;  // The first unread byte.
  size_t num_left;           // How many bytes are unread.
};

// libpng calls this on an error. Saves the message, and jumps back to the method of Decompressor
// that called libpng.
[[noreturn]] void JumpOut(png_structp png, png_const_charp text) {
  auto* read_state = static_cast<ReadState*>(png_get_error_ptr(png));
  std::snprintf(read_state->text, sizeof read_state->text, "%s", text);
  longjmp(read_state->exit_point, 1);
}

void IgnoreWarning(png_structp, png_const_charp) {}

void ReadInput(png_structp png, png_bytep buffer, png_size_t size) {
  auto* read_state = static_cast<ReadState*>(png_get_io_ptr(png));
  if (size > read_state->num_left) JumpOut(png, "truncated");
  std::memcpy(buffer, read_state->next_byte, size);
  read_state->next_byte += size;
  read_state->num_left -= size;
}

// Decodes one image. libpng reports errors by longjmp to the method that called libpng, so the
// methods have no local variables with destructors.
class Decompressor {
 public:
  explicit Decompressor(std::span<const uint8_t> bytes) {
    read_state_.next_byte = bytes.data();
    read_state_.num_left = bytes.size();
  }
  ~Decompressor() { png_destroy_read_struct(&png_, &info_, nullptr); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Reads the header, and asks for samples of 8 bits without alpha. Returns false on an error, like
  // ComputeLayout and DecodeRows.
  bool ReadHeader() {
    if (setjmp(read_state_.exit_point) != 0) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &read_state_, &JumpOut, &IgnoreWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    png_set_read_fn(png_, &read_state_, &ReadInput);
    png_set_user_limits(png_, kMaxSide, kMaxSide);
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    png_set_chunk_cache_max(png_, kMaxCachedChunks);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kSkippedChunks, kNumSkippedChunks);
    png_read_info(png_, info_);
    bytes_promised_ = uint64_t{png_get_rowbytes(png_, info_)} * height();
    png_set_expand(png_);  // Expands palettes, samples below 8 bits, and transparent colors.
    png_set_scale_16(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    return true;
  }
  // Computes the layout of the output's rows. Call this only after a check of the image's size.
  bool ComputeLayout() {
    if (setjmp(read_state_.exit_point) != 0) return false;
    png_read_update_info(png_, info_);
    return true;
  }
  // Decodes the image to `rows`, one pointer per row of row_bytes() bytes.
  bool DecodeRows(png_bytep* rows) {
    if (setjmp(read_state_.exit_point) != 0) return false;
    png_read_image(png_, rows);
    png_read_end(png_, nullptr);
    return true;
  }

  uint32_t height() const { return png_get_image_height(png_, info_); }
  uint32_t width() const { return png_get_image_width(png_, info_); }
  uint32_t channels() const { return png_get_channels(png_, info_); }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  // The size of the decompressed image data according to the header.
  uint64_t bytes_promised() const { return bytes_promised_; }
  std::string error_text() const { return read_state_.text; }

 private:
  ReadState read_state_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  uint64_t bytes_promised_ = 0;
};

Status BadDataError(const std::string& what) {
  return Status(Code::kBadData, "damaged PNG: " + what);
}

}  // namespace

Status DecodePng(std::span<const uint8_t> bytes, Image* image) {
  Decompressor decompressor(bytes);
  if (!decompressor.ReadHeader()) return BadDataError(decompressor.error_text());
  const uint32_t height = decompressor.height(), width = decompressor.width();
  if (uint64_t{height} * width > kMaxPixels ||
      decompressor.bytes_promised() / kMaxExpansionFactor > bytes.size()) {
    return BadDataError(
        Cat("its header promises ", width, " x ", height, " pixels in ", bytes.size(), " bytes"));
  }
  if (!decompressor.ComputeLayout()) return BadDataError(decompressor.error_text());
  const size_t row_bytes = decompressor.row_bytes();
  const uint32_t channels = decompressor.channels();
  if (channels != 1 && channels != 3)
    return BadDataError(Cat(channels, " channels; expected 1 or 3"));
  std::vector<uint8_t> interleaved(row_bytes * height);
  std::vector<png_bytep> rows(height);
  for (uint32_t y = 0; y < height; ++y) rows[y] = interleaved.data() + y * row_bytes;
  if (!decompressor.DecodeRows(rows.data())) return BadDataError(decompressor.error_text());
  image->Resize(channels, height, width);
  const uint64_t plane_size = image->plane();
  for (uint32_t y = 0; y < height; ++y) {
    uint8_t* pixels_out = image->pixels.data() + uint64_t{y} * width;
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t c = 0; c < channels; ++c)
        pixels_out[c * plane_size + x] = rows[y][channels * x + c];
    }
  }
  return Ok();
}

}  // namespace tern::data
