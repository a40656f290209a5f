// Convolution by 5 x 5 windows with stride 1 on the CPU, by Winograd's algorithm: transforms tiles
// of the images and the filters (kernels/nn/winograd.h), multiplies the transforms, 64 pairs
// of matrices, and transforms the products back. In comments, x and y are input and output images,
// u the transformed input tiles, f the transformed filters, and dx, dy, ... the gradients.
#include "kernels/nn/winograd.h"

#include <algorithm>
#include <string_view>

#include "kernels/nn/matrices.h"
#include "worker/engine/cpu/layers.h"

namespace tern::engine {
namespace {

using dnnl::memory;
using Tag = dnnl::memory::format_tag;
using kernels::kWinogradChannels;
using kernels::kWinogradMatrices;

// The most bytes of transformed tiles of a chunk of images, so that the tiles stay in a core's own
// cache. If the tiles of one image have more bytes, each chunk is one image.
constexpr size_t kChunkBytes = size_t{640} << 10;
// The sizes of a cache line and of a page of memory, in floats.
constexpr size_t kCacheLineFloats = 64 / sizeof(float), kPageFloats = 4096 / sizeof(float);

// The shape and memory layout of the layer's input or output images, and of their tiles. Below, n
// is the number of an image, and c the first channel of a block of channels.
struct ImageLayout {
  size_t channels = 0, height = 0, width = 0;
  size_t tile_rows = 0, tile_columns = 0;
  bool is_blocked = false;

