#!/usr/bin/env python3
"""Asks cuBLASLt for what it offers for the products of the measured models, and times it.

Why: hopeval takes one algorithm for each shape of weights, the first that is offered without workspace for LEAD_ROWS
rows, so that a row has the same bits in any batch. This shows what that costs: how many of the offered algorithms have
equal bits, and how the leading one compares with the fastest, and with the fastest of equal bits, at several numbers
of rows.

Sums that are cut (a split of the inner dimension, a reduction) are left out, as hopeval leaves them out.

Usage: products.py SECONDS; one JSON line a product, and one a product and number of rows. A product for which no time
is left says so. Needs PyTorch and a GPU.
"""

import ctypes
import dataclasses
import glob
import json
import os
import statistics
import sys
import sysconfig
import time

import torch

ROWS = (64, 512, 2415, 4096, 16384)
LEAD_ROWS = 4096
WORKSPACE = 32 << 20
TIMED, WARM = 8, 3
MOST_OFFERED, MOST_TIMED = 64, 12
# Of cublasLt.h and library_types.h.
FLOAT32, BFLOAT16, COMPUTE_32F = 0, 14, 68
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8
MOST_WORKSPACE, REDUCTION_SCHEMES = 1, 3
PLAIN, BIAS, GELU_AND_BIAS = 1, 4, 36
SPLITS, REDUCTION = (2, 4), (3, 4)
CONFIGURATION = {
    "algorithm": (0, 4), "tile": (1, 4), "stages": (6, 4), "cluster": (8, 2), "option": (5, 4), "inner": (7, 2),
    "parts": SPLITS, "reduction": REDUCTION, "swizzle": (4, 4),
}  # fmt: skip
"""Attributes of an algorithm, and their bytes."""


@dataclasses.dataclass(frozen=True)
class Product:
    """`rows x inner` times `inner x out`, as a model asks it."""

    name: str
    inner: int
    out: int
    epilogue: int = PLAIN
    residual: bool = False
    """It is added to what is there."""
    output: int = BFLOAT16

    @property
    def most_rows(self):
        return max(ROWS) if self.output == BFLOAT16 else LEAD_ROWS


PRODUCTS = (
    Product("T5-XL q, k and v", 2048, 6144),
    Product("T5-XL o", 2048, 2048, residual=True),
    Product("T5-XL wi", 2048, 10240),
    Product("T5-XL wo", 5120, 2048, residual=True),
    Product("T5-XL k and v of the prompt", 2048, 4096),
    Product("GPT-2-XL q, k and v", 1600, 4800, BIAS),
    Product("GPT-2-XL projection", 1600, 1600, BIAS, residual=True),
    Product("GPT-2-XL up", 1600, 6400, GELU_AND_BIAS),
    Product("GPT-2-XL down", 6400, 1600, BIAS, residual=True),
    Product("DeBERTa-v3-large q, k and v", 1024, 3072, BIAS),
    Product("DeBERTa-v3-large o", 1024, 1024, BIAS, residual=True),
    Product("DeBERTa-v3-large up", 1024, 4096, BIAS),
    Product("DeBERTa-v3-large down", 4096, 1024, BIAS, residual=True),
    Product("T5-XL head, a part", 2048, 8192, output=FLOAT32),
)


