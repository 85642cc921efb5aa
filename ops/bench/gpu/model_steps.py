"""The steps that measure models of real sizes: checkpoints, speed and agreement beside transformers, self-check, kernels."""

import json
import statistics

import agreement
import floors
import kernels
import workloads
from bench import head, row, tool
from workloads import EVEN, REAL, REUSE

BASE = "transformers, padded {}"


class Model:
    """A checkpoint, and what is asked of it."""

    def __init__(self, name, kind, real, tiny, small):
        self.name, self.kind, self.small = name, kind, small
        self.real, self.tiny = real, tiny
        """Counts operations, by size."""

    @property
    def command(self):
        return "score" if self.kind in ("t5", "gpt2") else "label"

    def needs(self, bench):
        return self.tiny if bench.tiny else self.real


MODELS = {
    "t5-xl": [Model("t5-xl", "t5", floors.T5(24, 2048, 5120, 32128, 2048), floors.T5(2, 64, 96, 32128, 64), 16)],
    "gpt2-xl": [Model("gpt2-xl", "gpt2", floors.Gpt2(48, 1600, 50257), floors.Gpt2(2, 64, 50257), 16)],
    "deberta-v3-large": [
        Model(f"deberta-v3-large-{kind}", kind_, floors.Deberta(24, 1024, 4096), floors.Deberta(2, 64, 96), 10)
        for kind, kind_ in (("labeler", "label"), ("filter", "filter"))
    ],
}
"""What `--models` names, and the checkpoints of each."""


class Requests:
    """A workload's lines and their file."""

    def __init__(self, bench, model, workload, lines):
        self.lines = lines
        self.path = workloads.write(bench.session.work / "requests" / f"{model.name}-{workload}.jsonl", lines)


def requests(bench, model):
    """By workload; `sample` is what is compared number by number."""
    tiny, more = bench.tiny, {}
    if model.command == "score":
        end, count = [1] if model.kind == "t5" else [], 4 if tiny else 100
        questions = 1 if tiny else bench.options.queries
        for workload in (EVEN, REAL, REUSE):
            of_reuse = 2 if tiny else workloads.REUSED
            more[workload] = workloads.promptrank(workload, of_reuse if workload == REUSE else questions, count, end)
        more["sample"] = [line for line in more[REAL] if line["id"].startswith("0-")]
    else:
        make, count = (workloads.chunks, iterations(bench)) if model.kind == "label" else (workloads.filtered, iterations(bench))
        more = {workload: make(workload, count) for workload in (EVEN, REAL)}
        more["sample"] = more[REAL][:100]
    return {workload: Requests(bench, model, workload, lines) for workload, lines in more.items()}


def iterations(bench):
    return 1 if bench.tiny else 120


def questions(model, bench, lines):
    """How many questions of a method these lines are."""
    if model.command == "score":
        return len({line["id"].split("-")[0] for line in lines})
    return iterations(bench) / workloads.ITERATIONS


def checkpoint(bench, step, model):
    """The folder, made if it is not there; None if it could not be made."""
    folder = bench.session.work / "models" / model.name
    if not folder.exists() and model.name not in bench.unmade:
        folder.parent.mkdir(parents=True, exist_ok=True)
        size = "tiny" if bench.tiny else "real"
        done = bench.python(step, "checkpoints.py", folder.parent, bench.torch_device, size, model.name, limit=180)
        bench.session.record("models", model.name, done, made=done.answers())
        if not folder.exists():
            bench.unmade.add(model.name)
    return folder if folder.exists() else None


def chosen(bench):
    return [model for name in bench.options.models for model in MODELS[name]]


def models(bench):
    lines = bench.title("checkpoints with random weights") + head("model", "GB", "there")
    for model in chosen(bench):
        folder = checkpoint(bench, "models", model)
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e9 if folder else None
        lines.append(row(model.name, size and f"{size:.2f}", "yes" if folder else "no, see the raw output"))
    return lines


def ask_bench(bench, step, model, folder, file, *more, repeat=3, limit=120, before=()):
    """Runs `lm bench`; `before` is a profiler."""
    arguments = ["lm", "bench", "--model", folder, "--device", bench.device, "--task", model.command, "--input", file]
    arguments += ["--repeat", repeat, "--batch-tokens", bench.options.batch_tokens, *more]
    return bench.hopeval(step, *arguments, limit=limit, before=before)