  size_t tiles() const { return tile_rows * tile_columns; }  // The number of tiles of one image.
  // The index of the first element of channel c of image n.
  size_t OffsetOf(size_t n, size_t c) const {
    return n * channels * height * width + c * (is_blocked ? height * width : 1);
  }
  // The index of the first element of channel c of the tiles of image n.
  size_t TileOffsetOf(size_t n, size_t c) const { return n * tiles() * channels + c; }
  // Describes the block of channels from c on of an image to the kernels.
  kernels::WinogradImage ImageOf(size_t c) const {
    return {height, width, is_blocked ? kWinogradChannels : channels,
            std::min(kWinogradChannels, channels - c)};
  }
  // The tiles of a chunk of images are stored as 64 matrices, one for each element of a tile.
  // Returns the number of floats from one matrix to the next. It is not a multiple of a page:
  // otherwise the 64 elements of a tile would compete for the same cache sets.
  size_t MatrixStride(size_t images) const {
    const size_t stride =
        (images * tiles() * channels + kCacheLineFloats - 1) / kCacheLineFloats * kCacheLineFloats;
    return stride % kPageFloats == 0 ? stride + kCacheLineFloats : stride;
  }
  kernels::WinogradTiles Tiles(size_t images) const {
    return {tile_rows, tile_columns, MatrixStride(images), channels};
  }
  memory::desc TilesDesc(size_t images) const {
    const auto to_dim = [](size_t size) { return static_cast<memory::dim>(size); };
    return {memory::dims{kWinogradMatrices, to_dim(images * tiles()), to_dim(channels)},
            memory::data_type::f32,
            memory::dims{to_dim(MatrixStride(images)), to_dim(channels), 1}};
  }
};

// Images [first_image, first_image + num_images) of the batch.
struct ImageChunk {
  size_t first_image = 0, num_images = 0;
  // Calls work(n, c), on all threads, for each image n of the chunk, counted from 0, and for the
  // first channel c of each block of channels.
  template <typename Work>
  void ForEachBlock(const ImageLayout& layout, const Work& work) const {
#pragma omp parallel for collapse(2)
    for (size_t n = 0; n < num_images; ++n)
      for (size_t c = 0; c < layout.channels; c += kWinogradChannels) work(n, c);
  }
};

ImageLayout LayoutOf(const LayerSpec& spec, const models::ImageDims& image) {
  return {image.c,
          image.h,
          image.w,
          (spec.output.h + kernels::kWinogradStep - 1) / kernels::kWinogradStep,
          (spec.output.w + kernels::kWinogradStep - 1) / kernels::kWinogradStep,
          ActivationTag(image.c) == kBlocked};
}

Value TransposeMatrices(const Value& value) {
  Value transposed = value;
  transposed.desc = value.desc.permute_axes({0, 2, 1});
  return transposed;
}

// The distances in floats from matrix to matrix, row to row and column to column.
struct Strides {
  explicit Strides(const memory::desc& desc) {
    const auto& strides = desc.data.format_desc.blocking.strides;
    matrix = static_cast<size_t>(strides[0]);
    row = static_cast<size_t>(strides[1]);
    column = static_cast<size_t>(strides[2]);
  }
  kernels::Matrix MatrixAt(const float* data, size_t t) const {
    return {data + t * matrix, row, column};
  }
  size_t matrix, row, column;
};

// Appends a step that computes product = a b or, if `accumulates`, product += a b, for each of the
// 64 matrices, by kernels/nn/matrices.h.
void AddOwnProduct(Program* program, const Value& a, const Value& b, const Value& product,
                   bool accumulates) {
  const auto size_of = [](const Value& value, size_t axis) {
    return static_cast<size_t>(value.desc.dims()[axis]);
  };
  const kernels::ProductSize size{size_of(product, 1), size_of(product, 2), size_of(a, 2)};
  program->Call(
      {a, b, product}, [size, accumulates, of_a = Strides(a.desc), of_b = Strides(b.desc),
                        of_product = Strides(product.desc)](const std::vector<float*>& data) {
#pragma omp parallel for
        for (size_t t = 0; t < kWinogradMatrices; ++t)
          kernels::MultiplyMatrices(size, of_a.MatrixAt(data[0], t), of_b.MatrixAt(data[1], t),
                                    accumulates, data[2] + t * of_product.matrix, of_product.row);
      });
}

// Like AddOwnProduct, by oneDNN if it has a batched product for this CPU. Its general one, all that
// it has without AVX-512, copies both factors, which takes longer than to multiply them.
void AddProduct(Program* program, const Value& a, const Value& b, const Value& product,
                bool accumulates) {
  dnnl::primitive_attr attributes = Program::Attributes();
  dnnl::post_ops post_ops;
  if (accumulates) post_ops.append_sum();
  attributes.set_post_ops(post_ops);
  const dnnl::matmul::primitive_desc desc({a.desc, b.desc, product.desc}, attributes,
                                          program->engine());
  if (std::string_view(desc.impl_info_str()).starts_with("gemm"))
    return AddOwnProduct(program, a, b, product, accumulates);
  program->Run<dnnl::matmul>(desc,
                             {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, product}});
}

class Winograd : public Layer {
 public:
  explicit Winograd(const LayerSpec& spec)
      : spec_(spec),
        x_layout_(LayoutOf(spec, spec.input())),
        y_layout_(LayoutOf(spec, spec.output)),
        filters_desc_(DescOf({kWinogradMatrices, spec.input().c, spec.output.c}, Tag::abc)) {
    const WindowGeometry window = WindowGeometryOf(spec.def->conv(), spec.input());
    pad_top_ = static_cast<size_t>(window.pad_begin[0]);
    pad_left_ = static_cast<size_t>(window.pad_begin[1]);
    const size_t tile_bytes_per_image = kWinogradMatrices * x_layout_.tiles() *
                                        (x_layout_.channels + y_layout_.channels) * sizeof(float);
    const size_t images_per_chunk = std::max<size_t>(1, kChunkBytes / tile_bytes_per_image);
    for (size_t first_image = 0; first_image < spec.batch; first_image += images_per_chunk)
      chunks_.push_back({first_image, std::min(images_per_chunk, spec.batch - first_image)});
  }

  Value Forward(Program* program, const std::vector<Value>& inputs) override;
  std::vector<Value> Backward(Program* program, const Value& gradient,
                              const std::vector<bool>& wanted) override;

 private:
  // These append the steps that transform the filters, the input tiles, and the products, and the
  // backward steps of these transforms.
  Value AddFilterTransform(Program* program);
  void AddInputTransform(Program* program, const ImageChunk& chunk, const Value& input,
                         const Value& tiles);
  void AddOutputTransform(Program* program, const ImageChunk& chunk, const Value& product);
  void AddOutputBackward(Program* program, const ImageChunk& chunk, const Value& gradient,
                         const Value& tiles);
  void AddInputBackward(Program* program, const ImageChunk& chunk, const Value& tiles,
                        const Value& input_gradient);
  void AddFilterBackward(Program* program, const Value& filters_gradient);

