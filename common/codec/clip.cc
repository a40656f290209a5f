// TernGrad's gradient clipping: equation 9 of Wen et al. 2017, and the variants in the authors'
// code and in the framework GRACE (docs/ALGORITHMS.md, section 3).
#include "common/codec/clip.h"

#include <algorithm>
#include <limits>

namespace tern::codec {

EncodeParams PrepareScaler(const kernels::Stats& stats, const Options& options) {
  const EncodeParams unclipped{stats.max_abs, std::numeric_limits<float>::infinity()};
  const double largest_float = std::numeric_limits<float>::max();
  const auto sigma_limit =  // k of clip.h
      static_cast<float>(std::min(options.clip_sigma * kernels::Sigma(stats), largest_float));
  if (!(sigma_limit > 0)) return unclipped;
  switch (options.clip) {
    case Clip::kPaper:
    case Clip::kGrace:
      return {std::min(stats.max_abs, sigma_limit), sigma_limit};
    case Clip::kOfficial:
      return {sigma_limit, unclipped.clip};
    case Clip::kNone:
      break;
  }
  return unclipped;
}

}  // namespace tern::codec
