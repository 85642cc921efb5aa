"""The models of the measurements: their checkpoints, their requests, and transformers' process of each."""

import floors
import workloads
from bench import PYTHON, head, row
from kept_process import KeptProcess
from workloads import EVEN, REAL, REUSE


SAMPLE = 40
"""Requests whose numbers are compared, a quarter of them of two hops."""


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
        first = [line for line in more[REAL] if line["id"].startswith("0-")]
        hops = [[line for line in first if hop in line["id"]] for hop in ("-one-", "-two-")]
        more["sample"] = hops[0][: 3 * SAMPLE // 4] + hops[1][: SAMPLE // 4]
    else:
        make, count = (
            (workloads.chunks, iterations(bench)) if model.kind == "label" else (workloads.filtered, iterations(bench))
        )
        more = {workload: make(workload, count) for workload in (EVEN, REAL)}
        more["sample"] = more[REAL][:SAMPLE]
    return {workload: Requests(bench, model, workload, lines) for workload, lines in more.items()}


def iterations(bench):
    return 1 if bench.tiny else 120


def questions(model, bench, lines):
    """How many questions of a method these lines are."""
    if model.command == "score":
        return len({line["id"].split("-")[0] for line in lines})
    return iterations(bench) / workloads.ITERATIONS


def begin(bench, peers):
    """Makes checkpoints in the background, all at once, and opens transformers' processes beside them."""
    for model in chosen(bench):
        bench.checkpoints[model.name] = bench.pool.submit(made, bench, model)
        bench.requests[model.name] = bench.pool.submit(requests, bench, model)
        if peers:
            bench.peers[model.name] = bench.pool.submit(opened, bench, model)


def made(bench, model):
    """The folder of a checkpoint, made if it is not there; None if it could not be made."""
    folder = bench.session.work / "models" / model.name
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        size = "tiny" if bench.tiny else "real"
        arguments = [folder.parent, bench.torch_device, size, model.name]
        done = bench.python("models", "checkpoints.py", *arguments, limit=75)
        bench.session.record("models", model.name, done, made=done.answers())
    return folder if folder.exists() else None


def opened(bench, model):
    """A process of transformers that has read the checkpoint and not touched the device; None without one.

    It imports while others make the checkpoints.
    """
    folder = bench.session.work / "models" / model.name
    peer = KeptProcess(
        bench.session, bench.python_command("transformers_loop.py", folder, model.kind, bench.torch_device), PYTHON
    )
    bench.opened.append(peer)
    imported = peer.ask(bench.session, "models", {}, limit=120)
    if bench.checkpoints[model.name].result() is None:
        peer.close()
        return None
    loaded = peer.ask(bench.session, "models", {"deed": "load"}, limit=90)
    answers = imported.answers() + loaded.answers()
    bench.session.record("models", f"{model.name}: transformers", loaded, answers=answers)
    return peer


def close(bench):
    """Ends transformers' processes, those that still open too."""
    for peer in bench.opened:
        peer.close()


def chosen(bench):
    return [model for name in bench.options.models for model in MODELS[name]]


def checkpoints(bench):
    """The step that makes them, and tells of them."""
    lines = bench.title("checkpoints with random weights") + head("model", "GB", "there")
    for model in chosen(bench):
        folder = bench.checkpoints[model.name].result()
        size = sum(path.stat().st_size for path in folder.glob("*.safetensors")) / 1e9 if folder else None
        lines.append(row(model.name, size and f"{size:.2f}", "yes" if folder else "no, see the raw output"))
    return lines


def ask_bench(bench, step, model, folder, file, *more, repeat=4, limit=60, before=()):
    """Runs `lm bench`, alone on the device; `before` is a profiler."""
    arguments = ["lm", "bench", "--model", folder, "--device", bench.device, "--task", model.command, "--input", file]
    arguments += ["--repeat", repeat, "--batch-tokens", bench.options.batch_tokens, *more]
    return bench.hopeval(step, *arguments, limit=limit, before=before, timed=True)
