#!/usr/bin/env python3
"""Computes scores with ONNX Runtime on the CPU: run_onnx.py {MODEL.onnx IMAGES.npy SCORES.npy}..."""
import sys

import numpy
import onnxruntime


def run(model, images, scores):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    numpy.save(scores, session.run(["scores"], {"data": numpy.load(images)})[0])


if __name__ == "__main__":
    for first in range(1, len(sys.argv), 3):
        run(*sys.argv[first:first + 3])