class HeuristicResult(ctypes.Structure):
    """`cublasLtMatmulHeuristicResult_t`."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class LibraryError(Exception):
    """A call of cuBLASLt that did not succeed."""


class Library:
    """cuBLASLt, and a handle of it."""

    def __init__(self):
        packages = sysconfig.get_paths()["purelib"]
        places = (f"{packages}/nvidia/*/lib/libcublasLt.so.13", "/usr/local/cuda*/lib64/libcublasLt.so.13")
        found = [path for place in places for path in glob.glob(place)]
        self.library = ctypes.CDLL(found[0] if found else "libcublasLt.so.13")
        self.handle = self.made("Create")
        self.workspace = torch.empty(WORKSPACE, dtype=torch.uint8, device="cuda")

    def call(self, name, *arguments):
        """A status of zero, or an exception."""
        status = getattr(self.library, f"cublasLt{name}")(*arguments)
        if status:
            raise LibraryError(f"cublasLt{name}: status {status}")

    def made(self, name, *arguments):
        """What a function creates."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made

    def set(self, kind, of, attribute, value):
        self.call(f"{kind}SetAttribute", of, attribute, ctypes.byref(value), ctypes.sizeof(value))

    def layout(self, element, rows, columns):
        return self.made(
            "MatrixLayoutCreate", element, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
        )

    def preference(self, workspace):
        preference = self.made("MatmulPreferenceCreate")
        self.set("MatmulPreference", preference, MOST_WORKSPACE, ctypes.c_uint64(workspace))
        self.set("MatmulPreference", preference, REDUCTION_SCHEMES, ctypes.c_uint32(0))
        return preference

    def configured(self, algorithm, attribute):
        """A number of an algorithm's configuration; None if it has none."""
        place, size = attribute
        value, written = ctypes.c_int32(0), ctypes.c_size_t()
        status = self.library.cublasLtMatmulAlgoConfigGetAttribute(
            ctypes.byref(algorithm), place, ctypes.byref(value), ctypes.c_size_t(size), ctypes.byref(written)
        )
        return None if status else value.value

    def described(self, algorithm):
        return " ".join(f"{name} {self.configured(algorithm, at)}" for name, at in CONFIGURATION.items())

    def whole(self, algorithm):
        """Whether it adds up each sum in one piece."""
        return self.configured(algorithm, SPLITS) in (0, 1) and self.configured(algorithm, REDUCTION) == 0


class Operands:
    """Random matrices of a product, and its description. cuBLASLt reads by columns: weights come first."""

    def __init__(self, library, product):
        self.library, self.product = library, product
        rows, inner, out = product.most_rows, product.inner, product.out
        random = lambda *shape: torch.randn(*shape, device="cuda").bfloat16()
        self.weights, self.input = (
            (torch.randn(out, inner, device="cuda") * inner**-0.5).bfloat16(),
            random(rows, inner),
        )
        dtype = torch.float32 if product.output == FLOAT32 else torch.bfloat16
        self.output = torch.empty(rows, out, device="cuda", dtype=dtype)
        self.residual = random(rows, out) if product.residual else self.output
        self.bias = random(out) if product.epilogue != PLAIN else None
        self.description = library.made("MatmulDescCreate", COMPUTE_32F, FLOAT32)
        values = {
            TRANSPOSE_A: ctypes.c_int32(1),
            TRANSPOSE_B: ctypes.c_int32(0),
            EPILOGUE: ctypes.c_uint32(product.epilogue),
        }
        if self.bias is not None:
            values[BIAS_POINTER] = ctypes.c_void_p(self.bias.data_ptr())
        for attribute, value in values.items():
            library.set("MatmulDesc", self.description, attribute, value)
        self.layouts = {}

    def layout(self, rows):
        """Of weights, input and output."""
        if rows not in self.layouts:
            inner, out = self.product.inner, self.product.out
            made = self.library.layout
            self.layouts[rows] = (
                made(BFLOAT16, inner, out),
                made(BFLOAT16, inner, rows),
                made(self.product.output, out, rows),
            )
        return self.layouts[rows]

    def offered(self, rows, workspace):
        """`{algorithm's words: its result}` in the order in which cuBLASLt offers them."""
        found, count = (HeuristicResult * MOST_OFFERED)(), ctypes.c_int()
        weights, given, output = self.layout(rows)
        library = self.library
        status = library.library.cublasLtMatmulAlgoGetHeuristic(
            library.handle,
            self.description,
            weights,
            given,
            output,
            output,
            library.preference(workspace),
            MOST_OFFERED,
            found,
            ctypes.byref(count),
        )
        results = found[: count.value] if not status else []
        return {tuple(result.algorithm): result for result in results if not result.state}

    def multiply(self, algorithm, rows):
        """The status of the call."""
        pointer = lambda tensor: ctypes.c_void_p(tensor.data_ptr())
        weights, given, output = self.layout(rows)
        one, beta = ctypes.c_float(1.0), ctypes.c_float(1.0 if self.product.residual else 0.0)
        library = self.library
        return library.library.cublasLtMatmul(
            library.handle,
            self.description,
            ctypes.byref(one),
            pointer(self.weights),
            weights,
            pointer(self.input),
            given,
            ctypes.byref(beta),
            pointer(self.residual),
            output,
            pointer(self.output),
            output,
            ctypes.byref(algorithm),
            pointer(library.workspace),
            ctypes.c_size_t(WORKSPACE),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )

    def seconds(self, algorithm, rows):
        """The median; None if the algorithm refuses."""
        if any(self.multiply(algorithm, rows) for _ in range(WARM)):
            return None
        torch.cuda.synchronize()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(TIMED + 1)]
        events[0].record()
        for event in events[1:]:
            self.multiply(algorithm, rows)
            event.record()
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) for a, b in zip(events, events[1:])) / 1e3

    def groups(self, algorithms):
        """Lists of algorithms whose outputs have the same bits, over all rows."""
        groups = []
        for words, algorithm in algorithms.items():
            self.output.fill_(float("nan"))
            if self.multiply(algorithm, self.product.most_rows):
                continue
            torch.cuda.synchronize()
            bits = self.output.view(torch.int32)
            for kept, members in groups:
                if torch.equal(kept, bits):
                    members.append(words)
                    break
            else:
                groups.append((bits.clone(), [words]))
        return [members for _, members in groups]