class Measured:
    """Seconds of a variant on a workload, over one or two checkpoints, and the operations that it needs at least."""

    def __init__(self):
        self.wall, self.needed, self.tokens, self.questions, self.note, self.parts = 0.0, 0, 0, 0.0, "", 0

    def add(self, bench, model, wall, lines, needed, note=""):
        self.wall += wall
        self.needed += needed
        self.tokens += floors.tokens(lines)
        self.questions = questions(model, bench, lines)
        self.note = self.note or note
        self.parts += 1


def score(bench):
    lines, peak = [], bench.peak()
    for name in bench.options.models:
        measured, agreed, failures = {}, [], []
        for model in MODELS[name]:
            folder = checkpoint(bench, "score", model)
            if folder is None:
                failures.append(f"{model.name}: there is no checkpoint")
                continue
            asked = requests(bench, model)
            forget(bench, model)
            ours(bench, model, folder, asked, measured, failures)
            theirs(bench, model, folder, asked, measured, failures)
            agreed += compared(bench, model, folder, asked, failures)
        lines += [*speed(bench, name, measured, peak), *agreed, "", *(f"* {failure}" for failure in failures), ""]
    return lines


def ours(bench, model, folder, asked, measured, failures):
    """`lm bench` on each workload; the first pass is a warm-up."""
    needs, kept = model.needs(bench), floors.tokens(asked[REAL].lines)
    alone = [("hopeval", workload, (), needs.shared) for workload in (EVEN, REAL)]
    # T5: no room for states of an earlier pass, or room for all of them.
    cold = ["--states-tokens", 1]
    variants = {
        "t5": [
            ("hopeval", EVEN, cold, needs.shared), ("hopeval", REAL, cold, needs.shared), ("hopeval", REUSE, cold, needs.shared),
            ("hopeval, passages seen", REAL, ["--states-tokens", kept], getattr(needs, "seen", None)),
        ],
        "gpt2": [*alone, ("hopeval", REUSE, (), needs.shared), ("hopeval, nothing shared", EVEN, ["--no-share"], needs.alone)],
    }.get(model.kind, alone)  # fmt: skip
    for variant, workload, more, needed in variants:
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
        measured.setdefault((workload, variant), Measured()).add(bench, model, wall, lines, least, note)


def forget(bench, model):
    """Numbers of an earlier call, which may be of another sample."""
    for dtype in ("bfloat16", "float32"):
        numbers(bench, model, dtype).unlink(missing_ok=True)


def theirs(bench, model, folder, asked, measured, failures):
    """Transformers in bf16 on the same requests and the same device."""
    workloads_ = [workload for workload in (EVEN, REAL, REUSE) if workload in asked]
    named = [word for workload in workloads_ for word in ("--measure", f"{workload}={asked[workload].path}")]
    seconds = bench.options.peer_seconds / (1 if model.command == "score" else 2)
    scores = ["--scores", asked["sample"].path, "--scores-to", numbers(bench, model, "bfloat16")]
    bounds = ["--rounds", 1 if bench.tiny else 3, "--seconds", seconds]
    arguments = [folder, model.kind, bench.torch_device, "bfloat16", *named, *scores, *bounds]
    done = bench.python("score", "transformers_loop.py", *arguments, limit=seconds + 90)
    answers = done.answers()
    bench.session.record("score", f"{model.name} transformers bf16", done, passes=answers)
    if not done.good:
        failures.append(f"{model.name}, transformers: {done.why}")
    for answer in answers:
        if not answer.get("wall_s"):
            if "error" in answer:
                failures.append(f"{model.name}, {answer['workload']}, transformers, {answer['variant']}: {answer['error'][:120]}")
            continue
        lines = asked[answer["workload"]].lines
        place = measured.setdefault((answer["workload"], f"transformers, {answer['variant']}"), Measured())
        place.add(bench, model, statistics.median(answer["wall_s"]), lines, model.needs(bench).alone(lines))


def numbers(bench, model, dtype):
    return bench.session.work / f"{model.name}-{dtype}.json"


def speed(bench, name, measured, peak):
    """The table of a model."""
    rate = f"{peak / 1e12:.4g} TFLOP/s" if peak else "unknown"
    lines = bench.title(f"{name}: speed; the measured peak is {rate}")
    lines += head("workload", "variant", "ms a question", "floor, ms", "of the peak", "TFLOP/s", "tokens/s", "times transformers")
    order = {workload: place for place, workload in enumerate((EVEN, REAL, REUSE))}
    small = MODELS[name][0].small
    for (workload, variant), found in sorted(measured.items(), key=lambda item: order[item[0][0]]):
        base = measured.get((workload, BASE.format(small)))
        if found.parts < len(MODELS[name]):
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
            )  # fmt: skip
        )
    return lines


