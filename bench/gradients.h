// Gradients of workers in a file, as real_gradients.py writes them.
#pragma once

#include <cstddef>
#include <vector>

namespace tern::bench {

// By worker; all have as many elements.
using Gradients = std::vector<std::vector<float>>;

// Reads the gradients of `workers` workers: floats, one worker after the other. Ends the process
// with 65 and a sentence if the file has not as many floats of each.
Gradients ReadGradientsOrExit(const char* path, size_t workers);

}  // namespace tern::bench
