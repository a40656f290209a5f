"""What is asked of a GPU, in the order of gpu_check.py's table. A row without a bar is said for what it is; the bars of
whole trainings are the check's own, since few epochs of one seed scatter."""
from targets import Target, at_most

MOVED = "moved bytes / copy bandwidth"

GPU_TARGETS = {
    "device": Target("the device"),
    "tests_kernels": Target("kernels against the CPU's bits: gpu_kernels_test"),
    "tests_engine": Target("nets against references and PyTorch's golden vectors: gpu_engine_test"),
    "sanitizer_kernels": Target("the kernels' tests under compute-sanitizer (memcheck)"),
    "sanitizer_engine": Target("tests of nets under compute-sanitizer (memcheck)"),
    "mixed_momentum": Target("a CPU's and a GPU's worker, momentum, 100 rounds: replicas agree"),
    "mixed_adam": Target("a CPU's and a GPU's worker, Adam, 100 rounds: replicas agree"),
    "train_lenet": at_most("LeNet, server and two workers on one GPU: accuracy below the CPU's, points", 1),
    "train_resnet20": at_most("ResNet-20, server and two workers on one GPU: accuracy below the CPU's, points", 2),
    "copy": Target("copy on the device, read and written, TB/s"),
    "to_device": Target("copy to the device, pinned, GB/s"),
    "from_device": Target("copy from the device, pinned, GB/s"),
    "launch": Target("a launch of a small kernel, us"),
    "product_bf16": Target("matrix product in bf16 by PyTorch, TFLOP/s"),
    "product_tf32": Target("matrix product in TF32 by PyTorch, TFLOP/s"),
    "ternarize": Target(f"statistics and codes, AlexNet's tensors: {MOVED}", 0.85, 0.92, 1),
    "codes": Target(f"codes alone (scalers of the step before), AlexNet's tensors: {MOVED}", None, 0.88, 1),
    "ternarize_one": Target(f"statistics and codes, one large tensor: {MOVED}", None, 0.92, 1),
    "ternarize_vs_eager": Target("ternarizing AlexNet's tensors, PyTorch eager / Tern", None, 10),
    "ternarize_vs_compiled": Target("ternarizing AlexNet's tensors, PyTorch compiled / Tern", None, 2),
    "resnet50_us": at_most("statistics and codes of ResNet-50's 161 tensors, us", 100, 85, 70),
    "resnet50_launches": at_most("launches of it", 2, 2),
    "resnet50_vs_eager": Target("the same, PyTorch eager / Tern", None, 100),
    "decode_momentum": Target(f"sums to weights with momentum, the worst of N = 2, 4, 8: {MOVED}", 0.85, 0.9, 1),
    "decode_adam": Target(f"sums to weights with Adam, the worst of N = 2, 4, 8: {MOVED}", None, 0.9, 1),
    "decode_vs_torch": Target("sums to weights with momentum, PyTorch's fused SGD after its decoding / Tern", None, 1.8),
    "step_resnet20": Target("ResNet-20, batch 128: images/s, Tern / PyTorch eager bf16 channels-last", 6, 10),
    "step_resnet50": Target("ResNet-50, batch 256: images/s, Tern / PyTorch eager bf16 channels-last", 1.2, 1.6),
    "rate_resnet50": Target("ResNet-50, batch 256: images/s", None, 4500, 9640),
    "tf32_resnet50": Target("ResNet-50, batch 256: images/s, Tern TF32 / PyTorch eager TF32 channels-last", None, 1.35),
    "step_lenet": Target("LeNet, batch 64: images/s, Tern / PyTorch eager bf16 channels-last", None, 12),
    "step_vgg16": Target("VGG-16, batch 64: images/s, Tern / PyTorch eager bf16 channels-last"),
    "step_alexnet": Target("AlexNet, batch 256: images/s, Tern / PyTorch eager bf16 channels-last"),
    "step_googlenet": Target("GoogLeNet, batch 128: images/s, Tern / PyTorch eager bf16 channels-last"),
    "step_mobilenet": Target("MobileNet, batch 128: images/s, Tern / PyTorch eager bf16 channels-last"),
    "compile_resnet20": Target("ResNet-20, batch 128: images/s, Tern / torch.compile max-autotune", None, 1.3),
    "compile_resnet50": Target("ResNet-50, batch 256: images/s, Tern / torch.compile max-autotune", None, 1.3),
    "compile_lenet": Target("LeNet, batch 64: images/s, Tern / torch.compile max-autotune", None, 1.5),
    "compile_alexnet": Target("AlexNet, batch 256: images/s, Tern / torch.compile max-autotune", None, 1.4),
    "compile_vgg16": Target("VGG-16, batch 64: images/s, Tern / torch.compile max-autotune", None, 1.05),
    "compile_googlenet": Target("GoogLeNet, batch 128: images/s, Tern / torch.compile max-autotune", None, 1.5),
    "compile_mobilenet": Target("MobileNet, batch 128: images/s, Tern / torch.compile max-autotune", None, 1.8),
    "cpu_us": at_most("CPU time of a training step, ResNet-20, us", 40, 20),
    "exposed_codes": Target("bytes and time of codes from the device beside fp32 gradients'", None, 15, 16),
    "exchange_overhead": at_most("a step with server and exchange / without, ResNet-50", None, 1.03),
    "cifar10_94": at_most("94 % on CIFAR-10: seconds / airbench94's", None, 1),
}

# Rows that no step of the check measures.
NOT_MEASURED = {
    "exposed_codes": "not by this check: it would need the copy stream timed inside a job",
    "exchange_overhead": "not by this check: it would take minutes of training alone",
    "cifar10_94": "not by this check: ten seeds of both take longer than it may",
}
