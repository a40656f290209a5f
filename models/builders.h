// The builders in models.cc's table, one file per family. Each makes a net, not yet completed, from
// the arguments in the job's `model`.
#pragma once

#include <cstdint>

#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace tern::models {

// Images up to this height get the CIFAR form in some families.
inline constexpr uint32_t kSmallImage = 64;

struct BuildFor {
  const pb::Model& model;  // the arguments
  const pb::ImageShape& input;
  uint32_t classes;

  double dropout(double otherwise) const {
    return model.has_dropout() ? model.dropout() : otherwise;
  }
};

// LeCun's net in two editions, chosen by model.padding: `valid` is Caffe's (431,080 parameters for
// MNIST), `same` that of the TernGrad code (1,256,080), with ReLUs behind the convolutions too,
// other initial weights, and an fc3 that reads 7 x 7 x 50.
pb::NetDef LeNet(const BuildFor& to);
// TensorFlow's tutorial for CIFAR-10, which TernGrad calls CifarNet: 1,068,298 parameters on images
// of 24 x 24.
pb::NetDef CifarNet(const BuildFor& to);
// "One weird trick" (arXiv 1404.5997), torchvision's form: 61,100,840 parameters. Batch norms, if
// asked for, follow the convolutions.
pb::NetDef AlexNet(const BuildFor& to);
// arXiv 1409.1556: configurations A, D and E. Images up to 64 x 64 get the CIFAR form: one dense
// layer.
pb::NetDef VggA(const BuildFor& to);
pb::NetDef Vgg16(const BuildFor& to);
pb::NetDef Vgg19(const BuildFor& to);
// arXiv 1512.03385, for CIFAR: 6n + 2 layers, n = 3, 5, 18; shortcuts between stages are
// convolutions (their option B).
pb::NetDef ResNet20(const BuildFor& to);
pb::NetDef ResNet32(const BuildFor& to);
pb::NetDef ResNet110(const BuildFor& to);
// The same paper, for ImageNet: bottlenecks, torchvision's form (stride in the 3 x 3). ResNet18V2:
// arXiv 1603.05027, with normalization and ReLU first. For images up to 64 x 64 the first
// convolution is 3 x 3 and the first pool is left out.
pb::NetDef ResNet50(const BuildFor& to);
pb::NetDef ResNet152(const BuildFor& to);
pb::NetDef ResNet18V2(const BuildFor& to);
// arXiv 1409.4842 as Caffe ships it, without the auxiliary classifiers: 6,998,552 parameters.
pb::NetDef GoogLeNet(const BuildFor& to);
// arXiv 1502.03167, appendix: 11,295,240 parameters.
pb::NetDef InceptionBn(const BuildFor& to);
// arXiv 1704.04861, channels multiplied by model.width: 4,231,976 parameters at width 1.
pb::NetDef MobileNet(const BuildFor& to);

}  // namespace tern::models
