#include <string>
#include <vector>

#include "models/builders.h"
#include "models/net_builder.h"

namespace tern::models {

namespace {

// Writes the stem (the first layers) and the blocks of a ResNet. Convolutions and batch norms are
// named as in torchvision, which has no ResNet18V2: layer1.0.conv1, layer2.0.downsample.0.
class ResNet {
 public:
  explicit ResNet(const char* name) : net_(name) {
    net_.InitConvs(He(true));
    net_.InitDense(Xavier());
  }

  // Adds the stem for small images: a convolution of 3 x 3 with `outputs` output channels.
  void AddSmallStem(uint32_t outputs, bool has_norm) {
    net_.Conv("conv1", {.outputs = outputs, .kernel = 3, .pad = 1, .has_bias = false});
    if (has_norm) AddNormRelu("bn1", "relu");
    channels_ = outputs;
  }
  // Adds the stem for large images: a convolution of 7 x 7 and a max pool of 3 x 3, which together
  // reduce height and width to a quarter.
  void AddLargeStem(bool has_norm) {
    net_.Conv("conv1", {.outputs = 64, .kernel = 7, .stride = 2, .pad = 3, .has_bias = false});
    if (has_norm) AddNormRelu("bn1", "relu");
    net_.MaxPool("maxpool", {.kernel = 3, .stride = 2, .pad = 1});
    channels_ = 64;
  }

  // Adds y = relu(F(x) + shortcut(x)), where F is two convolutions of 3 x 3. shortcut(x) is x or,
  // if that has another shape than y, a convolution of 1 x 1.
  void AddBasicBlock(const std::string& name, uint32_t outputs, uint32_t stride) {
    const std::string input = net_.last_output();
    Conv(name + ".conv1", outputs, 3, stride);
    AddNormRelu(name + ".bn1", name + ".relu1");
    Conv(name + ".conv2", outputs, 3, 1);
    net_.BatchNorm(name + ".bn2");
    AddShortcut(name, input, outputs, stride);
  }
  // Like AddBasicBlock, but F is three convolutions: 1 x 1 to a quarter of the output channels, 3 x
  // 3, and 1 x 1.
  void AddBottleneckBlock(const std::string& name, uint32_t outputs, uint32_t stride) {
    const std::string input = net_.last_output();
    Conv(name + ".conv1", outputs / 4, 1, 1);
    AddNormRelu(name + ".bn1", name + ".relu1");
    Conv(name + ".conv2", outputs / 4, 3, stride);
    AddNormRelu(name + ".bn2", name + ".relu2");
    Conv(name + ".conv3", outputs, 1, 1);
    net_.BatchNorm(name + ".bn3");
    AddShortcut(name, input, outputs, stride);
  }
  // Adds y = F(x) + shortcut, where F has batch norm and ReLU before each of its two convolutions.
  // The shortcut is x or, if that has another shape than y, a convolution of 1 x 1 of the first
  // ReLU's output.
  void AddPreActivatedBlock(const std::string& name, uint32_t outputs, uint32_t stride) {
    std::string shortcut = net_.last_output();
    AddNormRelu(name + ".bn1", name + ".relu1");
    const std::string first_relu = net_.last_output();
    Conv(name + ".conv1", outputs, 3, stride);
    AddNormRelu(name + ".bn2", name + ".relu2");
    Conv(name + ".conv2", outputs, 3, 1);
    const std::string branch_output = net_.last_output();
    if (stride != 1 || channels_ != outputs) {
      net_.SetNextInput(first_relu);
      Conv(name + ".downsample", outputs, 1, stride);
      shortcut = net_.last_output();
    }
    net_.Add(name + ".add", {branch_output, shortcut});
    channels_ = outputs;
  }

