// The builders in models.cc's table, one file per family. Each makes a net, not yet completed, from
// the arguments in the job's `model`.
#pragma once

#include <cstdint>

#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace tern::models {

// Some families build their CIFAR form for images up to this height.
inline constexpr uint32_t kSmallImage = 64;

struct BuildRequest {
  const pb::Model& model;  // the arguments in the job
  const pb::ImageShape& input;
  uint32_t classes;

  double dropout(double default_rate) const {
    return model.has_dropout() ? model.dropout() : default_rate;
  }
};

// LeCun's net in two variants, chosen by model.padding: `valid` is Caffe's (431,080 parameters for
// MNIST); `same` is that of the TernGrad code (1,256,080), with ReLUs behind the convolutions too,
// other initial weights, and an fc3 that reads 7 x 7 x 50.
pb::NetDef LeNet(const BuildRequest& request);
// TensorFlow's tutorial for CIFAR-10, which TernGrad calls CifarNet: 1,068,298 parameters on images
// of 24 x 24.
pb::NetDef CifarNet(const BuildRequest& request);
// "One weird trick" (arXiv 1404.5997), torchvision's form: 61,100,840 parameters. Optional batch
// norms follow the convolutions.
pb::NetDef AlexNet(const BuildRequest& request);
// arXiv 1409.1556: configurations A, D and E. Images up to 64 x 64 get the CIFAR form: one dense
// layer.
pb::NetDef VggA(const BuildRequest& request);
pb::NetDef Vgg16(const BuildRequest& request);
pb::NetDef Vgg19(const BuildRequest& request);
// arXiv 1512.03385, for CIFAR: 6n + 2 layers, n = 3, 5, 18; shortcuts between stages are
// convolutions (the paper's option B).
pb::NetDef ResNet20(const BuildRequest& request);
pb::NetDef ResNet32(const BuildRequest& request);
pb::NetDef ResNet110(const BuildRequest& request);
// ResNet50 and ResNet152 are the same paper's for ImageNet: bottlenecks, torchvision's form (stride
// in the 3 x 3). ResNet18V2 is arXiv 1603.05027's, with normalization and ReLU first. For images up
// to 64 x 64 the first convolution is 3 x 3 and the first pool is left out.
pb::NetDef ResNet50(const BuildRequest& request);
pb::NetDef ResNet152(const BuildRequest& request);
pb::NetDef ResNet18V2(const BuildRequest& request);
// arXiv 1409.4842 as Caffe ships it, without the auxiliary classifiers: 6,998,552 parameters.
pb::NetDef GoogLeNet(const BuildRequest& request);
// arXiv 1502.03167, appendix: 11,295,240 parameters.
pb::NetDef InceptionBn(const BuildRequest& request);
// arXiv 1704.04861, channels multiplied by model.width_multiplier: 4,231,976 parameters at 1.
pb::NetDef MobileNet(const BuildRequest& request);

}  // namespace tern::models
