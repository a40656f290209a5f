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

// An upper bound of the number of pixels that one byte of data can encode. A header that claims
// more pixels is invalid.
constexpr uint64_t kMaxPixelsPerByte = 4096;

struct ErrorState {
  jpeg_error_mgr manager;  // The first member: a pointer to it is cast to ErrorState.
  jmp_buf exit_point;
  char text[JMSG_LENGTH_MAX];
};

// libjpeg calls this on an error. Saves the message, and jumps back to the method of Decompressor
// that called libjpeg.
[[noreturn]] void JumpOut(j_common_ptr info) {
  auto* errors = reinterpret_cast<ErrorState*>(info->err);
  (*info->err->format_message)(info, errors->text);
  longjmp(errors->exit_point, 1);
}

// libjpeg calls this with warnings (level < 0) and with trace messages, which are ignored. Treats
// most warnings as errors, because libjpeg would fill damaged areas of the image with gray.
void OnWarning(j_common_ptr info, int level) {
  const int message_code = info->err->msg_code;
  const bool is_harmless = message_code == JWRN_EXTRANEOUS_DATA ||
                           message_code == JWRN_ADOBE_XFORM || message_code == JWRN_JFIF_MAJOR;
  if (level < 0 && !is_harmless) JumpOut(info);
}

// libjpeg calls this while it decodes. Reports an error if the image has more than kMaxJpegScans
// scans.
void LimitScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxJpegScans) return;
  auto* errors = reinterpret_cast<ErrorState*>(info->err);
  std::snprintf(errors->text, sizeof errors->text, "more than %d scans", kMaxJpegScans);
  longjmp(errors->exit_point, 1);
}

// Decodes one image. libjpeg reports errors by longjmp to the method that called libjpeg, so the
// methods have no local variables with destructors.
class Decompressor {
 public:
  Decompressor() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = &JumpOut;
    errors_.manager.emit_message = &OnWarning;
    progress_.progress_monitor = &LimitScans;
  }
  ~Decompressor() { jpeg_destroy_decompress(&info_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Reads the header, and chooses the output's color space. Returns false on an error.
  bool ReadHeader(std::span<const uint8_t> bytes) {
    if (setjmp(errors_.exit_point) != 0) return false;
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

  // Decodes all rows to `image`. `row`: workspace of one row. Returns false on an error.
  bool DecodeRows(uint8_t* row, Image* image) {
    if (setjmp(errors_.exit_point) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW rows[1] = {row};
      const uint32_t y = info_.output_scanline;
      jpeg_read_scanlines(&info_, rows, 1);
      WriteRow(row, y, image);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  uint32_t height() const { return info_.image_height; }
  uint32_t width() const { return info_.image_width; }
  bool is_gray() const { return info_.out_color_space == JCS_GRAYSCALE; }
  std::string error_text() const { return errors_.text; }

 private:
  // Converts decoded row y to the planes of the image.
  void WriteRow(const uint8_t* row, uint32_t y, Image* image) const {
    const uint32_t width = image->width;
    const uint64_t plane_size = image->plane();
    uint8_t* pixels_out = image->pixels.data() + uint64_t{y} * width;
    if (info_.out_color_space == JCS_GRAYSCALE) {
      for (uint32_t x = 0; x < width; ++x) pixels_out[x] = row[x];
    } else if (info_.out_color_space == JCS_RGB) {
      for (uint32_t x = 0; x < width; ++x) {
        pixels_out[x] = row[3 * x];
        pixels_out[plane_size + x] = row[3 * x + 1];
        pixels_out[2 * plane_size + x] = row[3 * x + 2];
      }
    } else {  // CMYK to RGB. Adobe's files store inverted inks.
      const uint32_t ink_mask = info_.saw_Adobe_marker ? 0 : 255;
      for (uint32_t x = 0; x < width; ++x) {
        const uint32_t black = row[4 * x + 3] ^ ink_mask;
        for (uint32_t c = 0; c < 3; ++c)
          pixels_out[c * plane_size + x] =
              static_cast<uint8_t>(((row[4 * x + c] ^ ink_mask) * black + 127) / 255);
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
  if (!decompressor.ReadHeader(bytes)) return BadDataError(decompressor.error_text());
  const uint32_t height = decompressor.height(), width = decompressor.width();
  const uint64_t num_pixels = uint64_t{height} * width;
  if (num_pixels > kMaxPixels || num_pixels / kMaxPixelsPerByte > bytes.size()) {
    return BadDataError(
        Cat("its header promises ", width, " x ", height, " pixels in ", bytes.size(), " bytes"));
  }
  image->Resize(decompressor.is_gray() ? 1 : 3, height, width);
  std::vector<uint8_t> row(size_t{4} * width);
  if (!decompressor.DecodeRows(row.data(), image)) return BadDataError(decompressor.error_text());
  return Ok();
}

}  // namespace tern::data