BF16, F32 = "transformers bf16", "transformers f32"
PAIRS = (("hopeval", BF16), ("hopeval", F32), (BF16, F32), ("hopeval f32", F32))


def compared(bench, model, folder, asked, failures):
    """Numbers of a sample, of all four: hopeval and transformers, bf16 and f32."""
    sample = asked["sample"]
    scores = ["--scores", sample.path, "--scores-to", numbers(bench, model, "float32")]
    done = bench.python("score", "transformers_loop.py", folder, model.kind, bench.torch_device, "float32", *scores, limit=120)
    bench.session.record("score", f"{model.name} transformers f32", done)
    found = {}
    for dtype, label in (("bfloat16", BF16), ("float32", F32)):
        if numbers(bench, model, dtype).exists():
            found[label] = json.loads(numbers(bench, model, dtype).read_text())
    for device, label in ((bench.device, "hopeval"), (bench.exact, "hopeval f32")):
        tokens = ["--batch-tokens", bench.options.batch_tokens]
        arguments = ["lm", model.command, "--model", folder, "--device", device, "--input", sample.path, *tokens]
        done = bench.hopeval("score", *arguments, limit=180)
        answers = [values(model, answer) for answer in done.answers()]
        if done.good and None not in answers:
            found[label] = answers
        else:
            failures.append(f"{model.name}, {label}: {done.why or 'lines without an answer'}")
            bench.session.record("score", f"{model.name} {label}", done)
    lines = ["", f"{model.name}: {len(sample.lines)} requests, numbers of one beside those of the other", ""]
    of_paths = model.command == "score"
    last = (
        ("spread of paths", "largest of a path", "rank flips", "first 5 alike")
        if of_paths
        else ("spread of margins", "other labels")
    )
    lines += head("numbers of", "beside", "compared", "largest", "mean", "Spearman", *last)
    for a, b in PAIRS:
        if a not in found or b not in found:
            lines.append(row(a, b, *[None] * (4 + len(last))))
            continue
        off = (agreement.of_paths if of_paths else agreement.of_labels)(found[a], found[b])
        bench.session.record("agreement", f"{model.name}: {a} beside {b}", **off)
        lines.append(difference(a, b, off, of_paths))
    return lines


def difference(a, b, off, of_paths):
    """A row of the table."""
    short = lambda name, form=".2e": None if off.get(name) is None else format(off[name], form)
    cells = [a, b, off["compared"], short("largest"), short("mean"), short("spearman", ".5f")]
    if of_paths:
        flipped = f"{off['rank_flips']} of {off['pairs']}" if "pairs" in off else None
        return row(*cells, short("spread_of_paths"), short("largest_of_a_path"), flipped, off.get("first_five_alike"))
    other = f"{off['other_labels']} of {off['tokens']}" if "tokens" in off else None
    return row(*cells, short("spread_of_margins"), other)


def values(model, answer):
    """A line's numbers; None if it has none."""
    if model.command == "score":
        return answer.get("logprobs", {}).get("1.0")
    return [value for token in answer["token_logits"] for value in token] if "token_logits" in answer else None


def self_check(bench):
    lines = bench.title("self-check: the same requests in other batches")
    lines += head("model", "requests", "batch-invariant", "numbers", "differing", "largest", "rank flips", "other outcomes", "s")
    for model in chosen(bench):
        folder = checkpoint(bench, "self-check", model)
        if folder is None:
            lines.append(row(model.name, "no checkpoint", *[None] * 7))
            continue
        sample, passes = (4, 2) if bench.tiny else (32, 3)
        arguments = [
            "--task",
            model.command,
            "--input",
            requests(bench, model)[REAL].path,
            "--sample",
            sample,
            "--passes",
            passes,
            "--json",
        ]
        device = ["--device", bench.device, "--batch-tokens", bench.options.batch_tokens]
        done = bench.hopeval("self-check", "lm", "self-check", "--model", folder, *device, *arguments, limit=150)
        document = (done.answers() or [{}])[-1]
        bench.session.record("self-check", model.name, done, result=document)
        found = document.get("passes", [])
        total = lambda field: sum(one[field] for one in found) if found else None
        largest = f"{max(one['largest'] for one in found):.2e}" if found else done.why
        cells = [total("compared"), total("differing"), largest, total("rank_flips"), total("other_outcomes")]
        lines.append(row(model.name, document.get("requests"), document.get("invariant"), *cells, f"{done.seconds:.0f}"))
    return lines


