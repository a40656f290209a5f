// LeNet (LeCun et al. 1998) in the two shapes that matter here:
//   valid: Caffe's. conv 20@5x5, pool 2/2, conv 50@5x5, pool 2/2, dense 500, ReLU, dense; no ReLU
//          after the convolutions; Xavier, biases 0. 431,080 parameters for 1x28x28, 10 classes.
//   same:  the TernGrad code's. SAME padding, a ReLU after each convolution too (its conv and fc
//          apply one unless told not to), truncated normals of the std that it names, biases 0.
//          1,256,080 parameters. Its dense weights read H, W, C; ours C, H, W: a permutation.
#pragma once

#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace tern::models {

// Layers only; the caller sets input and classes and fills in defaults.
pb::NetDef LeNet(const pb::Model& model, uint32_t classes);

}  // namespace tern::models
