// Converts the state that objects save (common/base/saved_state.h) to the tensors and metadata of a
// safetensors file, and back.
#pragma once

#include <vector>

#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/tensors/safetensors.h"

namespace tern::checkpoint {

// Adds views of the arrays to *tensors, and the numbers as text to *metadata. The arrays must
// outlive the views.
void AddSavedState(const SavedState& state, std::vector<tensors::TensorView>* tensors,
                   tensors::Metadata* metadata);
// Restores the arrays and numbers of `state` from the file. kBadData if the file has no such array
// or number, or has it with another size; then nothing has changed.
Status RestoreState(const tensors::TensorFile& file, const SavedState& state);

}  // namespace tern::checkpoint
