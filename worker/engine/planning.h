// What a net on a GPU was planned with. If a step is slow, the reason may stand here.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace tern::engine {

struct Planning {
  // How many plans of convolutions the vendor's library gave: from the file of an earlier run, and
  // chosen by measuring; and how long both took, in seconds.
  uint32_t plans_loaded = 0, plans_chosen = 0;
  double plan_seconds = 0;
  // The passes that slow kernels of this project compute, because the library has no plan for them
  // or is not in this build: "forward fp32 2x28x28x1 to 24x24x20 by ...".
  std::set<std::string> own_loops;
  // How many batch norms take their moments from sums of the convolution before them.
  uint32_t fused_norms = 0;
  // How many batch norms leave their output and the ReLU to the convolution that reads them.
  uint32_t norms_in_readers = 0;
  // For how many of these the convolution also goes back through the ReLU, and takes the sums of
  // the norm's gradients.
  uint32_t norm_gradients_in_readers = 0;
  // The passes are divided into segments; a graph replays all launches of a segment, from its
  // second run on. Launches of a segment without a graph run one by one. graph_nodes: the launches,
  // copies and the like in all graphs.
  uint32_t segments = 0, graphs = 0, graph_nodes = 0;
};

}  // namespace tern::engine
