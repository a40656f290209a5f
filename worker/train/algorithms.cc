// The table of algorithms: a new one adds its maker here, and its section to job.proto.
#include "worker/train/algorithms.h"

#include "common/base/text.h"
#include "worker/train/algorithm.h"

namespace tern::train {

namespace {

struct Row {
  const char* name;
  bool own_point;
  std::unique_ptr<Algorithm> (*make)(const Context& context);
};

const Row kTable[] = {
    {"ssgd", false, MakeSsgd},         {"odsgd", true, MakeOdsgd},
    {"asgd", true, MakeAsgd},          {"dcasgd_c", false, MakeDcasgdC},
    {"dcasgd_a", false, MakeDcasgdA},  {"ssp", false, MakeSsp},
    {"softsync", false, MakeSoftsync}, {"psgd", true, MakePsgd},
    {"rsgd", true, MakeRsgd},          {"pqasgd", true, MakePqasgd},
    {"easgd", true, MakeEasgd},        {"easgd_async", true, MakeEasgdAsync},
};

const Row* Find(const std::string& name) {
  for (const Row& row : kTable) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Algorithm>> MakeAlgorithm(const std::string& name, const Context& context) {
  if (const Row* row = Find(name)) return row->make(context);
  std::vector<std::string> names;
  for (const Row& row : kTable) names.emplace_back(row.name);
  return Status(Code::kBadJob,
                Cat("train.algorithm is '", name, "', expected one of ", Join(names)));
}

bool HasOwnPoint(const std::string& name) {
  const Row* row = Find(name);
  return row != nullptr && row->own_point;
}

}  // namespace tern::train
