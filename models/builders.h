// The functions that build the built-in models; models.cc has their table. Each family of models
// has a file. A builder returns a net whose defaults are not filled in yet.
#pragma once

#include <cstdint>

#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace tern::models {

// For images of which both sides have at most this many pixels, the builders of VGG, ResNet50,
// ResNet152 and ResNet18V2 build variants for small images.
inline constexpr uint32_t kMaxSmallImageSide = 64;

struct BuildRequest {
  const pb::Model& model;  // the section `model` of the job
  const pb::ImageShape& input;
  uint32_t classes;

  bool has_small_images() const {
    return input.height() <= kMaxSmallImageSide && input.width() <= kMaxSmallImageSide;
  }
  double dropout(double default_rate) const {
    return model.has_dropout() ? model.dropout() : default_rate;
  }
};

// LeCun's net in two variants, chosen by model.padding: `valid` is Caffe's (431,080 parameters for
// MNIST); `same` is that of the TernGrad code (1,256,080), which also has ReLUs after the
// convolutions, other initial weights, and 7 x 7 x 50 inputs of the layer fc3.
pb::NetDef LeNet(const BuildRequest& request);
// The network of TensorFlow's CIFAR-10 tutorial, which TernGrad calls CifarNet: 1,068,298
// parameters on images of 24 x 24.
pb::NetDef CifarNet(const BuildRequest& request);
// AlexNet of "One weird trick" (arXiv 1404.5997), as in torchvision: 61,100,840 parameters.
// Optional batch norms follow the convolutions.
pb::NetDef AlexNet(const BuildRequest& request);
// VGG of arXiv 1409.1556: configurations A, D and E. For images up to 64 x 64 the classifier is a
// single dense layer, as is usual for CIFAR.
pb::NetDef VggA(const BuildRequest& request);
pb::NetDef Vgg16(const BuildRequest& request);
pb::NetDef Vgg19(const BuildRequest& request);
// ResNets of arXiv 1512.03385, for CIFAR: 6n + 2 layers, n = 3, 5, 18; shortcuts between stages are
// convolutions (the paper's option B).
pb::NetDef ResNet20(const BuildRequest& request);
pb::NetDef ResNet32(const BuildRequest& request);
pb::NetDef ResNet110(const BuildRequest& request);
// ResNet50 and ResNet152 are the networks of the same paper for ImageNet, with bottleneck blocks as
// in torchvision (the stride is in the 3 x 3 convolution). ResNet18V2 is from arXiv 1603.05027,
// with normalization and ReLU before each convolution. For images up to 64 x 64 all three have a
// first convolution of 3 x 3 and no first pool.
pb::NetDef ResNet50(const BuildRequest& request);
pb::NetDef ResNet152(const BuildRequest& request);
pb::NetDef ResNet18V2(const BuildRequest& request);
// GoogLeNet of arXiv 1409.4842, as in Caffe, without the auxiliary classifiers: 6,998,552
// parameters. With batch norm, as TernGrad (section 4) trains it, a batch norm follows each
// convolution, and there is no local response normalization: 7,013,112 parameters.
pb::NetDef GoogLeNet(const BuildRequest& request);
// The Inception network with batch norm of arXiv 1502.03167, appendix: 11,295,240 parameters.
pb::NetDef InceptionBn(const BuildRequest& request);
// MobileNet of arXiv 1704.04861. model.width_multiplier multiplies the numbers of channels; with 1
// there are 4,231,976 parameters.
pb::NetDef MobileNet(const BuildRequest& request);
// The network of "94% on CIFAR-10 in 3.29 seconds on a single GPU" (arXiv 2404.00498): 1,972,792
// parameters. Its first layer whitens patches of 2 x 2 pixels: `tern whiten` computes the weights.
pb::NetDef Airbench94(const BuildRequest& request);

}  // namespace tern::models
