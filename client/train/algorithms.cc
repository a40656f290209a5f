// The table of algorithms. A new one adds its maker here, and its section to job.proto.
#include "client/train/algorithms.h"

#include "client/train/algorithm.h"
#include "common/base/text.h"

namespace tern::client {

namespace {

struct AlgorithmEntry {
  const char* name;
  std::unique_ptr<Algorithm> (*make)(const Context& context);
};

const AlgorithmEntry kTable[] = {
    {"ssgd", MakeSsgd},         {"odsgd", MakeOdsgd},      {"asgd", MakeAsgd},
    {"dcasgd_c", MakeDcasgdC},  {"dcasgd_a", MakeDcasgdA}, {"ssp", MakeSsp},
    {"softsync", MakeSoftsync}, {"psgd", MakePsgd},        {"rsgd", MakeRsgd},
    {"pqasgd", MakePqasgd},     {"easgd", MakeEasgd},      {"easgd_async", MakeEasgdAsync},
};

}  // namespace

Result<std::unique_ptr<Algorithm>> MakeAlgorithm(const std::string& name, const Context& context) {
  std::vector<std::string> names;
  for (const AlgorithmEntry& entry : kTable) {
    if (name == entry.name) return entry.make(context);
    names.emplace_back(entry.name);
  }
  return Status(Code::kBadJob,
                Cat("train.algorithm is '", name, "', expected one of ", Join(names)));
}

}  // namespace tern::client
