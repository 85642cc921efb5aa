"""The steps that look at libraries: what cuBLASLt offers for the models' products, what calls cost the host.

Both were measured on 2026-11-27; they are asked for by name.
"""

from bench import head, row

PRODUCTS_S, AROUND_S = 45, 20
"""Seconds of measuring products, and of an interpreter's beginning."""


def products(bench):
    lines = bench.title("what cuBLASLt offers for the models' products")
    if not bench.on_gpu:
        return [*lines, "needs a GPU: left out"]
    seconds = min(PRODUCTS_S, bench.session.left() - AROUND_S)
    done = bench.python("products", "products.py", seconds, limit=seconds + AROUND_S, timed=True)
    found = done.answers()
    bench.session.record("products", "algorithms of cuBLASLt", done, found=found)
    products_ = [one for one in found if "algorithms" in one]
    lines += head(
        "product", "inner", "out", "algorithms", "of whole sums", "groups of equal bits", "equal to the leading one"
    )
    for one in products_:
        groups = ", ".join(map(str, one["groups_of_equal_bits"]))
        cells = [one["inner"], one["out"], one["algorithms"], one["whole"], groups, one["equal_to_lead"]]
        lines.append(row(one["product"], *cells))
    lines += [
        "",
        *head("product", "rows", "leading, us", "TFLOP/s", "best, us", "best of equal bits, us", "timed", "equal"),
    ]
    for one in (one for one in found if "rows" in one):
        micro = lambda name: None if name not in one else f"{1e6 * one[name]:.1f}"
        rate = f"{one['operations'] / one['lead_s'] / 1e12:.0f}" if "lead_s" in one else None
        cells = [micro("lead_s"), rate, micro("best_s"), micro("best_equal_s"), one["timed"], one["timed_equal"]]
        lines.append(row(one["product"], one["rows"], *cells))
    left_out = [one["product"] for one in found if one.get("left_out")]
    errors = [f"* {one['product']}: {one['error']}" for one in found if "error" in one]
    errors += [f"* no time was left for {', '.join(left_out)}"] if left_out else []
    return [*lines, "", *errors, *([] if done.good else [f"* {done.why}"])]


def host(bench):
    lines = bench.title("what calls cost the host")
    if not bench.on_gpu:
        return [*lines, "needs a GPU: left out"]
    done = bench.python("host", "host.py", limit=40, timed=True)
    found = done.answers()
    bench.session.record("host", "calls of the driver and of NVML", done, found=found)
    lines += head("call", "figures")
    for one in found:
        figures = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in one.items() if name != "what")
        lines.append(row(one["what"], figures))
    return lines + ([] if done.good else ["", f"* {done.why}"])
