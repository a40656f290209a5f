// Makes networks (proto NetDef) from text, for tests.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "models/models.h"
#include "proto/job.pb.h"

namespace tern::models {

inline pb::ImageShape MakeImageShape(uint32_t channels, uint32_t height, uint32_t width) {
  pb::ImageShape shape;
  shape.set_channels(channels);
  shape.set_height(height);
  shape.set_width(width);
  return shape;
}

// Returns a model whose layers are given as protobuf text.
inline pb::Model ModelOfLayers(const std::string& layers) {
  pb::Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, model.mutable_net())) << layers;
  return model;
}

// Builds the network of these layers, with all defaults filled in.
inline Result<pb::NetDef> BuildNetOfLayers(const std::string& layers,
                                           const pb::ImageShape& image = MakeImageShape(1, 8, 8),
                                           uint32_t classes = 3) {
  return BuildNet(ModelOfLayers(layers), image, classes);
}

inline pb::Model LeNetModel(pb::Model::Padding padding) {
  pb::Model model;
  model.set_name("lenet");
  model.set_padding(padding);
  return model;
}

}  // namespace tern::models
