#include "worker/data/dataset.h"

#include <algorithm>
#include <utility>

#include "common/base/text.h"
#include "worker/data/encoded.h"

namespace tern::data {

Status Dataset::Decode(uint64_t i, Image* image) const {
  const Size known_size = SizeOf(i);
  if (!is_encoded) {
    image->Resize(channels, known_size.height, known_size.width);
    return Read(i, &image->pixels);
  }
  std::vector<uint8_t> bytes;
  TERN_RETURN_IF_ERROR(Read(i, &bytes));
  TERN_RETURN_IF_ERROR(DecodeImage(bytes, channels, image).Within(NameOf(i)));
  if (image->height == known_size.height && image->width == known_size.width) return Ok();
  return Status(Code::kBadData, Cat(NameOf(i), ": is ", image->width, " x ", image->height,
                                    " pixels now, but was ", known_size.width, " x ",
                                    known_size.height, " when the set was read; leave it alone"));
}

void Dataset::SetCommonSize() {
  const bool all_equal = std::all_of(sizes.begin(), sizes.end(),
                                     [this](const Size& size) { return size == sizes.front(); });
  height = all_equal && !sizes.empty() ? sizes.front().height : 0;
  width = all_equal && !sizes.empty() ? sizes.front().width : 0;
}

std::string MemoryDataset::NameOf(uint64_t i) const { return Cat("image ", i, " of ", file); }

Status MemoryDataset::Read(uint64_t i, std::vector<uint8_t>* bytes) const {
  const uint8_t* image_begin = pixels.data() + i * image_size();
  bytes->assign(image_begin, image_begin + image_size());
  return Ok();
}

}  // namespace tern::data
