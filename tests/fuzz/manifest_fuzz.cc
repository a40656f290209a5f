// Fuzzes the store of checkpoints: arbitrary bytes as the manifest of a checkpoint and as the
// record of the run. The checksum of a changed manifest would not match, and hide the code behind
// its check. So the target also makes the checksum and the digest of the state match.
#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/base/hash.h"
#include "common/checkpoint/store.h"
#include "tests/common/base/memory_storage.h"

namespace {

using tern::checkpoint::Store;

constexpr uint64_t kStep = 7;

std::string JsonOf(const tern::pb::Manifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(manifest, &json, options).ok()) std::abort();
  return json;
}

// Opens a folder with that manifest, that record and that state, and uses what the store finds.
void CheckFolder(const std::string& manifest, const std::string& record, const std::string& state) {
  const tern::checkpoint::Owner owner = {"job/folder", "worker.0", 2, 11, 12, 13, "seed: 1"};
  tern::MemoryStorage storage;
  if (storage.CreateFolders(owner.folder)) std::abort();
  for (const auto& [name, bytes] :
       {std::pair{"/step.7.json", &manifest}, std::pair{"/run.json", &record},
        std::pair{"/step.7.safetensors", &state}}) {
    if (!storage.Write(owner.folder + name, *bytes).ok()) std::abort();
  }
  Store store(owner, {}, storage);
  const std::vector<std::string> warnings = store.Open();
  // Whatever is in the folder, nothing is lost, and a checkpoint that is not used is reported.
  if (store.points().size() + warnings.size() != 1) std::abort();
  if (!storage.Exists("job/folder/step.7.json") || !storage.Exists("job/folder/step.7.safetensors"))
    std::abort();
  for (const tern::checkpoint::Point& point : store.points()) {
    if (point.step != kStep) std::abort();
    if (store.Read(point).ok()) (void)store.JobTextOf(point.run);
  }
  const uint64_t run = store.own_recorded_run();
  if (!store.Begin(run == 0 ? 1 : run, /*starts_anew=*/false).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  static const std::string state = tern::tensors::EncodeSafetensors({}, {{"a", "b"}});
  CheckFolder(text, text, state);
  tern::pb::Manifest manifest;
  if (!google::protobuf::util::JsonStringToMessage(text, &manifest).ok()) return 0;
  manifest.set_format(1);
  manifest.set_step(kStep);
  manifest.set_bytes(state.size());
  manifest.set_digest(tern::Hex(tern::Digest(std::string_view(state))));
  manifest.clear_checksum();
  manifest.set_checksum(tern::Hex(tern::Digest(std::string_view(manifest.SerializeAsString()))));
  CheckFolder(JsonOf(manifest), JsonOf(manifest), state);
  return 0;
}
