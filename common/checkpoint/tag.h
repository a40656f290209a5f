// Tags of manifests (proto/checkpoint.proto), by which a daemon knows that a checkpoint was written
// with the job's secret.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "proto/checkpoint.pb.h"

namespace tern::checkpoint {

// Computes a tag from the bytes of a manifest and of a state. Only who has the secret can do so.
// Null if the job has no secret.
using TagFunction = std::function<std::string(std::string_view manifest, std::string_view state)>;

// Sets the manifest's tag, or removes it if `tag_of` is null. The tag covers all other fields
// except the checksum.
void SetTag(const TagFunction& tag_of, std::string_view state, pb::Manifest* manifest);

// kBadData if the manifest does not have the tag that SetTag would set. Ok if `tag_of` is null.
Status CheckTag(const TagFunction& tag_of, const pb::Manifest& manifest, std::string_view state);

}  // namespace tern::checkpoint
