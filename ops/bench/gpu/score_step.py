"""The step that measures speed: `lm bench`, and transformers in bf16 on the same device in the same call."""

import statistics
import traceback

import floors
from bench import head, row
from models import MODELS, ask_bench, questions
from workloads import EVEN, REAL, REUSE

BASE = "transformers, padded {}"


class SpeedFigure:
    """Seconds of a variant on a workload, over one or two checkpoints, and the operations that it needs at least."""

    def __init__(self):
        self.wall, self.needed, self.tokens, self.questions, self.note, self.models = 0.0, 0, 0, 0.0, "", set()

    def add(self, bench, model, wall, lines, needed, note=""):
        self.wall += wall
        self.needed += needed
        self.tokens += floors.tokens(lines)
        self.questions = questions(model, bench, lines)
        self.note = self.note or note
        self.models.add(model.name)


def score(bench):
    lines, peak = [], bench.peak()
    for name in bench.options.models:
        measured, failures = {}, []
        for model in MODELS[name]:
            folder = bench.checkpoints[model.name].result()
            if folder is None:
                failures.append(f"{model.name}: there is no checkpoint")
                continue
            asked = bench.requests[model.name].result()
            ours(bench, model, folder, asked, measured, failures)
            try:
                theirs(bench, model, asked, measured, failures)
            except Exception as error:
                # What was measured of hopeval stays.
                bench.session.raw(f"score: {model.name}, transformers", traceback.format_exc())
                failures.append(f"{model.name}, transformers: {error}")
        table = [*speed(bench, name, measured, peak), "", *(f"* {failure}" for failure in failures), ""]
        # A call that is cut short keeps the tables that it had.
        bench.session.raw(f"score: {name}", "\n".join(table))
        lines += table
    return lines


def variants(bench, model, asked):
    """`(variant, workload, arguments, counts operations)` of `lm bench`, in order of value."""
    needs = model.needs(bench)
    if model.kind == "t5":
        # No room for states of an earlier pass, or room for all of them.
        cold, kept = ["--states-tokens", 1], ["--states-tokens", floors.tokens(asked[REAL].lines)]
        found = [("hopeval", workload, cold, needs.shared) for workload in (REAL, EVEN, REUSE)]
        return [*found, ("hopeval, passages seen", REAL, kept, needs.seen)]
    found = [("hopeval", workload, (), needs.shared) for workload in (REAL, EVEN, REUSE) if workload in asked]
    alone = [("hopeval, nothing shared", EVEN, ["--no-share"], needs.alone)] if model.kind == "gpt2" else []
    return found + alone


def ours(bench, model, folder, asked, measured, failures):
    """`lm bench` on each workload; the first pass is a warm-up."""
    for variant, workload, more, needed in variants(bench, model, asked):
        done = ask_bench(bench, "score", model, folder, asked[workload].path, *more)
        passes = [answer for answer in done.answers() if "pass" in answer]
        if not passes:
            failures.append(f"{model.name}, {workload}, {variant}: {done.why}")
            bench.session.record("score", f"{model.name} {workload} {variant}", done)
            continue
        wall = statistics.median(answer["wall_s"] for answer in passes[1:] or passes)
        fewer = any(answer["computed_tokens"] < passes[0]["computed_tokens"] for answer in passes)
        note = " (later passes computed less)" if fewer and "seen" not in variant else ""
        note = note if len(passes) > 1 else " (a first pass only)"
        lines, least = asked[workload].lines, needed(asked[workload].lines)
        bench.session.record(
            "score", f"{model.name} {workload} {variant}", done, passes=passes, median_s=wall, needed_operations=least,
            tokens=floors.tokens(lines), questions=questions(model, bench, lines),
        )  # fmt: skip
        measured.setdefault((workload, variant), SpeedFigure()).add(bench, model, wall, lines, least, note)


def theirs(bench, model, asked, measured, failures):
    """Transformers in bf16 on the same requests and the same device, what says most first."""
    peer = bench.peers[model.name].result()
    named = [(workload, str(asked[workload].path)) for workload in (REAL, EVEN, REUSE) if workload in asked]
    seconds = bench.options.peer_seconds / (2 if model.kind == "filter" else 1)
    deed = {"deed": "measure", "workloads": named, "rounds": 1 if bench.tiny else 3, "seconds": seconds}
    with bench.gate.alone():
        done = peer.ask(bench.session, "score", deed, limit=seconds + 30)
    answers = done.answers()
    bench.session.record("score", f"{model.name} transformers bf16", done, passes=answers)
    if not done.good:
        failures.append(f"{model.name}, transformers: {done.why}")
    left_out = [f"{answer['workload']} {answer['variant']}" for answer in answers if answer.get("left_out")]
    if left_out:
        failures.append(f"{model.name}, transformers: no time was left for {', '.join(left_out)}")
    for answer in answers:
        if "workload" in answer and answer.get("wall_s"):
            lines = asked[answer["workload"]].lines
            place = measured.setdefault((answer["workload"], f"transformers, {answer['variant']}"), SpeedFigure())
            place.add(bench, model, statistics.median(answer["wall_s"]), lines, model.needs(bench).alone(lines))
        elif "workload" in answer and "error" in answer:
            of = f"{model.name}, {answer['workload']}, transformers, {answer['variant']}"
            failures.append(f"{of}: {answer['error'][:120]}")


def speed(bench, name, measured, peak):
    """The table of a model."""
    rate = f"{peak / 1e12:.4g} TFLOP/s" if peak else "unknown"
    lines = bench.title(f"{name}: speed; the measured peak is {rate}")
    lines += head(
        "workload", "variant", "ms a question", "floor, ms", "of the peak", "TFLOP/s", "tokens/s", "times transformers"
    )
    order = {workload: place for place, workload in enumerate((EVEN, REAL, REUSE))}
    small = MODELS[name][0].small
    for (workload, variant), found in sorted(measured.items(), key=lambda item: order[item[0][0]]):
        base = measured.get((workload, BASE.format(small)))
        # Of other checkpoints it is no base.
        base = base if base and base.models == found.models else None
        if len(found.models) < len(MODELS[name]):
            found.note += " (NOT all of its models)"
        floor = found.needed / peak if peak else None
        lines.append(
            row(
                workload,
                variant + found.note,
                f"{1e3 * found.wall / found.questions:.2f}",
                floor and f"{1e3 * floor / found.questions:.2f}",
                floor and f"{floor / found.wall:.3f}",
                f"{found.needed / found.wall / 1e12:.4g}",
                f"{found.tokens / found.wall:,.0f}",
                base and f"{base.wall / found.wall:.2f}",
            )
        )
    return lines
