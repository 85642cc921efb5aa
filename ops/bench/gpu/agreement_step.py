"""The steps that compare numbers: hopeval beside transformers, bf16 beside float32, hopeval beside itself.

Nothing here is timed: all models and all sides run at once.
"""

import json
import traceback

import agreement
from bench import head, row
from models import chosen
from workloads import REAL

BF16, F32 = "transformers bf16", "transformers f32"
PAIRS = (("hopeval", BF16), ("hopeval", F32), (BF16, F32), ("hopeval f32", F32))
OF_PATHS = ("spread of paths", "largest of a path", "rank flips", "first 5 alike")
OF_LABELS = ("spread of margins", "other labels")


def agreement_of_models(bench):
    """The step: of each model a table."""
    return bench.title("agreement of numbers") + [
        line for lines in bench.at_once(of_model(bench), chosen(bench)) for line in lines
    ]


def of_model(bench):
    """Compares one model; a model that fails leaves the others."""

    def compared(model):
        try:
            return compare(bench, model)
        except Exception as error:
            bench.session.raw(f"agreement: {model.name}", traceback.format_exc())
            return [f"* {model.name}: {error}", ""]

    return compared


def compare(bench, model):
    """Numbers of a sample, of all four: hopeval and transformers, bf16 and f32."""
    if bench.checkpoints[model.name].result() is None:
        return [f"* {model.name}: there is no checkpoint", ""]
    sample, failures = bench.requests[model.name].result()["sample"], []
    sides = [
        lambda: of_transformers(bench, model, sample, failures),
        lambda: of_hopeval(bench, model, sample, bench.device, "hopeval", failures),
        lambda: of_hopeval(bench, model, sample, bench.exact, "hopeval f32", failures),
    ]
    found = {label: numbers for side in bench.at_once(lambda side: side(), sides) for label, numbers in side.items()}
    lines = ["", f"{model.name}: {len(sample.lines)} requests, numbers of one beside those of the other", ""]
    of_paths = model.command == "score"
    last = OF_PATHS if of_paths else OF_LABELS
    lines += head("numbers of", "beside", "compared", "largest", "mean", "Spearman", *last)
    for a, b in PAIRS:
        if a not in found or b not in found:
            lines.append(row(a, b, *[None] * (4 + len(last))))
            continue
        off = (agreement.of_paths if of_paths else agreement.of_labels)(found[a], found[b])
        bench.session.record("agreement", f"{model.name}: {a} beside {b}", **off)
        lines.append(difference(a, b, off, of_paths))
    return [*lines, "", *(f"* {model.name}, {failure}" for failure in failures), ""]


def of_transformers(bench, model, sample, failures):
    """In bf16, then in float32, by the process that has the model."""
    peer, found = bench.peers[model.name].result(), {}
    for dtype, label in (("bfloat16", BF16), ("float32", F32)):
        # Numbers of an earlier call may be of another sample.
        path = bench.session.work / f"{model.name}-{dtype}.json"
        path.unlink(missing_ok=True)
        deed = {"deed": "scores", "lines": str(sample.path), "to": str(path), "dtype": dtype}
        with bench.gate.beside_others():
            done = peer.ask(bench.session, "agreement", deed, limit=60)
        bench.session.record("agreement", f"{model.name} {label}", done)
        if done.good and path.exists():
            found[label] = json.loads(path.read_text())
        else:
            failures.append(f"{label}: {done.why}")
    peer.close()
    return found


def of_hopeval(bench, model, sample, device, label, failures):
    arguments = ["lm", model.command, "--model", bench.checkpoints[model.name].result(), "--device", device]
    arguments += ["--input", sample.path, "--batch-tokens", bench.options.batch_tokens]
    done = bench.hopeval("agreement", *arguments, limit=60)
    answers = [values(model, answer) for answer in done.answers()]
    if done.good and None not in answers:
        return {label: answers}
    failures.append(f"{label}: {done.why or 'lines without an answer'}")
    bench.session.record("agreement", f"{model.name} {label}", done)
    return {}


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
    """The step: the same requests in other batches, bit by bit."""
    lines = bench.title("self-check: the same requests in other batches")
    lines += head(
        "model", "requests", "batch-invariant", "numbers", "differing", "largest", "rank flips", "other outcomes", "s"
    )
    return lines + bench.at_once(lambda model: self_checked(bench, model), chosen(bench))


def self_checked(bench, model):
    """A row of the table."""
    folder = bench.checkpoints[model.name].result()
    if folder is None:
        return row(model.name, "no checkpoint", *[None] * 7)
    sample, passes = (4, 2) if bench.tiny else (32, 3)
    file = bench.requests[model.name].result()[REAL].path
    arguments = ["--task", model.command, "--input", file, "--sample", sample, "--passes", passes, "--json"]
    device = ["--device", bench.device, "--batch-tokens", bench.options.batch_tokens]
    done = bench.hopeval("self-check", "lm", "self-check", "--model", folder, *device, *arguments, limit=60)
    document = (done.answers() or [{}])[-1]
    bench.session.record("self-check", model.name, done, result=document)
    found = document.get("passes", [])
    total = lambda field: sum(one[field] for one in found) if found else None
    largest = f"{max(one['largest'] for one in found):.2e}" if found else done.why
    cells = [total("compared"), total("differing"), largest, total("rank_flips"), total("other_outcomes")]
    return row(model.name, document.get("requests"), document.get("invariant"), *cells, f"{done.seconds:.0f}")
