// Tests of the built-in models and of the networks that jobs define layer by layer.
#include "models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/graph/shapes.h"
#include "tests/models/net_text.h"

namespace tern::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> LayerNames(const pb::NetDef& net) {
  std::vector<std::string> names;
  for (const pb::LayerDef& layer : net.layers()) names.push_back(layer.name());
  return names;
}

TEST(Models, LeNetValidMatchesCaffe) {
  const auto net = BuildNet(LeNetModel(pb::Model::valid), MakeImageShape(1, 28, 28), 10);
  ASSERT_TRUE(net.ok()) << net.status().message();
  EXPECT_THAT(LayerNames(*net),
              ElementsAre("conv1", "pool1", "conv2", "pool2", "fc3", "relu3", "logits", "loss"));
  EXPECT_EQ(MakeParameterTable(*net)->total, 431'080u);
  const auto shapes = *InferShapes(*net);
  const auto dims_text = [&](const char* name) {
    const ImageDims& d = shapes.at(name);
    return std::to_string(d.c) + "x" + std::to_string(d.h) + "x" + std::to_string(d.w);
  };
  EXPECT_EQ(dims_text("data"), "1x28x28");
  EXPECT_EQ(dims_text("conv1"), "20x24x24");
  EXPECT_EQ(dims_text("pool1"), "20x12x12");
  EXPECT_EQ(dims_text("conv2"), "50x8x8");
  EXPECT_EQ(dims_text("pool2"), "50x4x4");
  EXPECT_EQ(dims_text("fc3"), "500x1x1");
  EXPECT_EQ(dims_text("logits"), "10x1x1");
  const ParameterTable table = *MakeParameterTable(*net);
  for (const Parameter& p : table.parameters) {
    EXPECT_EQ(p.init.has_xavier(), !p.is_bias) << p.name;
  }
}

TEST(Models, LeNetSameMatchesTernGrad) {
  const auto net = BuildNet(LeNetModel(pb::Model::same), MakeImageShape(1, 28, 28), 10);
  ASSERT_TRUE(net.ok()) << net.status().message();
  EXPECT_THAT(LayerNames(*net), ElementsAre("conv1", "relu1", "pool1", "conv2", "relu2", "pool2",
                                            "fc3", "relu3", "logits", "loss"));
  const ParameterTable table = *MakeParameterTable(*net);
  EXPECT_EQ(table.total, 1'256'080u);
  EXPECT_EQ(InferShapes(*net)->at("pool2").w, 7u);
  const float expected[] = {0.05f, 0.05f, 0.048f, 0.0767f};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(table.parameters[2 * i].init.truncated_normal_std(), expected[i]);
    EXPECT_EQ(table.parameters[2 * i + 1].init.constant(), 0);
    EXPECT_TRUE(table.parameters[2 * i + 1].init.has_constant());
  }
}

// A built-in model (as protobuf text), the shape of its input images (squares), its number of
// classes, and its published number of parameters.
struct PublishedModel {
  const char* model_text;
  uint32_t channels, image_side, classes;
  uint64_t num_parameters;
  const char* tensor_name;  // The output of one of the last layers.
  ImageDims tensor_dims;    // The shape of that output.
};
void PrintTo(const PublishedModel& published_model, std::ostream* out) {
  *out << published_model.model_text;
}

class KnownModels : public testing::TestWithParam<PublishedModel> {};

// The expected numbers of parameters are published by torchvision, Caffe and the models' papers.
TEST_P(KnownModels, HavePublishedParametersAndShapes) {
  const PublishedModel& published_model = GetParam();
  pb::Model model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(published_model.model_text, &model));
  const auto net = BuildNet(model,
                            MakeImageShape(published_model.channels, published_model.image_side,
                                           published_model.image_side),
                            published_model.classes);
  ASSERT_TRUE(net.ok()) << net.status().message();
  EXPECT_EQ(MakeParameterTable(*net)->total, published_model.num_parameters);
  const ImageDims dims = InferShapes(*net)->at(published_model.tensor_name);
  EXPECT_EQ(dims.c, published_model.tensor_dims.c);
  EXPECT_EQ(dims.h, published_model.tensor_dims.h);
  EXPECT_EQ(dims.w, published_model.tensor_dims.w);
}

