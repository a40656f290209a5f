#include "common/checkpoint/tag.h"

#include "common/base/text.h"

namespace tern::checkpoint {
namespace {

std::string TaggedBytes(pb::Manifest manifest) {
  manifest.clear_checksum();
  manifest.clear_tag();
  return manifest.SerializeAsString();
}

}  // namespace

void SetTag(const TagFunction& tag_of, std::string_view state, pb::Manifest* manifest) {
  manifest->clear_tag();
  if (tag_of) manifest->set_tag(tag_of(TaggedBytes(*manifest), state));
}

Status CheckTag(const TagFunction& tag_of, const pb::Manifest& manifest, std::string_view state) {
  if (!tag_of || manifest.tag() == tag_of(TaggedBytes(manifest), state)) return Ok();
  return Status(Code::kBadData,
                Cat(manifest.tag().empty() ? "it has no tag" : "its tag is not that of its bytes",
                    ", expected the tag that the job's secret (keys.checkpoint) gives: somebody "
                    "without this secret wrote or changed it"));
}

}  // namespace tern::checkpoint