def looked_at(library, product):
    """JSON documents about a product."""
    operands = Operands(library, product)
    rows_ = [rows for rows in ROWS if rows <= product.most_rows]
    offers = {(rows, room): operands.offered(rows, room) for rows in rows_ for room in (0, WORKSPACE)}
    results = {words: result for offer in offers.values() for words, result in offer.items()}
    algorithms = {words: (ctypes.c_uint64 * 8)(*words) for words in results}
    algorithms = {words: algorithm for words, algorithm in algorithms.items() if library.whole(algorithm)}
    groups = operands.groups(algorithms)
    group_of = {words: number for number, members in enumerate(groups) for words in members}
    lead = next((words for words in offers[LEAD_ROWS, 0] if words in group_of), None)
    about = {"product": product.name, "inner": product.inner, "out": product.out}
    yield about | {
        "offered": {f"{rows} rows, {room >> 20} MiB": len(offer) for (rows, room), offer in offers.items()},
        "algorithms": len(results),
        "whole": len(algorithms),
        "groups_of_equal_bits": sorted(map(len, groups), reverse=True),
        "lead": lead and library.described(algorithms[lead]),
        "equal_to_lead": lead and len(groups[group_of[lead]]),
    }
    for rows in rows_ if lead else ():
        near = [words for room in (0, WORKSPACE) for words in offers[rows, room] if words in group_of][:MOST_TIMED]
        pool = dict.fromkeys([lead, *near, *groups[group_of[lead]][:MOST_TIMED]])
        seconds = {words: operands.seconds(algorithms[words], rows) for words in pool}
        seconds = {words: taken for words, taken in seconds.items() if taken is not None}
        equal = [words for words in seconds if group_of[words] == group_of[lead]]
        best, best_equal = min(seconds, key=seconds.get, default=None), min(equal, key=seconds.get, default=None)
        row = about | {
            "rows": rows,
            "timed": len(seconds),
            "timed_equal": len(equal),
            "operations": 2 * rows * product.inner * product.out,
        }
        for name, words in (("lead", lead), ("best", best), ("best_equal", best_equal)):
            if words in seconds:
                row[f"{name}_s"], row[name] = seconds[words], library.described(algorithms[words])
                row[f"{name}_workspace"] = results[words].workspace
        yield row


def main():
    until = time.monotonic() + float(sys.argv[1])
    torch.manual_seed(1)
    library = Library()
    print(json.dumps({"library": os.path.basename(library.library._name)}), flush=True)
    for product in PRODUCTS:
        if time.monotonic() > until:
            print(json.dumps({"product": product.name, "left_out": True}), flush=True)
            continue
        try:
            for document in looked_at(library, product):
                print(json.dumps(document), flush=True)
        except (LibraryError, torch.OutOfMemoryError) as error:
            print(json.dumps({"product": product.name, "error": str(error).splitlines()[0]}), flush=True)


if __name__ == "__main__":
    main()
