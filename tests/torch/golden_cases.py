"""Small nets that together cover every layer with its shapes and corner cases, as NetDefs in JSON.

A first convolution produces the image of a case. Sample n of its input is the n-th unit vector of 1 x 1 pixels, and its
kernel covers the whole image. So sample n of its output is the n-th slice of its weights, mirrored, and the gradient of
these weights is the gradient of the image. The last layer is dense with more classes than samples, so the gradient of
its weights determines every output of the layer before it.
"""
SAMPLES, CLASSES = 2, 4


def conv(outputs, kernel, stride=1, groups=1, dilation=1, bias=True, **padding):
    return {"conv": {"outputs": outputs, "kernel": kernel, "stride": stride, "groups": groups, "dilation": dilation,
                     "bias": bias, **padding}}


def max_pool(kernel, stride, **padding):
    return {"maxPool": {"kernel": kernel, "stride": stride, "global": False, **padding}}


def avg_pool(kernel, stride, **padding):
    return {"avgPool": {"kernel": kernel, "stride": stride, "global": False, **padding}}


def dense(outputs):
    return {"dense": {"outputs": outputs}}


def norm(epsilon=1e-5, momentum=0.1):
    return {"batchNorm": {"epsilon": epsilon, "momentum": momentum}}


def scale(factor):
    return {"scale": {"factor": factor}}


def lrn(size, alpha, beta, k):
    return {"lrn": {"size": size, "alpha": alpha, "beta": beta, "k": k}}


def reads(*inputs, **layer):
    return {"inputs": list(inputs), **layer}


GLOBAL_MAX = {"maxPool": {"global": True}}
GLOBAL_AVERAGE = {"avgPool": {"global": True}}
RELU, RELU6, GELU, SAME = {"relu": {}}, {"relu": {"max": 6}}, {"gelu": {}}, {"padding": "same"}
ADD, CONCAT, STANDARDIZE = {"add": {}}, {"concat": {}}, {"standardize": {}}


def net(channels, side, layers, samples=SAMPLES, smoothing=0.0, rectangle=None, ends_in_scores=False):
    """`layers`: each layer reads the previous one, or those that reads() names: "image", or indices in the list.
    `rectangle` (height, width): the image is random instead, and has no gradient."""
    named = [{"name": "image", **conv(channels, side, pad=side - 1, bias=False)}] if rectangle is None else []
    named += [{"name": f"l{place}", **layer} for place, layer in enumerate(layers)]
    classes = max(CLASSES, samples + 1)
    if not ends_in_scores:
        named.append({"name": "scores", **dense(classes)})
    named.append({"name": "loss", "softmaxLoss": {"labelSmoothing": smoothing}})
    before = "data"
    for layer in named:
        layer.setdefault("inputs", [before])
        layer["inputs"] = [f"l{name}" if isinstance(name, int) else name for name in layer["inputs"]]
        layer["output"] = before = layer["name"]
    height, width = rectangle or (1, 1)
    return {"input": {"channels": samples if rectangle is None else channels, "height": height, "width": width},
            "classes": classes, "layers": named}


def basic_block(channels, stride, inputs):
    """The basic block of resnet20, after a convolution with norm and ReLU (l0 to l2)."""
    layers = [conv(inputs, 3, pad=1, bias=False), norm(), RELU,
              conv(channels, 3, stride, pad=1, bias=False), norm(), RELU, conv(channels, 3, pad=1, bias=False), norm()]
    if stride == 1 and inputs == channels:
        return [*layers, reads(7, 2, **ADD), RELU]
    return [*layers, reads(2, **conv(channels, 1, stride, pad=0, bias=False)), norm(), reads(7, 9, **ADD), RELU]


def bottleneck(channels, stride):
    return [conv(8, 1, bias=False), norm(), RELU, conv(8, 3, stride, pad=1, bias=False), norm(), RELU,
            conv(channels, 1, bias=False), norm(), reads("image", **conv(channels, 1, stride, pad=0, bias=False)), norm(),
            reads(7, 9, **ADD), RELU]


def pre_activated(channels):
    return [norm(), RELU, conv(channels, 3, pad=1, bias=False), norm(), RELU, conv(channels, 3, pad=1, bias=False),
            reads(5, "image", **ADD), norm(), RELU, GLOBAL_AVERAGE]


def separable(inputs, outputs, stride):
    """The separable convolution of mobilenet."""
    return [conv(inputs, 3, stride, groups=inputs, pad=1, bias=False), norm(), RELU, conv(outputs, 1, bias=False), norm(), RELU]


