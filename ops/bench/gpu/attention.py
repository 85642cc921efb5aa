#!/usr/bin/env python3
"""Times attention alone, as several folders of kernels have it, and compares what they leave bit by bit.

Why: a change of `attention.cu` is seen in a second here, where a model's pass shows a tenth of it. Copy the folder
`engine/cuda/kernels`, change the copy, and name both.

What: `attention_64`, `attention_relative_64` and the short blocks of both, compiled by CuPy's NVRTC, over packings as
PromptRank's requests make them: passages of 140 tokens, longer ones, suffixes of 19 rows over a passage each, both
together, rows that decode. `together` is one launch of all tiles, `apart` one of the long and one of the short ones,
as the device launches them where there are as many short ones (`engine/cuda/src/attention/plans.rs`). Printed:
microseconds, the median of 12 times 4 launches, and whether the first folder's bits are there.

Usage: attention.py [FOLDER ...], by default this repository's kernels. Needs a GPU, NumPy, and CuPy for CUDA 13.
"""

import argparse
import pathlib

import cupy
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[3]
SIDE, SHORT_SIDE, HEAD = 64, 32, 64
ROW_BYTES = 2 * (HEAD + 8)
"""Of shared memory."""
ROUNDS, LAUNCHES = 12, 4

PASSAGES = [(140, [(140 * i, 140)]) for i in range(100)]


def suffixes(count):
    """Of 19 rows, each behind one of a hundred passages."""
    return [(19, [(i % 100 * 140, 140), (14000 + i * 19, 19)]) for i in range(count)]


PACKINGS = {
    "100 x 140, both ways, by distance": (PASSAGES, 32, False, "relative_"),
    "100 x 140": (PASSAGES, 25, True, ""),
    "40 x 400": ([(400, [(400 * i, 400)]) for i in range(40)], 25, True, ""),
    "100 x 140 and 115 x 19": (PASSAGES + suffixes(115), 25, True, ""),
    "100 x 140 and 800 x 19": (PASSAGES + suffixes(800), 25, True, ""),
    "800 x 19 behind 140": (suffixes(800), 25, True, ""),
    "115 x 19, by distance": ([(19, [(19 * i, 19)]) for i in range(115)], 32, True, "relative_"),
    "100 x 22 of 140": ([(22, [(140 * i, 140)]) for i in range(100)], 32, False, ""),
    "64 x 1 of 186": ([(1, [(186 * i, 186)]) for i in range(64)], 25, True, ""),
}
"""By name: rows and spans of keys of each sequence, heads, whether later keys are hidden, the kernels' bias."""


def words(numbers):
    return cupy.asarray(numpy.array(numbers, numpy.uint32))


def halves(shape, seed):
    """Random numbers in bf16."""
    numbers = numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)
    return cupy.asarray((numbers.view(numpy.uint32) >> 16).astype(numpy.uint16))


def lists(sequences):
    """The rows of keys, and tiles, as `attention.cuh` wants them."""
    keys, tiles, row = [], [], 0
    for rows, spans in sequences:
        first = len(keys)
        for start, count in spans:
            keys += range(start, start + count)
        count = len(keys) - first
        tiles += [(row + at, min(SIDE, rows - at), count - (rows - at), first, count) for at in range(0, rows, SIDE)]
        row += rows
    return keys, tiles


class Packing:
    """The operands of launches."""

    def __init__(self, sequences, heads, causal, bias):
        keys, self.tiles = lists(sequences)
        rows, width = sum(rows for rows, _ in sequences), heads * HEAD
        self.heads, self.bias = heads, bias
        self.fused = halves((max(rows, max(keys) + 1), 3 * width), 1)
        self.out = cupy.zeros((rows, width), cupy.uint16)
        null, reach = numpy.uint64(0), 1024
        table, places = null, null
        if bias:
            table = halves((64, heads), 2)
            places = words(abs(numpy.arange(-reach, reach + 1)) % 64)
        number = numpy.uint32
        strides = [word for part in range(3) for word in (number(part * width), number(3 * width))]
        self.before = (self.out, self.fused, self.fused, self.fused)
        self.behind = (words(keys), table, null, null, places, *strides, number(1), number(HEAD), numpy.float32(0.125))
        self.behind += (number(causal), number(0xFFFFFFFF), number(reach if bias else 0), number(1))

    def launches(self, module, apart):
        """`(kernel, grid, threads, arguments, shared memory)`."""
        short = [tile for tile in self.tiles if tile[1] <= SHORT_SIDE]
        long = [tile for tile in self.tiles if tile[1] > SHORT_SIDE]
        groups = [(long, "", 128, 4), (short, "short_", 64, 2)] if apart else [(self.tiles, "", 128, 4)]
        for tiles, kind, threads, tensors in groups:
            if tiles:
                kernel = module.get_function(f"attention_{kind}{self.bias}{HEAD}")
                shared = tensors * SIDE * ROW_BYTES
                kernel.max_dynamic_shared_size_bytes = shared
                arguments = (*self.before, words(tiles), *self.behind)
                yield kernel, (len(tiles), self.heads), (threads,), arguments, shared


def microseconds(launches):
    def launch():
        for kernel, grid, threads, arguments, shared in launches:
            kernel(grid, threads, arguments, shared_mem=shared)

    launch()
    times = []
    for _ in range(ROUNDS):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(LAUNCHES):
            launch()
        end.record()
        end.synchronize()
        times.append(1e3 * cupy.cuda.get_elapsed_time(begin, end) / LAUNCHES)
    return numpy.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=pathlib.Path, nargs="*", default=[ROOT / "engine/cuda/kernels"])
    folders = parser.parse_args().folders
    for folder in folders:
        if not (folder / "attention.cu").is_file():
            parser.error(f"{folder}: there is no attention.cu")
    modules = [
        cupy.RawModule(code=(folder / "attention.cu").read_text(), options=(f"-I{folder}", "--std=c++17"))
        for folder in folders
    ]
    print("| packing | kernels | launches | us | bits |\n| --- | --- | --- | --- | --- |")
    for name, arguments in PACKINGS.items():
        packing, first = Packing(*arguments), None
        for folder, module in zip(folders, modules):
            for apart in (False, True):
                packing.out.fill(0)
                taken = microseconds(list(packing.launches(module, apart)))
                bits = packing.out.get().tobytes()
                first = first or bits
                told = "equal" if bits == first else "OTHERS"
                cells = [name, folder.name, "apart" if apart else "together", f"{taken:.1f}", told]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
