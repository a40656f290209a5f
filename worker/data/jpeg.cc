#include "worker/data/jpeg.h"

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/text.h"

namespace tern::data {
namespace {

// Upper bound of the pixels that one byte of data can code; a header that claims more is invalid.
constexpr uint64_t kMaxPixelsPerByte = 4096;

struct ErrorState {
  jpeg_error_mgr manager;  // must be first: libjpeg passes its address back
  jmp_buf out;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void JumpOut(j_common_ptr info) {
  auto* errors = reinterpret_cast<ErrorState*>(info->err);
  (*info->err->format_message)(info, errors->text);
  longjmp(errors->out, 1);
}

// Treats most warnings as errors: libjpeg would fill damaged areas with gray.
void OnWarning(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  const bool harmless =
      code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
  if (level < 0 && !harmless) JumpOut(info);
}

void CountScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxJpegScans) return;
  auto* errors = reinterpret_cast<ErrorState*>(info->err);
  std::snprintf(errors->text, sizeof errors->text, "more than %d scans", kMaxJpegScans);
  longjmp(errors->out, 1);
}

// libjpeg reports errors by longjmp to the method that called it, so these methods have no locals
// with destructors.
class Decompressor {
 public:
  Decompressor() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = &JumpOut;
    errors_.manager.emit_message = &OnWarning;
    progress_.progress_monitor = &CountScans;
  }
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  bool Begin(std::span<const uint8_t> bytes) {
    if (setjmp(errors_.out) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, bytes.data(), bytes.size());
    jpeg_read_header(&info_, TRUE);
    info_.dct_method = JDCT_ISLOW;
    if (info_.jpeg_color_space == JCS_GRAYSCALE) {
      info_.out_color_space = JCS_GRAYSCALE;
    } else if (info_.num_components == 4) {
      info_.out_color_space = JCS_CMYK;
    } else {
      info_.out_color_space = JCS_RGB;
    }
    return true;
  }

  bool Finish(uint8_t* row, Image* image) {
    if (setjmp(errors_.out) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW rows[1] = {row};
      const uint32_t y = info_.output_scanline;
      jpeg_read_scanlines(&info_, rows, 1);
      Split(row, y, image);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  uint32_t height() const { return info_.image_height; }
  uint32_t width() const { return info_.image_width; }
  bool gray() const { return info_.out_color_space == JCS_GRAYSCALE; }
  std::string text() const { return errors_.text; }

 private:
  void Split(const uint8_t* row, uint32_t y, Image* image) const {
    const uint32_t width = image->width;
    const uint64_t plane = image->plane();
    uint8_t* out = image->pixels.data() + uint64_t{y} * width;
    if (info_.out_color_space == JCS_GRAYSCALE) {
      for (uint32_t x = 0; x < width; ++x) out[x] = row[x];
    } else if (info_.out_color_space == JCS_RGB) {
      for (uint32_t x = 0; x < width; ++x) {
        out[x] = row[3 * x];
        out[plane + x] = row[3 * x + 1];
        out[2 * plane + x] = row[3 * x + 2];
      }
    } else {  // Adobe stores inverted inks
      const uint32_t flip = info_.saw_Adobe_marker ? 0 : 255;
      for (uint32_t x = 0; x < width; ++x) {
        const uint32_t black = row[4 * x + 3] ^ flip;
        for (uint32_t c = 0; c < 3; ++c)
          out[c * plane + x] = static_cast<uint8_t>(((row[4 * x + c] ^ flip) * black + 127) / 255);
      }
    }
  }

  ErrorState errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
};

Status BadDataError(const std::string& what) {
  return Status(Code::kBadData, "damaged JPEG: " + what);
}

}  // namespace

Status DecodeJpeg(std::span<const uint8_t> bytes, Image* image) {
  Decompressor decompressor;
  if (!decompressor.Begin(bytes)) return BadDataError(decompressor.text());
  const uint32_t height = decompressor.height(), width = decompressor.width();
  const uint64_t pixels = uint64_t{height} * width;
  if (pixels > kMaxPixels || pixels / kMaxPixelsPerByte > bytes.size()) {
    return BadDataError(
        Cat("its header promises ", width, " x ", height, " pixels in ", bytes.size(), " bytes"));
  }
  image->Resize(decompressor.gray() ? 1 : 3, height, width);
  std::vector<uint8_t> row(size_t{4} * width);
  if (!decompressor.Finish(row.data(), image)) return BadDataError(decompressor.text());
  return Ok();
}

}  // namespace tern::data
