#!/usr/bin/env python3
"""Measures what the device can do at most: products of large matrices by PyTorch, and copies within its memory.

The rates are the denominators of everything else. Operands are random: zeros would run faster. Each figure is the median of
groups of products after a warm-up.

Usage: peak.py DEVICE; one JSON line a figure.
"""

import json
import statistics
import sys
import time

import torch

PRODUCTS = [
    ("bfloat16", 8192, 8192, 8192),
    ("bfloat16", 16384, 2048, 5120),
    ("bfloat16", 16384, 1600, 6400),
    ("float32", 8192, 8192, 8192),
]
SMALL = [("bfloat16", 256, 256, 256), ("float32", 256, 256, 256)]
GROUPS, EACH = 7, 10
COPIED = 2**32


def timed(device, work):
    """Seconds of one `work`, by group."""
    for _ in range(3):
        work()
    seconds = []
    for _ in range(GROUPS):
        synchronise(device)
        begun = time.perf_counter()
        for _ in range(EACH):
            work()
        synchronise(device)
        seconds.append((time.perf_counter() - begun) / EACH)
    return seconds


def synchronise(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def main():
    device = sys.argv[1]
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    on_gpu = device.startswith("cuda")
    for name, rows, inner, columns in PRODUCTS if on_gpu else SMALL:
        dtype = getattr(torch, name)
        a, b = torch.randn(rows, inner, device=device, dtype=dtype), torch.randn(inner, columns, device=device, dtype=dtype)
        out = torch.empty(rows, columns, device=device, dtype=dtype)
        seconds = timed(device, lambda: torch.mm(a, b, out=out))
        rate = 2 * rows * inner * columns / 1e12
        figures = {"tflops": rate / statistics.median(seconds), "best_tflops": rate / min(seconds)}
        print(json.dumps({"product": f"{rows}x{inner}x{columns}", "dtype": name} | figures), flush=True)
        del a, b, out
    source = torch.randn((COPIED if on_gpu else 2**20) // 4, device=device)
    into = torch.empty_like(source)
    seconds = timed(device, lambda: into.copy_(source))
    print(json.dumps({"copy_bytes": source.nbytes, "tb_s": 2 * source.nbytes / statistics.median(seconds) / 1e12}), flush=True)


if __name__ == "__main__":
    main()