def convolutions():
    yield "conv_valid", net(3, 6, [conv(4, 3)])
    yield "conv_same", net(3, 6, [conv(4, 3, **SAME)])
    yield "conv_same_even_kernel", net(3, 7, [conv(4, 4, **SAME)])
    yield "conv_same_stride_2_of_even", net(3, 8, [conv(5, 3, 2, **SAME)])
    yield "conv_same_stride_2_of_odd", net(3, 7, [conv(5, 3, 2, **SAME)])
    yield "conv_same_stride_2_kernel_5", net(2, 8, [conv(5, 5, 2, **SAME)])
    yield "conv_pad_more_than_half", net(2, 5, [conv(4, 3, pad=2)])
    yield "conv_stride_3", net(2, 9, [conv(4, 3, 3)])
    yield "conv_stride_over_kernel", net(2, 9, [conv(4, 2, 3)])
    yield "conv_kernel_over_image", net(2, 3, [conv(4, 7, **SAME)])
    yield "conv_one_by_one", net(5, 6, [conv(7, 1)])
    yield "conv_one_by_one_stride_2", net(5, 7, [conv(7, 1, 2, pad=0)])
    yield "conv_7_by_7_stride_2", net(3, 16, [conv(8, 7, 2, pad=3)])
    yield "conv_11_by_11_stride_4", net(3, 16, [conv(6, 11, 4, pad=2)])
    yield "conv_no_bias", net(3, 6, [conv(4, 3, bias=False)])
    yield "conv_groups", net(6, 6, [conv(9, 3, groups=3, pad=1)])
    yield "conv_groups_of_sixteen", net(32, 6, [conv(32, 3, groups=2, pad=1)])
    yield "depthwise", net(16, 7, [conv(16, 3, groups=16, pad=1)])
    yield "depthwise_stride_2", net(24, 8, [conv(24, 3, 2, groups=24, pad=1, bias=False)])
    yield "depthwise_of_seven", net(7, 7, [conv(7, 3, 2, groups=7, pad=1)])
    yield "depthwise_twice_as_many", net(4, 6, [conv(8, 3, groups=4, pad=1)])
    yield "conv_dilation_2", net(3, 8, [conv(4, 3, dilation=2, pad=2)])
    yield "conv_dilation_3_same", net(3, 9, [conv(4, 2, dilation=3, **SAME)])
    yield "conv_groups_dilation_stride", net(6, 9, [conv(9, 3, 2, groups=3, dilation=2, pad=2)])
    yield "conv_rectangle", net(3, 0, [conv(4, 3, 2, **SAME), RELU, conv(5, 3, pad=1)], rectangle=(7, 10))
    for channels in (16, 32, 48, 64):
        for side in (7, 8, 14, 16):
            yield f"conv3x3_{channels}_of_{side}", net(channels, side, [conv(channels, 3, pad=1, bias=channels == 32)])
    for channels in (16, 32, 64):
        for side in (7, 8, 12):
            yield f"conv5x5_{channels}_of_{side}", net(channels, side, [conv(channels, 5, pad=2, bias=channels == 32)])
    yield "conv5x5_64_of_16", net(64, 16, [conv(64, 5, pad=2)], samples=4)
    yield "conv5x5_16_of_8_pad_4", net(16, 8, [conv(16, 5, pad=4)])
    yield "conv5x5_3_to_64_relu", net(3, 12, [conv(64, 5, pad=2), RELU], samples=3)
    yield "conv5x5_20_to_50_valid", net(20, 12, [conv(50, 5), max_pool(2, 2)], samples=3)
    yield "conv5x5_16_to_32_same", net(16, 13, [conv(32, 5, **SAME), RELU, conv(16, 5, **SAME)], samples=3)
    yield "conv3x3_16_to_32_relu", net(16, 8, [conv(32, 3, pad=1), RELU, conv(16, 3, pad=1), RELU])


def pools():
    yield "max_pool", net(3, 6, [max_pool(2, 2)])
    yield "max_pool_drops_the_rest", net(3, 7, [max_pool(2, 2)])
    yield "max_pool_same", net(3, 7, [max_pool(3, 2, **SAME)])
    yield "max_pool_same_uneven", net(17, 8, [max_pool(3, 2, **SAME)])
    yield "max_pool_pad", net(16, 8, [max_pool(3, 2, pad=1)])
    yield "max_pool_stride_1", net(3, 6, [max_pool(3, 1, pad=1)])
    yield "max_pool_stride_over_kernel", net(3, 7, [max_pool(1, 3)])
    yield "max_pool_global", net(5, 6, [GLOBAL_MAX])
    yield "avg_pool", net(3, 6, [avg_pool(2, 2)])
    yield "avg_pool_overlapping", net(16, 7, [avg_pool(3, 2)])
    yield "avg_pool_pad_not_counted", net(3, 6, [avg_pool(3, 1, pad=1)])
    yield "avg_pool_pad_counted", net(3, 6, [avg_pool(3, 1, pad=1, includePadding=True)])
    yield "avg_pool_same", net(3, 7, [avg_pool(3, 2, **SAME)])
    yield "avg_pool_global", net(5, 6, [GLOBAL_AVERAGE])