INSTANTIATE_TEST_SUITE_P(
    Published, KnownModels,
    testing::Values(
        PublishedModel{"name: 'cifarnet'", 3, 24, 10, 1'068'298, "pool2", {64, 6, 6}},
        PublishedModel{"name: 'alexnet'", 3, 224, 1000, 61'100'840, "pool5", {256, 6, 6}},
        PublishedModel{
            "name: 'alexnet' batch_norm: true", 3, 224, 1000, 61'103'144, "pool5", {256, 6, 6}},
        PublishedModel{"name: 'vgg_a'", 3, 224, 1000, 132'863'336, "features.20", {512, 7, 7}},
        PublishedModel{"name: 'vgg16'", 3, 224, 1000, 138'357'544, "features.30", {512, 7, 7}},
        PublishedModel{"name: 'vgg16' batch_norm: true",
                       3,
                       224,
                       1000,
                       138'365'992,
                       "features.43",
                       {512, 7, 7}},
        PublishedModel{"name: 'vgg19'", 3, 224, 1000, 143'667'240, "features.36", {512, 7, 7}},
        PublishedModel{
            "name: 'vgg16' batch_norm: true", 3, 32, 10, 14'728'266, "features.43", {512, 1, 1}},
        PublishedModel{
            "name: 'googlenet'", 3, 224, 1000, 6'998'552, "inception_5b/output", {1024, 7, 7}},
        // Two numbers more for each of the 7,280 outputs of its 57 convolutions.
        PublishedModel{"name: 'googlenet' batch_norm: true",
                       3,
                       224,
                       1000,
                       7'013'112,
                       "inception_5b/output",
                       {1024, 7, 7}},
        PublishedModel{
            "name: 'inception_bn'", 3, 224, 1000, 11'295'240, "inception_5b_output", {1024, 7, 7}},
        PublishedModel{"name: 'resnet18_v2'", 3, 32, 10, 11'172'170, "relu", {512, 4, 4}},
        PublishedModel{"name: 'resnet20'", 3, 32, 10, 272'474, "layer3.2.relu", {64, 8, 8}},
        PublishedModel{"name: 'resnet32'", 3, 32, 10, 466'906, "layer3.4.relu", {64, 8, 8}},
        PublishedModel{"name: 'resnet110'", 3, 32, 10, 1'730'714, "layer3.17.relu", {64, 8, 8}},
        PublishedModel{"name: 'resnet50'", 3, 224, 1000, 25'557'032, "layer4.2.relu", {2048, 7, 7}},
        PublishedModel{
            "name: 'resnet152'", 3, 224, 1000, 60'192'808, "layer4.2.relu", {2048, 7, 7}},
        PublishedModel{
            "name: 'mobilenet'", 3, 224, 1000, 4'231'976, "pointwise13_relu", {1024, 7, 7}},
        PublishedModel{"name: 'mobilenet'", 1, 28, 10, 3'216'650, "pointwise13_relu", {1024, 1, 1}},
        PublishedModel{"name: 'airbench94'", 3, 32, 10, 1'972'792, "group3.gelu2", {256, 3, 3}}));

// Low and wide images, such as spectrograms, get the network whose weights torchvision has.
TEST(Models, HaveTheirVariantForSmallImagesOnlyIfBothSidesAreSmall) {
  for (const char* name : {"vgg_a", "vgg16", "vgg19", "resnet18_v2", "resnet50", "resnet152"}) {
    pb::Model model;
    model.set_name(name);
    const auto num_layers = [&](uint32_t height, uint32_t width) {
      const auto net = BuildNet(model, MakeImageShape(3, height, width), 10);
      EXPECT_TRUE(net.ok()) << name << ": " << net.status().message();
      return net->layers_size();
    };
    EXPECT_EQ(num_layers(64, 32), num_layers(64, 64)) << name;
    EXPECT_NE(num_layers(64, 64), num_layers(224, 224)) << name;
    EXPECT_EQ(num_layers(64, 300), num_layers(224, 224)) << name;
    EXPECT_EQ(num_layers(300, 64), num_layers(224, 224)) << name;
  }
  pb::Model model;
  model.set_name("resnet50");
  EXPECT_EQ(MakeParameterTable(*BuildNet(model, MakeImageShape(3, 64, 300), 1000))->total,
            25'557'032u);
}

// With batch norm, every convolution of GoogLeNet is followed by a batch norm, and that by a ReLU.
TEST(Models, GoogLeNetHasBatchNormsOnConvolutionsIfAsked) {
  pb::Model model;
  model.set_name("googlenet");
  model.set_batch_norm(true);
  const auto net = BuildNet(model, MakeImageShape(3, 64, 64), 10);
  ASSERT_TRUE(net.ok()) << net.status().message();
  int num_convs = 0;
  for (int i = 0; i < net->layers_size(); ++i) {
    EXPECT_FALSE(net->layers(i).has_lrn());
    if (!net->layers(i).has_conv()) continue;
    ++num_convs;
    EXPECT_TRUE(net->layers(i + 1).has_batch_norm()) << net->layers(i).name();
    EXPECT_THAT(net->layers(i + 1).inputs(), ElementsAre(net->layers(i).output()));
    EXPECT_TRUE(net->layers(i + 2).has_relu());
    EXPECT_THAT(net->layers(i + 2).inputs(), ElementsAre(net->layers(i + 1).output()));
  }
  EXPECT_EQ(num_convs, 57);
}

TEST(Models, RefusesArgumentsThatTheModelDoesNotTake) {
  pb::Model model = LeNetModel(pb::Model::valid);
  model.set_width_multiplier(0.5);
  EXPECT_THAT(BuildNet(model, MakeImageShape(1, 28, 28), 10).status().message(),
              HasSubstr("model.width_multiplier: lenet does not take this argument"));
  pb::Model own_net;
  own_net.mutable_net();
  own_net.set_batch_norm(true);
  EXPECT_THAT(BuildNet(own_net, MakeImageShape(1, 28, 28), 10).status().message(),
              HasSubstr("model.batch_norm: model.net does not take this argument"));
}

TEST(Models, ParametersAreInCanonicalOrderWithoutGaps) {
  const ParameterTable table =
      *MakeParameterTable(*BuildNet(LeNetModel(pb::Model::valid), MakeImageShape(1, 28, 28), 10));
  std::vector<std::string> names;
  uint64_t offset = 0;
  for (const Parameter& p : table.parameters) {
    names.push_back(p.name);
    EXPECT_EQ(p.offset, offset) << p.name;
    uint64_t count = 1;
    for (uint32_t dim : p.shape) count *= dim;
    EXPECT_EQ(p.count, count) << p.name;
    EXPECT_EQ(p.is_bias, p.shape.size() == 1) << p.name;
    offset += p.count;
  }
  EXPECT_EQ(offset, table.total);
  EXPECT_THAT(names, ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                 "fc3.weight", "fc3.bias", "logits.weight", "logits.bias"));
  EXPECT_THAT(table.parameters[2].shape, ElementsAre(50, 20, 5, 5));
  EXPECT_THAT(table.parameters[4].shape, ElementsAre(500, 800));
  EXPECT_EQ(table.parameters[0].fan_in, 25u);
  EXPECT_EQ(table.parameters[2].fan_in, 500u);
  EXPECT_EQ(table.parameters[4].fan_in, 800u);
  EXPECT_EQ(table.parameters[4].offset, 520u + 25'050u);
}

TEST(Models, FillsInOmittedFields) {
  const auto net = BuildNetOfLayers(R"(layers { name: "c" conv { outputs: 2 kernel: 3 } }
                            layers { name: "p" max_pool { kernel: 2 } }
                            layers { name: "d" dense { outputs: 3 } }
                            layers { name: "l" softmax_loss {} })");
  ASSERT_TRUE(net.ok()) << net.status().message();
  EXPECT_EQ(net->input().height(), 8u);
  EXPECT_EQ(net->classes(), 3u);
  const pb::LayerDef& conv_layer = net->layers(0);
  EXPECT_THAT(conv_layer.inputs(), ElementsAre("data"));
  EXPECT_EQ(conv_layer.output(), "c");
  EXPECT_TRUE(conv_layer.conv().has_stride());
  EXPECT_EQ(conv_layer.conv().stride(), 1u);
  EXPECT_TRUE(conv_layer.conv().has_padding());
  EXPECT_TRUE(conv_layer.conv().weight_init().has_xavier());
  EXPECT_TRUE(conv_layer.conv().bias_init().has_constant());
  EXPECT_EQ(net->layers(1).max_pool().stride(), 2u);
  EXPECT_THAT(net->layers(2).inputs(), ElementsAre("p"));
  EXPECT_THAT(net->layers(3).inputs(), ElementsAre("d", "label"));
}

TEST(Models, CompletingTwiceChangesNothing) {
  const auto completed_once = BuildNet(LeNetModel(pb::Model::same), MakeImageShape(1, 28, 28), 10);
  pb::Model model;
  *model.mutable_net() = *completed_once;
  const auto completed_twice = BuildNet(model, MakeImageShape(1, 28, 28), 10);
  ASSERT_TRUE(completed_twice.ok()) << completed_twice.status().message();
  EXPECT_EQ(completed_once->SerializeAsString(), completed_twice->SerializeAsString());
}

TEST(Models, FollowsNamedInputsAndOutputs) {
  const auto net = BuildNetOfLayers(
      R"(layers { name: "d" inputs: "data" output: "x" dense { outputs: 3 } }
                            layers { name: "l" inputs: "x" inputs: "label" softmax_loss {} })");
  ASSERT_TRUE(net.ok()) << net.status().message();
  EXPECT_EQ(InferShapes(*net)->at("x").c, 3u);
  EXPECT_EQ(MakeParameterTable(*net)->parameters[0].name, "d.weight");
}

TEST(Models, UnknownNamesListTheKnownOnes) {
  pb::Model model;
  model.set_name("lenett");
  const auto net = BuildNet(model, MakeImageShape(1, 28, 28), 10);
  ASSERT_FALSE(net.ok());
  EXPECT_EQ(net.status().code(), Code::kBadJob);
  EXPECT_THAT(net.status().message(),
              HasSubstr("\"lenett\" is not known; the known ones are lenet, cifarnet"));
}

TEST(Models, RequiresEitherANameOrANet) {
  EXPECT_THAT(BuildNet(pb::Model(), MakeImageShape(1, 8, 8), 3).status().message(),
              HasSubstr("neither name nor net"));
  pb::Model model_with_both = LeNetModel(pb::Model::valid);
  model_with_both.mutable_net();
  EXPECT_THAT(BuildNet(model_with_both, MakeImageShape(1, 8, 8), 3).status().message(),
              HasSubstr("both name and net"));
}

TEST(Models, LeNetOnATinyImageNamesTheLayerThatDoesNotFit) {
  const auto net = BuildNet(LeNetModel(pb::Model::valid), MakeImageShape(1, 12, 12), 10);
  ASSERT_FALSE(net.ok());
  EXPECT_THAT(net.status().message(),
              HasSubstr("layer \"conv2\" (conv): height: kernel 5 does not fit an input of 4"));
}

// An invalid network, and what the error message must contain.
struct BadNet {
  const char* layers_text;
  const char* expected_message;
};

class InvalidNets : public testing::TestWithParam<BadNet> {};

TEST_P(InvalidNets, AreRefusedWithAMessageThatNamesTheLayer) {
  const auto net = BuildNetOfLayers(GetParam().layers_text);
  ASSERT_FALSE(net.ok()) << GetParam().layers_text;
  EXPECT_EQ(net.status().code(), Code::kBadJob);
  EXPECT_THAT(net.status().message(), HasSubstr(GetParam().expected_message));
}

INSTANTIATE_TEST_SUITE_P(
    Nets, InvalidNets,
    testing::Values(
        BadNet{"layers { name: 'd' conv { outputs: 3 kernel: 3 pad: 3 } } layers { name: 'l' "
               "softmax_loss {} }",
               "pad is 3; it must be less than the 3 pixels that the kernel covers"},
        BadNet{"layers { name: 'd' conv { outputs: 3 kernel: 3 pad: 1 padding: same } } layers { "
               "name: 'l' softmax_loss {} }",
               "both pad and padding are given"},
        BadNet{"layers { name: 'd' conv { outputs: 3 kernel: 3 groups: 3 } } layers { name: 'l' "
               "softmax_loss {} }",
               "groups is 3, which must divide its 1 input channels and its 3 outputs"},
        BadNet{"layers { name: 'd' conv { outputs: 3 kernel: 3 dilation: 4 } } layers { name: 'l' "
               "softmax_loss {} }",
               "kernel 3 does not fit an input of 8"},
        BadNet{"layers { name: 'd' max_pool { kernel: 2 include_padding: true } } layers { name: "
               "'l' softmax_loss {} }",
               "include_padding is for avg_pool"},
        BadNet{"layers { name: 'd' max_pool { kernel: 300 pad: 299 } } layers { name: 'l' "
               "softmax_loss {} }",
               "its window has 90000 elements; it must have at most 65536"},
        BadNet{"layers { name: 'd' avg_pool { kernel: 2 global: true } } layers { name: 'l' "
               "softmax_loss {} }",
               "global takes the whole image"},
        BadNet{"layers { name: 'd' lrn { size: 4 } } layers { name: 'l' softmax_loss {} }",
               "size is 4; it must be odd"},
        BadNet{"layers { name: 'd' dropout { rate: 1 } } layers { name: 'l' softmax_loss {} }",
               "rate is 1; it must be a finite number of at least 0 and at most 0.999"},
        BadNet{
            "layers { name: 'd' batch_norm { epsilon: 0 } } layers { name: 'l' softmax_loss {} }",
            "epsilon is 0; it must be"},
        BadNet{"layers { name: 'd' scale {} } layers { name: 'l' softmax_loss {} }",
               "factor is missing"},
        BadNet{"layers { name: 'd' batch_norm { weight_init { dirac {} } } } layers { name: 'l' "
               "softmax_loss {} }",
               "weight_init is dirac; it must be another one here"},
        BadNet{"layers { name: 'd' relu { max: -1 } } layers { name: 'l' softmax_loss {} }",
               "max is -1; it must be"},
        BadNet{"layers { name: 'd' inputs: 'data' add {} } layers { name: 'l' softmax_loss {} }",
               "it has 1 inputs; add takes 2 to 64"},
        BadNet{"layers { name: 'c' conv { outputs: 3 kernel: 3 } } "
               "layers { name: 'd' inputs: 'c' inputs: 'data' add {} } "
               "layers { name: 'l' softmax_loss {} }",
               "layer \"d\" (add): its inputs are 3 x 6 x 6 and 1 x 8 x 8; inputs of add"},
        BadNet{"layers { name: 'c' conv { outputs: 3 kernel: 3 } } "
               "layers { name: 'd' inputs: 'c' inputs: 'data' concat {} } "
               "layers { name: 'l' softmax_loss {} }",
               "layer \"d\" (concat): its inputs are 3 x 6 x 6 and 1 x 8 x 8; inputs of concat"},
        BadNet{"", "it has no layers"},
        BadNet{"layers { dense { outputs: 3 } } layers { name: 'l' softmax_loss {} }",
               "layer number 1 needs a name"},
        BadNet{"layers { name: 'a b' dense { outputs: 3 } }", "layer number 1 needs a name"},
        BadNet{"layers { name: 'd' relu {} } layers { name: 'd' dense { outputs: 3 } } "
               "layers { name: 'l' softmax_loss {} }",
               "two layers are called \"d\""},
        BadNet{
            "layers { name: 'd' } layers { name: 'l' softmax_loss {} }",
            "layer \"d\" (none): it has no kind; give it one of conv, max_pool, avg_pool, dense"},
        BadNet{"layers { name: 'd' inputs: 'dat' dense { outputs: 3 } } "
               "layers { name: 'l' softmax_loss {} }",
               "layer \"d\" (dense): its input \"dat\" is made by no earlier layer"},
        BadNet{"layers { name: 'd' inputs: 'e' dense { outputs: 3 } } "
               "layers { name: 'e' dense { outputs: 3 } } layers { name: 'l' softmax_loss {} }",
               "layer \"d\" (dense): its input \"e\" is made by no earlier layer"},
        BadNet{"layers { name: 'd' inputs: 'label' dense { outputs: 3 } } "
               "layers { name: 'l' softmax_loss {} }",
               "layer \"d\" (dense): it reads \"label\""},
        BadNet{"layers { name: 'd' inputs: 'data' inputs: 'data' dense { outputs: 3 } } "
               "layers { name: 'l' softmax_loss {} }",
               "layer \"d\" (dense): it has 2 inputs; dense takes one"},
        BadNet{"layers { name: 'data' dense { outputs: 3 } } layers { name: 'l' softmax_loss {} }",
               "layer \"data\" (dense): its output \"data\" is already made by the data"},
        BadNet{"layers { name: 'a' dense { outputs: 3 } } "
               "layers { name: 'b' output: 'a' dense { outputs: 3 } } "
               "layers { name: 'l' softmax_loss {} }",
               "layer \"b\" (dense): its output \"a\" is already made by layer \"a\""},
        BadNet{"layers { name: 'a' dense { outputs: 3 } } "
               "layers { name: 'b' inputs: 'data' dense { outputs: 3 } } "
               "layers { name: 'l' softmax_loss {} }",
               "net: no layer reads \"a\""},
        BadNet{"layers { name: 'd' dense { outputs: 3 } }",
               "layer \"d\" (dense): the last layer must be a softmax_loss"},
        BadNet{"layers { name: 'd' dense { outputs: 3 } } layers { name: 'l' softmax_loss {} } "
               "layers { name: 'm' softmax_loss {} }",
               "layer \"l\" (softmax_loss): softmax_loss must be the last layer, and only once"},
        BadNet{"layers { name: 'd' dense { outputs: 4 } } layers { name: 'l' softmax_loss {} }",
               "layer \"l\" (softmax_loss): its input is 4 x 1 x 1, but there are 3 classes"},
        BadNet{"layers { name: 'd' dense { outputs: 3 } } "
               "layers { name: 'l' inputs: 'd' inputs: 'd' softmax_loss {} }",
               "layer \"l\" (softmax_loss): its inputs are \"d\" and \"d\"; they must be the "
               "scores and"},
        BadNet{"layers { name: 'd' dense {} } layers { name: 'l' softmax_loss {} }",
               "layer \"d\" (dense): outputs is 0; it must be 1 to 65536"},
        BadNet{"layers { name: 'c' conv { outputs: 3 kernel: 70000 padding: same } }",
               "layer \"c\" (conv): kernel is 70000; it must be 1 to 65536"},
        BadNet{"layers { name: 'c' conv { outputs: 3 kernel: 3 stride: 0 } }",
               "layer \"c\" (conv): stride is 0"},
        BadNet{
            "layers { name: 'p' max_pool { kernel: 9 } } layers { name: 'd' dense { outputs: 3 } }"
            "layers { name: 'l' softmax_loss {} }",
            "layer \"p\" (max_pool): height: kernel 9 does not fit an input of 8"},
        BadNet{"layers { name: 'd' dense { outputs: 3 weight_init { normal_std: nan } } }",
               "layer \"d\" (dense): weight_init.normal_std is nan; it must be a finite number"},
        BadNet{"layers { name: 'd' dense { outputs: 3 bias_init { constant: inf } } }",
               "layer \"d\" (dense): bias_init.constant is inf; it must be a finite number"},
        BadNet{"layers { name: 'd' dense { outputs: 3 weight_init { truncated_normal_std: -1 } } }",
               "layer \"d\" (dense): weight_init.truncated_normal_std is -1; it must be"},
        BadNet{"layers { name: 'a' dense { outputs: 65536 } } "
               "layers { name: 'b' dense { outputs: 65536 } } "
               "layers { name: 'd' dense { outputs: 3 } } layers { name: 'l' softmax_loss {} }",
               "layer \"b\" (dense): with it the net has more than 2^31 parameters"},
        BadNet{"layers { name: 'r' relu {} } layers { name: 'l' softmax_loss {} }",
               "layer \"l\" (softmax_loss): its input is 1 x 8 x 8"},
        BadNet{"input { channels: 3 } layers { name: 'd' dense { outputs: 3 } }",
               "model.net.input is 3 x 0 x 0"},
        BadNet{"classes: 7 layers { name: 'd' dense { outputs: 3 } }",
               "model.net.classes is 7, but the data have 3"}));

TEST(Models, RefusesSizesThatOverflow) {
  const char layers[] = R"(layers { name: "c" conv { outputs: 65536 kernel: 1 } }
                           layers { name: "d" dense { outputs: 65536 } }
                           layers { name: "l" softmax_loss {} })";
  EXPECT_THAT(
      BuildNetOfLayers(layers, MakeImageShape(65536, 65536, 65536), 65536).status().message(),
      HasSubstr("an image of 65536 x 65536 x 65536 has more than 2^31 elements"));
  EXPECT_THAT(
      BuildNetOfLayers(layers, MakeImageShape(1, 65536, 1024), 65536).status().message(),
      HasSubstr("layer \"c\" (conv): its output of 65536 x 65536 x 1024 has more than 2^31"));
  EXPECT_THAT(BuildNetOfLayers(layers, MakeImageShape(1, 0, 5), 3).status().message(),
              HasSubstr("input.height is 0"));
  EXPECT_THAT(BuildNetOfLayers(layers, MakeImageShape(1, 70000, 5), 3).status().message(),
              HasSubstr("input.height is 70000"));
  EXPECT_THAT(BuildNetOfLayers(layers, MakeImageShape(1, 8, 8), 0).status().message(),
              HasSubstr("classes is 0"));
}

TEST(Models, RefusesANetWithNothingToTrain) {
  EXPECT_THAT(
      BuildNetOfLayers(
          "layers { name: 'p' max_pool { kernel: 8 } } layers { name: 'l' softmax_loss {} }",
          MakeImageShape(3, 8, 8), 3)
          .status()
          .message(),
      HasSubstr("no layer has parameters"));
}

TEST(Models, RefusesTooManyLayers) {
  std::string layers;
  for (int i = 0; i < 10'000; ++i)
    layers += "layers { name: 'r" + std::to_string(i) + "' relu {} }";
  EXPECT_THAT(BuildNetOfLayers(layers + "layers { name: 'l' softmax_loss {} }").status().message(),
              HasSubstr("it has 10001 layers; at most 10000"));
}

}  // namespace
}  // namespace tern::models
