#include "common/base/atomic_file.h"
#include "common/tensors/safetensors.h"

namespace tern::tensors {

Status WriteSafetensors(const std::string& path, const std::vector<TensorView>& tensors,
                        const Metadata& metadata) {
  return WriteFileAtomically(path, EncodeSafetensors(tensors, metadata));
}

Result<TensorFile> ReadSafetensors(const std::string& path) {
  const Result<std::string> bytes = ReadWholeFile(path);
  if (!bytes.ok()) return bytes.status();
  Result<TensorFile> decoded_file = DecodeSafetensors(*bytes);
  if (!decoded_file.ok()) return decoded_file.status().Within(path);
  return decoded_file;
}

}  // namespace tern::tensors
