// tern convert onnx: writes a network with its weights as an ONNX file.
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "common/base/text.h"
#include "common/tensors/safetensors.h"
#include "models/graph/shapes.h"
#include "tools/commands.h"
#include "tools/convert/onnx_graph.h"
#include "tools/net_arguments.h"
#include "worker/classify.h"

namespace tern::tools {
namespace {

Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return Status(Code::kCannotWrite, "cannot write " + path);
  return Ok();
}

}  // namespace

Status ConvertOnnx(const Arguments& arguments) {
  const std::string &weights_path = arguments.positional()[1],
                    &out_path = arguments.positional()[2];
  const auto net = NetFromArgument(arguments.positional()[0], arguments);
  if (!net.ok()) return net.status();
  const auto weights = tensors::ReadSafetensors(weights_path);
  if (!weights.ok()) return weights.status();
  std::vector<std::string> class_names =
      worker::ClassNamesBeside(weights_path).value_or(std::vector<std::string>());
  if (class_names.size() > net->classes()) class_names.resize(net->classes());
  const auto model = MakeOnnx(*net, *weights, class_names);
  if (!model.ok()) return model.status().Within(weights_path);
  if (model->ByteSizeLong() > std::numeric_limits<int>::max()) {
    return Status(Code::kBadData, Cat(out_path, " would have ", HumanBytes(model->ByteSizeLong()),
                                      "; an ONNX file has at most 2 GB"));
  }
  TERN_RETURN_IF_ERROR(WriteFile(out_path, model->SerializeAsString()));
  std::printf("%s: %d nodes; takes \"data\" [batch, %u, %u, %u], gives \"scores\" [batch, %u]\n",
              out_path.c_str(), model->graph().node_size(), net->input().channels(),
              net->input().height(), net->input().width(), net->classes());
  return Ok();
}

}  // namespace tern::tools
