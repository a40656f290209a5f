// The small networks on which every layer type is tested. A case has a name, the layers as text,
// the channels, height and width of the input, the number of classes, and the batch size. A layer
// without `inputs` reads the layer before it. Layers are named a, b, c ... in order.
#include "tests/worker/engine/problem.h"

namespace tern::engine {
namespace {

// Makes all tests of this program use one OpenMP thread by default.
class OneThread : public testing::Environment {
  void SetUp() override { omp_set_num_threads(1); }
};
const testing::Environment* const kOneThread = testing::AddGlobalTestEnvironment(new OneThread);

constexpr NetCase kCases[] = {
    {"Dense", "dense { outputs: 5 }", 1, 3, 4, 5, 3},
    {"DenseOnChannels", "dense { outputs: 4 }", 3, 2, 3, 4, 2},
    {"DenseOfOnePixel", "dense { outputs: 3 }", 1, 1, 1, 3, 4},
    {"DenseBatchOfOne", "dense { outputs: 7 }; relu {}; dense { outputs: 3 }", 2, 3, 3, 3, 1},
    {"DenseReluDense", "dense { outputs: 17 }; relu {}; dense { outputs: 4 }", 1, 5, 5, 4, 6},
    {"TwoRelus", "dense { outputs: 9 }; relu {}; relu {}; dense { outputs: 4 }", 1, 4, 4, 4, 3},
    {"ReluFirst", "relu {}; dense { outputs: 4 }", 2, 3, 3, 4, 3},
    {"ReluLast", "dense { outputs: 4 }; relu {}", 2, 3, 3, 4, 3},
    {"Gelu", "conv { outputs: 5 kernel: 3 }; gelu {}; dense { outputs: 4 }", 2, 6, 5, 4, 3},
    {"GeluOfManyChannels",
     "conv { outputs: 32 kernel: 3 padding: same bias: false }; max_pool { kernel: 2 }; "
     "batch_norm {}; gelu {}; conv { outputs: 16 kernel: 1 }; gelu {}; dense { outputs: 3 }",
     3, 6, 6, 3, 3},
    {"GeluReadTwice",
     "conv { outputs: 4 kernel: 3 padding: same }; gelu {}; inputs: 'a' gelu {}; "
     "inputs: 'b' inputs: 'c' add {}; dense { outputs: 3 }",
     2, 4, 4, 3, 2},
    {"Scale", "dense { outputs: 6 }; scale { factor: -1.5 }; relu {}; dense { outputs: 4 }", 2, 3,
     3, 4, 3},
    {"ScaleLast", "conv { outputs: 4 kernel: 3 }; dense { outputs: 4 }; scale { factor: 0.25 }", 2,
     4, 4, 4, 3},
    {"ConvValid", "conv { outputs: 3 kernel: 3 }; dense { outputs: 4 }", 1, 6, 5, 4, 2},
    {"ConvSame", "conv { outputs: 3 kernel: 3 padding: same }; dense { outputs: 4 }", 2, 5, 6, 4,
     2},
    {"ConvSameEvenKernel", "conv { outputs: 3 kernel: 4 padding: same }; dense { outputs: 4 }", 2,
     5, 7, 4, 2},
    {"ConvStride", "conv { outputs: 4 kernel: 3 stride: 2 }; dense { outputs: 3 }", 3, 8, 7, 3, 2},
    {"ConvSameStride",
     "conv { outputs: 4 kernel: 3 stride: 2 padding: same }; dense { outputs: 3 }", 3, 7, 8, 3, 2},
    {"ConvStrideOverKernel", "conv { outputs: 2 kernel: 2 stride: 3 }; dense { outputs: 3 }", 2, 9,
     10, 3, 2},
    {"ConvOneByOne", "conv { outputs: 6 kernel: 1 }; dense { outputs: 3 }", 3, 4, 4, 3, 2},
    {"ConvOneByOneStride",
     "conv { outputs: 6 kernel: 1 stride: 2 padding: same }; dense { outputs: 3 }", 3, 5, 4, 3, 2},
    {"ConvOfOnePixel", "conv { outputs: 5 kernel: 3 padding: same }; dense { outputs: 3 }", 2, 1, 1,
     3, 3},
    {"ConvToClasses", "conv { outputs: 3 kernel: 4 }", 2, 4, 4, 3, 3},
    {"ConvConv",
     "conv { outputs: 5 kernel: 3 }; conv { outputs: 7 kernel: 3 padding: same }; relu {}; "
     "conv { outputs: 3 kernel: 2 stride: 2 }; dense { outputs: 3 }",
     3, 7, 8, 3, 2},
    {"ConvReluConv",
     "conv { outputs: 20 kernel: 3 }; relu {}; conv { outputs: 18 kernel: 3 }; relu {}; "
     "dense { outputs: 10 }",
     1, 9, 9, 10, 3},
    {"ConvManyChannels",
     "conv { outputs: 33 kernel: 3 padding: same }; relu {}; "
     "conv { outputs: 16 kernel: 3 padding: same }; dense { outputs: 3 }",
     16, 5, 5, 3, 1},
    {"ConvWinograd",
     "conv { outputs: 32 kernel: 1 }; conv { outputs: 48 kernel: 3 padding: same }; relu {}; "
     "conv { outputs: 32 kernel: 3 padding: same }; dense { outputs: 3 }",
     3, 9, 7, 3, 2},
    {"ConvWinogradValid",
     "conv { outputs: 32 kernel: 1 }; conv { outputs: 32 kernel: 3 }; dense { outputs: 3 }", 3, 8,
     6, 3, 2},
    {"ConvBlocks",
     "conv { outputs: 16 kernel: 3 padding: same }; conv { outputs: 16 kernel: 3 padding: same }; "
     "conv { outputs: 32 kernel: 3 stride: 2 padding: same }; dense { outputs: 3 }",
     3, 8, 8, 3, 2},
    {"ConvFive",
     "conv { outputs: 16 kernel: 1 }; conv { outputs: 20 kernel: 5 padding: same }; relu {}; "
     "conv { outputs: 33 kernel: 5 pad: 1 }; dense { outputs: 3 }",
     3, 7, 8, 3, 2},
    {"ConvFiveNoBias",
     "conv { outputs: 16 kernel: 1 }; conv { outputs: 16 kernel: 5 bias: false }; "
     "avg_pool { kernel: 5 }; dense { outputs: 3 }",
     1, 9, 10, 3, 3},
    {"DepthwiseBlocks",
     "conv { outputs: 32 kernel: 1 }; conv { outputs: 32 kernel: 3 padding: same groups: 32 }; "
     "conv { outputs: 16 kernel: 1 }; dense { outputs: 3 }",
     3, 6, 6, 3, 2},
    {"KernelOverImage", "conv { outputs: 3 kernel: 7 padding: same }; dense { outputs: 3 }", 2, 3,
     2, 3, 2},
    {"Pool", "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 2 }; dense { outputs: 3 }", 2, 6, 8,
     3, 2},
    {"PoolDropsTheRest",
     "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 2 }; dense { outputs: 3 }", 2, 7, 5, 3, 2},
    {"PoolSameOdd",
     "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 2 padding: same }; dense { outputs: 3 }", 2,
     7, 5, 3, 2},
    {"PoolOverlapping",
     "conv { outputs: 17 kernel: 1 }; max_pool { kernel: 3 stride: 2 padding: same }; "
     "dense { outputs: 3 }",
     2, 7, 8, 3, 2},
    {"PoolStrideOne",
     "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 3 stride: 1 padding: same }; "
     "dense { outputs: 3 }",
     2, 4, 5, 3, 2},
    {"PoolStrideOverKernel",
     "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 1 stride: 3 }; dense { outputs: 3 }", 2, 7,
     7, 3, 2},
    {"PoolOfOnePixel",
     "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 3 stride: 1 padding: same }; "
     "dense { outputs: 3 }",
     2, 1, 1, 3, 2},
    {"PoolToClasses", "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 4 }", 2, 4, 4, 3, 2},
    {"PoolFirst", "max_pool { kernel: 2 }; conv { outputs: 3 kernel: 2 }; dense { outputs: 3 }", 3,
     6, 6, 3, 2},
    {"PoolRelu",
     "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 2 }; relu {}; dense { outputs: 3 }", 2, 6,
     6, 3, 2},
    {"PoolDenseConv",
     "dense { outputs: 18 }; conv { outputs: 5 kernel: 1 }; relu {}; dense { outputs: 3 }", 2, 3, 3,
     3, 2},
    {"ConvPad", "conv { outputs: 3 kernel: 3 stride: 2 pad: 1 }; dense { outputs: 4 }", 2, 6, 7, 4,
     2},
    {"ConvDilated", "conv { outputs: 3 kernel: 3 dilation: 2 pad: 2 }; dense { outputs: 4 }", 2, 6,
     7, 4, 2},
    {"ConvSameDilated",
     "conv { outputs: 3 kernel: 2 dilation: 3 padding: same }; dense { outputs: 4 }", 2, 6, 7, 4,
     2},
    {"ConvGroups", "conv { outputs: 6 kernel: 3 groups: 2 }; relu {}; dense { outputs: 4 }", 4, 6,
     5, 4, 2},
    {"ConvGroupsOfSixteen",
     "conv { outputs: 32 kernel: 3 padding: same }; conv { outputs: 32 kernel: 3 groups: 2 }; "
     "dense { outputs: 4 }",
     3, 6, 5, 4, 2},
    {"Depthwise",
     "conv { outputs: 16 kernel: 1 }; conv { outputs: 16 kernel: 3 groups: 16 padding: same }; "
     "relu {}; conv { outputs: 5 kernel: 1 }; dense { outputs: 4 }",
     3, 6, 5, 4, 2},
    {"DepthwiseStride",
     "conv { outputs: 7 kernel: 1 }; conv { outputs: 7 kernel: 3 groups: 7 stride: 2 pad: 1 }; "
     "dense { outputs: 4 }",
     3, 8, 7, 4, 2},
    {"ConvWithoutBias",
     "conv { outputs: 5 kernel: 3 bias: false }; relu {}; conv { outputs: 4 kernel: 1 bias: false "
     "}; "
     "dense { outputs: 4 }",
     3, 6, 5, 4, 2},
    {"PoolPad",
     "conv { outputs: 3 kernel: 1 }; max_pool { kernel: 3 stride: 2 pad: 1 }; dense { outputs: 3 }",
     2, 6, 7, 3, 2},
    {"PoolGlobal", "conv { outputs: 3 kernel: 2 }; max_pool { global: true }", 2, 5, 4, 3, 2},
    {"AvgPool", "conv { outputs: 3 kernel: 1 }; avg_pool { kernel: 2 }; dense { outputs: 3 }", 2, 6,
     7, 3, 2},
    {"AvgPoolSame",
     "conv { outputs: 3 kernel: 1 }; avg_pool { kernel: 3 stride: 2 padding: same }; "
     "dense { outputs: 3 }",
     2, 6, 7, 3, 2},
    {"AvgPoolIncludingPadding",
     "conv { outputs: 3 kernel: 1 }; avg_pool { kernel: 3 stride: 1 pad: 1 include_padding: true "
     "}; "
     "dense { outputs: 3 }",
     2, 6, 7, 3, 2},
    {"AvgPoolGlobal", "conv { outputs: 3 kernel: 2 }; avg_pool { global: true }", 2, 5, 4, 3, 2},
    {"ReluWithMaximum",
     "conv { outputs: 3 kernel: 3 }; relu { max: 0.25 }; dense { outputs: 9 }; relu { max: 0.5 }; "
     "dense { outputs: 4 }",
     2, 6, 5, 4, 3},
    {"BatchNorm", "conv { outputs: 5 kernel: 3 bias: false }; batch_norm {}; dense { outputs: 4 }",
     2, 6, 5, 4, 3},
    {"BatchNormRelu",
     "conv { outputs: 16 kernel: 3 }; batch_norm { epsilon: 0.01 momentum: 0.3 }; relu {}; "
     "conv { outputs: 5 kernel: 1 }; batch_norm {}; relu { max: 1 }; dense { outputs: 4 }",
     2, 6, 5, 4, 3},
    {"BatchNormFirst", "batch_norm {}; dense { outputs: 4 }", 2, 4, 5, 4, 3},
    {"BatchNormOfDense", "dense { outputs: 7 }; batch_norm {}; relu {}; dense { outputs: 4 }", 2, 4,
     5, 4, 6},
    {"Lrn", "conv { outputs: 7 kernel: 3 }; relu {}; lrn { alpha: 0.5 }; dense { outputs: 4 }", 2,
     6, 5, 4, 2},
    {"LrnOfNineOnBlocks",
     "conv { outputs: 48 kernel: 1 }; relu {}; lrn { size: 9 alpha: 0.9 }; dense { outputs: 3 }", 2,
     3, 4, 3, 2},
    {"LrnOfThreeOnSixteen",
     "conv { outputs: 16 kernel: 1 }; lrn { size: 3 alpha: 0.8 beta: 0.6 k: 2 }; "
     "dense { outputs: 4 }",
     2, 4, 5, 4, 2},
    {"Dropout",
     "dense { outputs: 40 }; relu {}; dropout {}; dense { outputs: 4 }; dropout { rate: 0.2 }", 2,
     4, 5, 4, 3},
    {"DropoutOfConv", "conv { outputs: 9 kernel: 1 }; dropout { rate: 0.3 }; dense { outputs: 4 }",
     2, 4, 5, 4, 3},
    {"DropoutOfNothing", "dense { outputs: 4 }; dropout { rate: 0 }", 2, 4, 5, 4, 3},
    {"Standardize", "standardize {}; conv { outputs: 3 kernel: 3 }; dense { outputs: 4 }", 2, 6, 5,
     4, 2},
    {"StandardizeInside", "conv { outputs: 3 kernel: 3 }; standardize {}; dense { outputs: 4 }", 2,
     6, 5, 4, 2},
    {"StandardizeBelowItsBound",
     "conv { outputs: 3 kernel: 3 }; scale { factor: 0.2 }; standardize {}; dense { outputs: 4 }",
     2, 6, 5, 4, 4},
    {"Add",
     "conv { outputs: 3 kernel: 3 }; conv { outputs: 3 kernel: 3 padding: same }; "
     "inputs: 'a' inputs: 'b' add {}; dense { outputs: 4 }",
     2, 6, 5, 4, 2},
    {"AddReluOfBranches",
     "conv { outputs: 8 kernel: 3 }; batch_norm {}; relu {}; "
     "conv { outputs: 8 kernel: 3 padding: same }; batch_norm {}; "
     "inputs: 'c' inputs: 'e' add {}; relu {}; "
     "conv { outputs: 8 kernel: 1 }; inputs: 'h' inputs: 'g' inputs: 'g' add {}; relu {}; "
     "dense { outputs: 4 }",
     2, 6, 5, 4, 3},
    {"AddToTheData",
     "conv { outputs: 2 kernel: 3 padding: same }; inputs: 'a' inputs: 'data' add {}; relu {}; "
     "dense { outputs: 4 }",
     2, 6, 5, 4, 2},
    {"TwoReadersOfOneConv",
     "conv { outputs: 4 kernel: 3 padding: same }; relu {}; "
     "inputs: 'a' conv { outputs: 4 kernel: 1 }; inputs: 'b' inputs: 'c' add {}; "
     "dense { outputs: 4 }",
     2, 6, 5, 4, 2},
    {"Concat",
     "conv { outputs: 3 kernel: 3 padding: same }; relu {}; "
     "inputs: 'data' conv { outputs: 5 kernel: 1 }; inputs: 'b' max_pool { kernel: 3 stride: 1 "
     "pad: 1 }; "
     "inputs: 'b' inputs: 'c' inputs: 'd' inputs: 'data' concat {}; relu {}; "
     "conv { outputs: 4 kernel: 1 }; dense { outputs: 4 }",
     2, 6, 5, 4, 2},
    {"LeNetLike",
     "conv { outputs: 6 kernel: 5 padding: same }; relu {}; max_pool { kernel: 2 padding: same "
     "}; "
     "conv { outputs: 9 kernel: 3 padding: same }; relu {}; max_pool { kernel: 2 padding: same "
     "}; "
     "dense { outputs: 20 }; relu {}; dense { outputs: 10 }",
     1, 11, 9, 10, 4},
};

}  // namespace

const std::vector<NetCase>& NetCases() {
  static const std::vector<NetCase> cases(std::begin(kCases), std::end(kCases));
  return cases;
}

}  // namespace tern::engine
