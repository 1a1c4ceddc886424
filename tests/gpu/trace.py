#!/usr/bin/env python3
"""How long each launch of a decoded token takes, as the device runs them: from the end of one to the end of the next.

    tests/gpu/trace.py LIBBONSAI PLUGIN MODEL [cuda.KEY=VALUE ...] [> table]

LIBBONSAI is libbonsai.so, PLUGIN libbonsai_cuda.so. Needs a PyTorch with CUDA, whose profiler hears of every kernel of
the process (CUPTI), graphs and overlapping launches included. Prints a line for each kernel and the one ahead of it:
how often that came, mean and quartiles of the time between their ends in microseconds, and the grid. A kernel that
starts before the one ahead has ended is thus told by what it adds.
"""
import collections
import ctypes
import json
import os
import statistics
import sys
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile

TOKENS, WARM_TOKENS, PROMPT = 64, 16, b"Once upon"


class EngineOptions(ctypes.Structure):  # bonsai_engine_options
    _fields_ = [
        ("struct_size", ctypes.c_uint32), ("threads", ctypes.c_uint32), ("model", ctypes.c_char_p),
        ("backend", ctypes.c_char_p), ("backend_strict", ctypes.c_uint32), ("n_backend_options", ctypes.c_uint32),
        ("backend_options", ctypes.POINTER(ctypes.c_char_p)), ("context", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32), ("kv", ctypes.c_char_p), ("progress", ctypes.c_void_p),
        ("progress_context", ctypes.c_void_p), ("log", ctypes.c_void_p), ("log_context", ctypes.c_void_p),
        ("chat_template", ctypes.c_char_p),
    ]


class GenerateOptions(ctypes.Structure):  # bonsai_generate_options, as far as it is needed here
    _fields_ = [
        ("struct_size", ctypes.c_uint32), ("max_tokens", ctypes.c_uint32), ("sampling", ctypes.c_uint32 * 9),
        ("ignore_eos", ctypes.c_uint32), ("rest", ctypes.c_uint8 * 96),
    ]


class Failure(ctypes.Structure):  # bonsai_failure
    _fields_ = [("struct_size", ctypes.c_uint32), ("outcome", ctypes.c_uint32), ("message", ctypes.c_char * 1016)]


class Engine:
    def __init__(self, library, plugin, model, backend_options):
        self.library = ctypes.CDLL(library)
        self.handle = ctypes.c_void_p()
        options = EngineOptions()
        self.library.bonsai_engine_options_init(ctypes.byref(options), ctypes.c_uint64(ctypes.sizeof(options)))
        options.model, options.backend, options.backend_strict = model.encode(), plugin.encode(), 1
        texts = [text.encode() for text in backend_options]
        options.n_backend_options = len(texts)
        options.backend_options = (ctypes.c_char_p * max(1, len(texts)))(*texts)
        options.context = 1024
        self.call(self.library.bonsai_engine_load, ctypes.byref(options), ctypes.byref(self.handle))

    def call(self, function, *arguments):
        failure = Failure(ctypes.sizeof(Failure))
        if function(*arguments, ctypes.byref(failure)) != 0:
            sys.exit(failure.message.decode())

    def generate(self, tokens):
        options = GenerateOptions()
        self.library.bonsai_generate_options_init(
            ctypes.byref(options), ctypes.c_uint64(ctypes.sizeof(options)), b"greedy")
        options.max_tokens, options.ignore_eos = tokens, 1
        self.call(self.library.bonsai_engine_generate, self.handle, PROMPT, ctypes.c_uint64(len(PROMPT)),
                  ctypes.byref(options), None, None, None)


def kernels_of(work):
    """(name, end in microseconds, grid) of every kernel that ran meanwhile, in the order of their ends."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        profiled.export_chrome_trace(path)  # which may put another file in place of one that is there
        with open(path) as file:
            events = json.load(file)["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    return sorted(((k["name"], k["ts"] + k["dur"], k["args"].get("grid")) for k in kernels), key=lambda k: k[1])


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    torch.zeros(1, device="cuda")  # PyTorch's context is the plugin's, too: the device's primary one
    engine = Engine(*sys.argv[1:4], sys.argv[4:])
    engine.generate(WARM_TOKENS)
    kernels = kernels_of(lambda: engine.generate(TOKENS))
    steps = collections.defaultdict(list)
    for (ahead, ahead_end, _), (name, end, grid) in zip(kernels, kernels[1:]):
        steps[ahead, name, str(grid)].append(end - ahead_end)
    for (ahead, name, grid), times in sorted(steps.items(), key=lambda step: -sum(step[1])):
        if len(times) < TOKENS // 2:
            continue
        low, middle, high = statistics.quantiles(times, n=4)
        print(f"{ahead:>20} -> {name:<20} {len(times):6d} x {statistics.mean(times):7.2f} us  "
              f"({low:.2f}, {middle:.2f}, {high:.2f})  grid {grid}")


if __name__ == "__main__":
    main()