def simple_layers():
    yield "dense", net(3, 4, [dense(6)])
    yield "dense_relu_dense", net(3, 4, [dense(17), RELU, dense(9), RELU])
    yield "dense_of_many", net(16, 8, [dense(40)], samples=3)
    yield "relu", net(4, 5, [RELU])
    yield "relu6", net(4, 5, [conv(6, 3), norm(), RELU6, conv(5, 1)])
    yield "relu_max_1", net(4, 5, [conv(6, 3), norm(), {"relu": {"max": 1}}])
    yield "gelu", net(4, 5, [conv(6, 3), norm(), GELU, conv(16, 1), GELU])
    yield "scale", net(3, 4, [dense(9), scale(-0.5)])
    yield "lrn", net(7, 5, [lrn(5, 0.5, 0.75, 1)])
    yield "lrn_cifarnet", net(16, 5, [RELU, lrn(9, 0.001, 0.75, 1)])
    yield "lrn_of_three", net(16, 4, [conv(16, 1), lrn(3, 0.8, 0.6, 2)])
    yield "standardize", net(3, 6, [STANDARDIZE])
    # An image of 108 uniform values in [-1, 1) has a deviation of about 6 times the least divisor.
    yield "standardize_below_the_bound", net(3, 6, [scale(0.85 / 6), STANDARDIZE])
    yield "standardize_far_below_the_bound", net(3, 6, [scale(0.5 / 6), STANDARDIZE])
    yield "standardize_the_data", net(3, 0, [STANDARDIZE, conv(4, 3)], rectangle=(5, 6))
    yield "add", net(4, 6, [conv(4, 3, pad=1), reads(0, "image", **ADD)])
    yield "add_of_three", net(4, 6, [conv(6, 3), conv(6, 1), reads(0, **conv(6, 3, pad=1)), reads(0, 1, 2, **ADD), RELU])
    yield "add_twice_the_same", net(4, 5, [RELU, reads(0, 0, **ADD)])
    yield "concat", net(4, 6, [conv(3, 3, pad=1), reads("image", **max_pool(3, 1, pad=1)), reads("image", **conv(5, 1)),
                               reads(0, 1, 2, "image", **CONCAT), conv(4, 1)])
    yield "loss_smoothed", net(3, 4, [dense(8), RELU], smoothing=0.1, samples=3)
    yield "loss_of_one", net(3, 4, [dense(8), RELU], samples=1)
    yield "scores_of_a_pool", net(3, 5, [conv(CLASSES, 3), GLOBAL_AVERAGE], ends_in_scores=True)
    yield "scores_of_a_conv", net(3, 4, [conv(CLASSES, 4)], ends_in_scores=True)


def norms_and_blocks():
    yield "batch_norm", net(5, 6, [norm()])
    yield "batch_norm_epsilon_momentum", net(5, 6, [conv(6, 3, bias=False), norm(0.01, 0.3)])
    yield "batch_norm_momentum_1", net(5, 6, [conv(6, 3, bias=False), norm(momentum=1)])
    yield "batch_norm_of_dense", net(3, 4, [dense(7), norm(), RELU], samples=5)
    yield "batch_norm_of_one_pixel", net(6, 3, [conv(8, 3), norm(), RELU], samples=6)
    for channels in (16, 24, 32):
        yield f"batch_norm_relu_{channels}", net(channels, 7, [conv(channels, 1, bias=False), norm(), RELU], samples=3)
        yield (f"batch_norm_add_relu_{channels}",
               net(channels, 7, [conv(channels, 3, pad=1, bias=False), norm(), reads(1, "image", **ADD), RELU], samples=3))
        yield (f"two_batch_norms_add_relu_{channels}",
               net(channels, 6, [conv(channels, 1, bias=False), norm(), reads("image", **conv(channels, 1, bias=False)), norm(),
                                 reads(1, 3, **ADD), RELU, conv(8, 1)], samples=3))
    yield "batch_norm_relu6_16", net(16, 7, [norm(), RELU6], samples=3)
    yield "resnet_block_16", net(3, 8, basic_block(16, 1, 16))
    yield "resnet_block_to_32", net(3, 8, basic_block(32, 2, 16))
    yield "resnet_bottleneck", net(16, 8, bottleneck(32, 2))
    yield "resnet_pre_activated", net(16, 7, pre_activated(16))
    yield "mobilenet_pairs", net(3, 14, [conv(16, 3, 2, pad=1, bias=False), norm(), RELU, *separable(16, 24, 1),
                                         *separable(24, 32, 2), GLOBAL_AVERAGE])
    yield "lenet_like", net(1, 12, [conv(6, 5, **SAME), RELU, max_pool(2, 2, **SAME), conv(9, 3, **SAME), RELU,
                                    max_pool(2, 2, **SAME), dense(20), RELU], samples=4)


def all_cases():
    """Returns all cases as {name: net}."""
    cases = {}
    for family in (convolutions, pools, simple_layers, norms_and_blocks):
        for name, one in family():
            cases[name] = one
    return cases
