// The table of network builders, which make a NetDef from a job's arguments. One file per family,
// one line in models.cc.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace tern::models {

// Builds the net of a job's `model`: a builder by name, or the user's own NetDef. Every returned
// NetDef is complete (inputs, outputs and defaults filled in) and valid; otherwise kBadJob says
// which layer is wrong and why.
Result<pb::NetDef> BuildNet(const pb::Model& model, const pb::ImageShape& input, uint32_t classes);

const std::vector<std::string>& ModelNames();

// The input image and class count that a builder's net was published with; for an unknown name,
// those of the table's first builder.
struct PublishedImage {
  uint32_t channels, side, classes;
};
PublishedImage PublishedFor(const std::string& name);

}  // namespace tern::models
