// How much a code differs from the values that were encoded: the variables by which the papers
// explain their codecs.
#pragma once

#include <span>

namespace tern::tensorboard {

struct CodeFigures {
  double zero_share = 0;     // the share of decoded values that are 0 (TernGrad, figure 4c)
  double q = 0;              // |decoded - v|^2 / |v|^2 of this code of v (PQASGD, equation 13)
  double angle_degrees = 0;  // between decoded and v (TernGrad, section 3.3); 90 if decoded is 0
};

// `values`: v; at least one of them is not 0. `decoded`: as many values.
CodeFigures CodeFiguresOf(std::span<const float> values, std::span<const float> decoded);

struct ClipFigures {
  double share = 0;  // the share of the values that were clamped
  // |clamped - v|^2 / |v|^2: what no number of workers averages out.
  double bias = 0;
};

// `values` and `clamped` as above.
ClipFigures ClipFiguresOf(std::span<const float> values, std::span<const float> clamped);

}  // namespace tern::tensorboard
