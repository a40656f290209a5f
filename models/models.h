// Builds the network of a job: a built-in model by name, or the net that the job defines. A new
// built-in model needs a builder (builders.h) and a line in the table of models.cc.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace tern::models {

// Builds the net of a job's section `model`, for images of shape `input` and `classes` classes.
// Every returned NetDef is complete (inputs, outputs and defaults filled in) and valid. kBadJob,
// with the layer or key and the reason, if there is no such net.
Result<pb::NetDef> BuildNet(const pb::Model& model, const pb::ImageShape& input, uint32_t classes);

const std::vector<std::string>& ModelNames();

// The input image and the number of classes for which a built-in model was published.
struct PublishedImage {
  uint32_t channels, side, classes;  // side: height and width in pixels
};
// Returns the published image of a model; for an unknown name, that of the first built-in model.
PublishedImage PublishedImageOf(const std::string& name);

}  // namespace tern::models
