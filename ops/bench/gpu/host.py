#!/usr/bin/env python3
"""Measures what calls cost the host: NVML's counter of energy, copies in both directions, memory of a pool.

Why: hopeval uploads ids and lengths of a batch while kernels of the batch before run, and reads the energy around
batches. A call that waits for the device leaves it idle afterwards.

Usage: host.py; one JSON line a figure, in microseconds a call unless its name says else. Needs PyTorch, cuda-bindings
and nvidia-ml-py. It changes no setting.
"""

import json
import statistics
import time

import numpy
import pynvml
import torch
from cuda.bindings import driver

UPLOADED_KIB = (4, 16, 63, 64, 65, 300, 1024, 4096)
COPIED = 13 << 20
COPIES = 10
BUSY_CYCLES = 40_000_000
"""Of a kernel that only waits, behind which an upload is asked for: some 20 ms."""


def tell(what, **figures):
    print(json.dumps({"what": what} | figures), flush=True)


def latency(call, count):
    """Microseconds of single calls."""
    taken = []
    for _ in range(count):
        begun = time.perf_counter()
        call()
        taken.append(1e6 * (time.perf_counter() - begun))
    taken.sort()
    return {"median_us": statistics.median(taken), "p99_us": taken[int(0.99 * count)], "most_us": taken[-1]}


def energy(handle):
    """Of NVML's counter, while the device is idle and while it is busy."""
    read = lambda: pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    tell("energy counter, idle", **latency(read, 300))
    values, begun = [], time.perf_counter()
    while time.perf_counter() - begun < 1:
        values.append(read())
    tell("energy counter, in one second", distinct_values=len(set(values)), calls=len(values))
    matrix = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(200):
        matrix @ matrix
    tell("energy counter, busy", **latency(read, 60))
    torch.cuda.synchronize()


def uploads():
    """How long the call of an upload takes that is asked for behind a running kernel."""
    stream = torch.cuda.current_stream().cuda_stream
    for kibibytes in UPLOADED_KIB:
        size = kibibytes << 10
        into, pageable = torch.empty(size, dtype=torch.uint8, device="cuda"), numpy.ones(size, dtype=numpy.uint8)
        pinned = torch.ones(size, dtype=torch.uint8).pin_memory()
        figures = {}
        for name, source in (("pageable", pageable.ctypes.data), ("pinned", pinned.data_ptr())):
            torch.cuda.synchronize()
            torch.cuda._sleep(BUSY_CYCLES)
            begun = time.perf_counter()
            (error,) = driver.cuMemcpyHtoDAsync(into.data_ptr(), source, size, stream)
            called = time.perf_counter()
            torch.cuda.synchronize()
            figures |= {
                f"{name}_us": 1e6 * (called - begun),
                f"{name}_then_waited_us": 1e6 * (time.perf_counter() - called),
            }
            if int(error):
                figures[f"{name}_error"] = int(error)
        tell(f"upload of {kibibytes} KiB behind a kernel", **figures)


def copies():
    """Of 13 MiB, the log-probabilities of a large batch, say."""
    on_device, pageable = torch.zeros(COPIED, dtype=torch.uint8, device="cuda"), torch.zeros(COPIED, dtype=torch.uint8)
    for name, on_host in (("pageable", pageable), ("pinned", pageable.pin_memory())):
        for way, copy in (
            ("down", lambda: on_host.copy_(on_device)),
            ("up", lambda: on_device.copy_(on_host, non_blocking=True)),
        ):
            copy()
            torch.cuda.synchronize()
            begun = time.perf_counter()
            for _ in range(COPIES):
                copy()
            torch.cuda.synchronize()
            tell(f"copy of 13 MiB {way}, {name}", each_us=1e6 * (time.perf_counter() - begun) / COPIES)


def allocations():
    """Memory of a stream's pool, taken and given back."""
    _, stream = driver.cuStreamCreate(0)

    def take_and_give():
        _, pointer = driver.cuMemAllocAsync(1 << 20, stream)
        driver.cuMemFreeAsync(pointer, stream)

    take_and_give()
    tell("1 MiB taken from a pool and given back", **latency(take_and_give, 2000))


def main():
    pynvml.nvmlInit()
    torch.cuda.init()
    uploads()
    copies()
    allocations()
    energy(pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device()))


if __name__ == "__main__":
    main()
