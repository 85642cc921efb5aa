#!/usr/bin/env python3
"""Sets the CPU device's matrix products beside numpy's (OpenBLAS), in one run.

Why: the machine's matrix-multiply rate is the yardstick of the whole language-model engine.
What: for each thread count and shape, the engines take turns (round 1 of each, round 2 of each, ..). Of a round the best
of its products counts, of the rounds the median: GFLOP/s per CPU second, and per second of wall time.
Knobs: --binary (cargo build --release -p hopeval-device --example gemm_bench), --threads 1,2, --rounds 3, --repeats 15,
--isa avx2|avx512, shapes MxNxK.

    python3 ops/bench/lm/gemm.py --binary target/release/examples/gemm_bench
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

SHAPES = ["2048x2048x2048", "2048x3072x768", "2048x768x3072", "256x50257x768", "8x3072x768"]


def numpy_round(shapes: list[str], repeats: int) -> None:
    """One round of numpy: prints a JSON line for each shape, as the example does."""
    import numpy

    for shape in shapes:
        m, n, k = map(int, shape.split("x"))
        x = (numpy.arange(m * k, dtype=numpy.float32) % 1009 / 1009 - 0.5).reshape(m, k)
        weight = (numpy.arange(n * k, dtype=numpy.float32) % 1009 / 1009 - 0.5).reshape(n, k)
        out = numpy.empty((m, n), dtype=numpy.float32)
        flops = 2.0 * m * n * k
        inner = min(1000, max(1, round(2e8 / flops)))
        numpy.matmul(x, weight.T, out=out)
        times = []
        for _ in range(repeats):
            wall, busy = time.perf_counter(), time.process_time()
            for _ in range(inner):
                numpy.matmul(x, weight.T, out=out)
            times.append(((time.process_time() - busy) / inner, (time.perf_counter() - wall) / inner))
        times.sort()
        busy, wall = times[0]
        print(json.dumps({"m": m, "n": n, "k": k, "gflops_cpu": flops / busy / 1e9, "gflops_wall": flops / wall / 1e9}))


def lines(command: list[str], threads: int) -> list[dict]:
    """What an engine prints, with its threads set."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS=str(threads), OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", help="the example gemm_bench, built for release")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=15, help="products timed in a round; the best counts")
    parser.add_argument("--isa", default=None, help="avx2 or avx512")
    parser.add_argument("--numpy-round", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    arguments = parser.parse_args()
    if arguments.numpy_round:
        numpy_round(arguments.shapes, arguments.repeats)
        return 0
    if not arguments.binary:
        parser.error("--binary is needed: cargo build --release -p hopeval-device --example gemm_bench")
    print(f"{'threads':>7} {'shape MxNxK':>16} {'hopeval':>9} {'numpy':>9} {'ratio':>6}   GFLOP/s per CPU second; wall: hopeval, numpy")
    for threads in map(int, arguments.threads.split(",")):
        isa = ["--isa", arguments.isa] if arguments.isa else []
        engines = {
            "hopeval": [arguments.binary, "--threads", str(threads), "--repeats", str(arguments.repeats), *isa, *arguments.shapes],
            "numpy": [sys.executable, __file__, "--numpy-round", "--repeats", str(arguments.repeats), *arguments.shapes],
        }
        seen: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for _ in range(arguments.rounds):
            for name, command in engines.items():
                for line in lines(command, threads):
                    shape = f"{line['m']}x{line['n']}x{line['k']}"
                    seen.setdefault((shape, name), []).append((line.get("gflops_cpu_best", line["gflops_cpu"]), line["gflops_wall"]))
        for shape in arguments.shapes:
            cpu, wall = {}, {}
            for name in engines:
                cpu[name] = statistics.median(busy for busy, _ in seen[shape, name])
                wall[name] = statistics.median(elapsed for _, elapsed in seen[shape, name])
            print(
                f"{threads:>7} {shape:>16} {cpu['hopeval']:>9.1f} {cpu['numpy']:>9.1f} {cpu['hopeval'] / cpu['numpy']:>6.2f}"
                f"   {wall['hopeval']:.1f}, {wall['numpy']:.1f}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