  const LayerSpec spec_;
  const ImageLayout x_layout_, y_layout_;
  const memory::desc filters_desc_;    // The layout of the transformed filters.
  size_t pad_top_ = 0, pad_left_ = 0;  // The padding before the first row and column.
  std::vector<ImageChunk> chunks_;
  std::vector<Value> tiles_;  // Transformed input tiles (u) of each chunk, for Backward.
  // The output y, the transformed filters f, and the sums of dy for each image and channel.
  Value output_, transformed_filters_, bias_sums_;
};

Value Winograd::Forward(Program* program, const std::vector<Value>& inputs) {
  const Value input =
      program->Convert(inputs[0], ActivationDesc(DimsOf(spec_.batch, spec_.input())));
  transformed_filters_ = AddFilterTransform(program);
  output_ = program->NewValue(ActivationDesc(DimsOf(spec_.batch, spec_.output)));
  for (const ImageChunk& chunk : chunks_) {
    const Value tiles = program->NewValue(x_layout_.TilesDesc(chunk.num_images));
    AddInputTransform(program, chunk, input, tiles);
    const Value product = program->NewValue(y_layout_.TilesDesc(chunk.num_images));
    AddProduct(program, tiles, transformed_filters_, product, /*accumulates=*/false);
    AddOutputTransform(program, chunk, product);
    if (spec_.is_training) tiles_.push_back(tiles);
  }
  return output_;
}

std::vector<Value> Winograd::Backward(Program* program, const Value& gradient,
                                      const std::vector<bool>& wanted) {
  Value masked_gradient = program->Convert(gradient, output_.desc);
  if (spec_.has_relu) masked_gradient = AddReluBackward(program, output_, masked_gradient);
  const Value filters_gradient = program->NewValue(filters_desc_);
  bias_sums_ = program->NewValue(DescOf({spec_.batch, spec_.output.c}, Tag::ab));
  Value input_gradient;
  if (wanted[0])
    input_gradient = program->NewValue(ActivationDesc(DimsOf(spec_.batch, spec_.input())));
  for (size_t i = 0; i < chunks_.size(); ++i) {
    const Value tiles_gradient = program->NewValue(y_layout_.TilesDesc(chunks_[i].num_images));
    AddOutputBackward(program, chunks_[i], masked_gradient, tiles_gradient);
    if (!spec_.is_frozen) {
      AddProduct(program, TransposeMatrices(tiles_[i]), tiles_gradient, filters_gradient,
                 /*accumulates=*/i > 0);
    }
    if (!wanted[0]) continue;
    const Value product = program->NewValue(x_layout_.TilesDesc(chunks_[i].num_images));
    AddProduct(program, tiles_gradient, TransposeMatrices(transformed_filters_), product,
               /*accumulates=*/false);
    AddInputBackward(program, chunks_[i], product, input_gradient);
  }
  if (!spec_.is_frozen) AddFilterBackward(program, filters_gradient);
  return {input_gradient};
}

Value Winograd::AddFilterTransform(Program* program) {
  const Value transformed_filters = program->NewValue(filters_desc_);
  program->Call({transformed_filters},
                [weight = spec_.parameters[0].values, outputs = y_layout_.channels,
                 inputs = x_layout_.channels](const std::vector<float*>& data) {
#pragma omp parallel for
                  for (size_t i = 0; i < inputs; ++i)
                    kernels::WinogradFilter(weight, outputs, inputs, i, data[0]);
                });
  return transformed_filters;
}

void Winograd::AddInputTransform(Program* program, const ImageChunk& chunk, const Value& input,
                                 const Value& tiles) {
  program->Call({input, tiles}, [chunk, x_layout = x_layout_, pad_top = pad_top_,
                                 pad_left = pad_left_](const std::vector<float*>& data) {
    chunk.ForEachBlock(x_layout, [&](size_t n, size_t c) {
      kernels::WinogradInput(
          data[0] + x_layout.OffsetOf(chunk.first_image + n, c), x_layout.ImageOf(c), pad_top,
          pad_left, x_layout.Tiles(chunk.num_images), data[1] + x_layout.TileOffsetOf(n, c));
    });
  });
}

void Winograd::AddOutputTransform(Program* program, const ImageChunk& chunk, const Value& product) {
  const float* bias = spec_.def->conv().bias() ? spec_.parameters[1].values : nullptr;
  program->Call({product, output_}, [chunk, y_layout = y_layout_, bias,
                                     relu = spec_.has_relu](const std::vector<float*>& data) {
    chunk.ForEachBlock(y_layout, [&](size_t n, size_t c) {
      kernels::WinogradOutput(data[0] + y_layout.TileOffsetOf(n, c),
                              y_layout.Tiles(chunk.num_images),
                              bias == nullptr ? nullptr : bias + c, relu, y_layout.ImageOf(c),
                              data[1] + y_layout.OffsetOf(chunk.first_image + n, c));
    });
  });
}

void Winograd::AddOutputBackward(Program* program, const ImageChunk& chunk, const Value& gradient,
                                 const Value& tiles) {
  program->Call({gradient, tiles, bias_sums_},
                [chunk, y_layout = y_layout_](const std::vector<float*>& data) {
                  chunk.ForEachBlock(y_layout, [&](size_t n, size_t c) {
                    const size_t image = chunk.first_image + n;
                    kernels::WinogradOutputBackward(
                        data[0] + y_layout.OffsetOf(image, c), y_layout.ImageOf(c),
                        y_layout.Tiles(chunk.num_images), data[1] + y_layout.TileOffsetOf(n, c),
                        data[2] + image * y_layout.channels + c);
                  });
                });
}

void Winograd::AddInputBackward(Program* program, const ImageChunk& chunk, const Value& tiles,
                                const Value& input_gradient) {
  program->Call({tiles, input_gradient}, [chunk, x_layout = x_layout_, pad_top = pad_top_,
                                          pad_left = pad_left_](const std::vector<float*>& data) {
    chunk.ForEachBlock(x_layout, [&](size_t n, size_t c) {
      kernels::WinogradInputBackward(
          data[0] + x_layout.TileOffsetOf(n, c), x_layout.Tiles(chunk.num_images), pad_top,
          pad_left, x_layout.ImageOf(c), data[1] + x_layout.OffsetOf(chunk.first_image + n, c));
    });
  });
}

// Appends the step that computes the gradients of the filters and of the bias. The bias's gradient
// is summed in the order of the images.
void Winograd::AddFilterBackward(Program* program, const Value& filters_gradient) {
  program->Call({filters_gradient, bias_sums_},
                [weight = spec_.parameters[0].gradient,
                 bias = spec_.def->conv().bias() ? spec_.parameters[1].gradient : nullptr,
                 outputs = y_layout_.channels, inputs = x_layout_.channels,
                 batch = spec_.batch](const std::vector<float*>& data) {
#pragma omp parallel for
                  for (size_t i = 0; i < inputs; ++i)
                    kernels::WinogradFilterBackward(data[0], outputs, inputs, i, weight);
                  for (size_t c = 0; bias != nullptr && c < outputs; ++c) {
                    double sum = 0;
                    for (size_t n = 0; n < batch; ++n) sum += data[1][n * outputs + c];
                    bias[c] = static_cast<float>(sum);
                  }
                });
}

}  // namespace

bool SuitsWinograd(const LayerSpec& spec) {
  const pb::ConvDef& def = spec.def->conv();
  return !MultipliesBf16(spec) && def.kernel() == kernels::kWinogradWindow && def.stride() == 1 &&
         def.groups() == 1 && def.dilation() == 1 && spec.input().c >= kWinogradChannels &&
         spec.output.c >= kWinogradChannels;
}

std::unique_ptr<Layer> MakeWinograd(const LayerSpec& spec) {
  return std::make_unique<Winograd>(spec);
}

}  // namespace tern::engine
