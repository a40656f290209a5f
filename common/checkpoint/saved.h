// Between what objects have to save (common/base/saved_state.h) and the tensors and the metadata of
// a safetensors file.
#pragma once

#include <vector>

#include "common/base/saved_state.h"
#include "common/base/status.h"
#include "common/tensors/safetensors.h"

namespace tern::checkpoint {

// Adds the arrays, as they lie there, and the numbers, as text.
void AddSaved(const SavedState& state, std::vector<tensors::TensorView>* tensors,
              tensors::Metadata* metadata);
// The way back. kBadData names what the file does not have, or has in another size; nothing has
// changed then.
Status Restore(const tensors::TensorFile& file, const SavedState& state);

}  // namespace tern::checkpoint
