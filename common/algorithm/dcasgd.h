// Delay compensation, which is an algorithm of its own (DC-ASGD) and a local updater of OD-SGD.
#pragma once

#include <optional>
#include <string>

namespace tern::algorithm {

// The default of `lambda`, the factor of the compensation term, for the algorithm or local updater
// of this name: 0.04 for dcasgd_c and 2 for dcasgd_a, as in the experiments of the DC-ASGD paper.
// nullopt for others, which have no such term.
std::optional<double> DefaultLambda(const std::string& name);

}  // namespace tern::algorithm
