// The coefficients of an update that differ from tensor to tensor. On the CPU and in GPU kernels.
#pragma once

namespace tern::kernels {

struct TensorRates {
  float decay = 0;       // weight decay that the update adds to the gradient
  float local_rate = 0;  // only for LARS on a GPU; elsewhere the optimizer computes it
  float rate_times = 1;  // multiplies the learning rate, after that is rounded to float
  friend bool operator==(const TensorRates&, const TensorRates&) = default;
};

}  // namespace tern::kernels