  pb::NetDef Finish(uint32_t classes) {
    net_.GlobalAvgPool("avgpool");
    net_.Dense("fc", classes);
    return net_.Finish();
  }
  void AddNormRelu(const std::string& norm_name, const std::string& relu_name) {
    net_.BatchNorm(norm_name);
    net_.Relu(relu_name);
  }

 private:
  void Conv(const std::string& name, uint32_t outputs, uint32_t kernel, uint32_t stride) {
    net_.Conv(name, {.outputs = outputs,
                     .kernel = kernel,
                     .stride = stride,
                     .pad = kernel / 2,
                     .has_bias = false});
  }
  void AddShortcut(const std::string& name, std::string input, uint32_t outputs, uint32_t stride) {
    const std::string branch_output = net_.last_output();
    if (stride != 1 || channels_ != outputs) {
      net_.SetNextInput(input);
      Conv(name + ".downsample.0", outputs, 1, stride);
      net_.BatchNorm(name + ".downsample.1");
      input = net_.last_output();
    }
    net_.Add(name + ".add", {branch_output, input});
    net_.Relu(name + ".relu");
    channels_ = outputs;
  }

  NetBuilder net_;
  uint32_t channels_ = 0;  // of the output of the last stem or block
};

// Calls add_block(name, outputs, stride) for every block. `stages`: the number of blocks in each
// stage; `outputs`: the output channels of the first stage, which double with every stage. Each
// stage after the first halves height and width.
template <typename AddBlock>
void ForEachBlock(const std::vector<int>& stages, uint32_t outputs, const AddBlock& add_block) {
  for (size_t stage = 0; stage < stages.size(); ++stage, outputs *= 2) {
    for (int i = 0; i < stages[stage]; ++i) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      add_block(name, outputs, stage > 0 && i == 0 ? 2u : 1u);
    }
  }
}

// The ResNet with 6n + 2 layers for CIFAR: three stages of n basic blocks.
pb::NetDef CifarResNet(const char* name, int n, const BuildRequest& request) {
  ResNet net(name);
  net.AddSmallStem(16, true);
  ForEachBlock({n, n, n}, 16, [&](const std::string& block, uint32_t outputs, uint32_t stride) {
    net.AddBasicBlock(block, outputs, stride);
  });
  return net.Finish(request.classes);
}

void AddStem(const BuildRequest& request, bool has_norm, ResNet* net) {
  if (request.has_small_images()) {
    net->AddSmallStem(64, has_norm);
  } else {
    net->AddLargeStem(has_norm);
  }
}

pb::NetDef BottleneckResNet(const char* name, const std::vector<int>& stages,
                            const BuildRequest& request) {
  ResNet net(name);
  AddStem(request, true, &net);
  ForEachBlock(stages, 256, [&](const std::string& block, uint32_t outputs, uint32_t stride) {
    net.AddBottleneckBlock(block, outputs, stride);
  });
  return net.Finish(request.classes);
}

}  // namespace

pb::NetDef ResNet20(const BuildRequest& request) { return CifarResNet("resnet20", 3, request); }
pb::NetDef ResNet32(const BuildRequest& request) { return CifarResNet("resnet32", 5, request); }
pb::NetDef ResNet110(const BuildRequest& request) { return CifarResNet("resnet110", 18, request); }
pb::NetDef ResNet50(const BuildRequest& request) {
  return BottleneckResNet("resnet50", {3, 4, 6, 3}, request);
}
pb::NetDef ResNet152(const BuildRequest& request) {
  return BottleneckResNet("resnet152", {3, 8, 36, 3}, request);
}

pb::NetDef ResNet18V2(const BuildRequest& request) {
  ResNet net("resnet18_v2");
  AddStem(request, false, &net);
  ForEachBlock({2, 2, 2, 2}, 64, [&](const std::string& block, uint32_t outputs, uint32_t stride) {
    net.AddPreActivatedBlock(block, outputs, stride);
  });
  net.AddNormRelu("bn", "relu");
  return net.Finish(request.classes);
}

}  // namespace tern::models