LAUNCHES = {"t5": (84, 106), "gpt2": (60,), "label": (36,), "filter": (36,)}
"""Attention launches to skip before two are looked at: a small request warms up first, then comes the middle of a stack."""
PRINTED, KEPT = 12, 25


def profile(bench):
    """Time by kernel of passes over one question, loading included: `nsys`, or `ncu` where that makes no report."""
    if not bench.on_gpu:
        return [*bench.title("time by kernel"), "needs a GPU: left out"]
    lines = []
    for model in chosen(bench):
        if model.kind == "filter":
            continue
        folder = checkpoint(bench, "profile", model)
        if folder is None:
            lines += [f"{model.name}: no checkpoint"]
            continue
        file = requests(bench, model)["sample"].path
        plain = [answer for answer in ask_bench(bench, "profile", model, folder, file).answers() if "pass" in answer]
        found, how, done = by_nsys(bench, model, folder, file)
        if not found:
            found, how, done = by_ncu(bench, model, folder, file)
        walls = [round(1e3 * answer["wall_s"], 2) for answer in plain]
        top = [{"kernel": name, "launches": launches, "seconds": seconds} for name, launches, seconds in found[:KEPT]]
        whole = sum(seconds for _, _, seconds in found)
        bench.session.record(
            "profile", f"{model.name} by {how}", done, kernels=top, all_kernels_s=whole, passes_without_profiler_ms=walls
        )
        lines += bench.title(f"{model.name}: time by kernel ({how}); passes without a profiler took {walls} ms")
        lines += kernels.shown(found, PRINTED) if found else [f"no kernels were seen: {done.why}"]
        lines += ["", *attention(bench, model, folder, file), ""]
    return lines


def by_nsys(bench, model, folder, file):
    """Two passes over the file."""
    nsys, report = tool("nsys"), bench.session.work / f"profile-{model.name}"
    before = [nsys, "profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "-o", report]
    done = ask_bench(bench, "profile", model, folder, file, repeat=2, limit=120, before=before)
    if not report.with_name(f"{report.name}.nsys-rep").exists():
        return [], "nsys", done
    command = [nsys, "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", "--force-export=true", f"{report}.nsys-rep"]
    stats = bench.session.run("profile", command, 60)
    return kernels.of_nsys(stats.stdout), "nsys, two passes", done


def by_ncu(bench, model, folder, file):
    """One pass, each kernel by itself: no overlap, caches as the kernel before left them."""
    before = [
        tool("ncu"),
        "--clock-control",
        "none",
        "--cache-control",
        "none",
        "--metrics",
        "gpu__time_duration.sum",
        "--launch-count",
        "4000",
    ]
    done = ask_bench(
        bench,
        "profile",
        model,
        folder,
        file,
        repeat=1,
        limit=180,
        before=[*before, "--csv", "--page", "raw", "--print-units", "base"],
    )
    return kernels.of_ncu(done.stdout), "ncu, one pass", done


def attention(bench, model, folder, file):
    """What single launches of attention do with the device."""
    sections = [word for name in ("SpeedOfLight", "LaunchStats", "Occupancy") for word in ("--section", name)]
    lines = head("launch", "kernel", *kernels.SHOWN[:3], "Registers", "Occupancy")
    for skipped in LAUNCHES[model.kind] if not bench.tiny else (0,):
        before = [
            tool("ncu"),
            "--clock-control",
            "none",
            *sections,
            "--kernel-name",
            "regex:attention",
            "--launch-skip",
            skipped,
            "--launch-count",
            "2",
        ]
        done = ask_bench(
            bench, "profile", model, folder, file, repeat=1, limit=90, before=[*before, "--csv", "--page", "details"]
        )
        found = kernels.of_launches(done.stdout)
        bench.session.record("profile", f"{model.name} attention after {skipped} launches", done, launches=found)
        for launch, figures in found.items():
            get = figures.get
            cells = [get(name) for name in (*kernels.SHOWN[:3], "Registers Per Thread", "Achieved Occupancy")]
            lines.append(row(f"{skipped}+{launch}", f"`{figures['kernel'][:40]}`", *cells))
        if not found:
            lines.append(row(skipped, done.why or "no launch was seen", *[None] * 5))
    return lines
