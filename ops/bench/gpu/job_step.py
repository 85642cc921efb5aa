"""The steps that run a whole job on the device and again on the CPU, and hold the outcomes beside each other."""

import pathlib

from bench import ROOT, head, row

SERVICES = ("scorer", "labeler", "filter", "encoder", "reader", "reranker", "writer")
"""Of the job's models."""
MEASURES = ("em", "f1", "recall_frac@2", "recall_frac@10", "recall_all@10")
SHOWN = ("promptrank", "single_hop", "efficientrag", "dense", "one_step_qa", "ircot")


def job(bench):
    """The example of a generated world with the carried models, alone on the device: energy is counted."""
    device = on_device(bench)
    document = bench.documents[device] = run(bench, device, timed=True)
    lines = bench.title(f"a job on {device}") + outcomes({device: document})
    return [*lines, "", *costs(bench, {device: document})]


def job_on_cpu(bench):
    """The same job on the CPU, beside the device's."""
    device, other = on_device(bench), "cpu" if bench.on_gpu else "cpu-avx2"
    lines = bench.title(f"the job on {other}, beside that on {device}")
    if bench.documents.get(device) is None:
        return [*lines, f"not run: there is no job on {device} to compare it with"]
    documents = {device: bench.documents[device], other: run(bench, other)}
    return [*lines, *outcomes(documents), "", *rankings(bench, device, other, documents), "", *costs(bench, documents)]


def on_device(bench):
    return "cuda" if bench.device == "cuda:0" else bench.device


def outcomes(documents):
    lines = head("configuration", "device", *MEASURES)
    for configuration in SHOWN:
        for name, document in documents.items():
            lines.append(row(configuration, name, *[measure(document, configuration, of) for of in MEASURES]))
    return lines


def run(bench, device, timed=False):
    """The document that `hopeval run` prints; None if it failed."""
    questions, passages = (2, 400) if bench.tiny else (50, 3000)
    settings = [f"dataset.world.questions={questions}", f"dataset.world.passages={passages}"]
    settings += [f"service.{service}.device={device}" for service in SERVICES]
    settings += [f"service.{service}.batch_tokens=16384" for service in SERVICES if bench.on_gpu]
    if bench.tiny:
        settings += ["method.promptrank.pool=5", "method.single_hop.pool=5", "method.promptrank.read_paths=1"]
    words = [word for setting in settings for word in ("--set", setting)]
    store = ["--store", bench.session.work / f"store-{device.replace(':', '-')}"]
    example = ROOT / "jobs" / "examples" / "world-comparison.toml"
    done = bench.hopeval("job", "run", example, *store, *words, "--json", limit=150, timed=timed)
    document = (done.answers() or [None])[-1]
    bench.session.record(
        "job",
        device,
        done,
        measures=document and [m for m in document["measures"] if m["stratum"] == "all"],
        cost=document and document["cost"],
    )
    return document


def measure(document, configuration, name):
    for found in document["measures"] if document else ():
        if (found["configuration"], found["measure"], found["stratum"]) == (configuration, name, "all") and found[
            "value"
        ] is not None:
            return f"{found['value']:.4f}"
    return None


def table(document, name):
    """Rows of a table of the run's."""
    import pyarrow.parquet

    return pyarrow.parquet.read_table(pathlib.Path(document["out"]) / "final" / f"{name}.parquet").to_pylist()


def rankings(bench, device, other, documents):
    """How many questions have the same passages in the same order, and the same answer."""
    if None in documents.values():
        return ["one of the two runs has no results: rankings are not compared"]
    lines = head(
        "configuration", "questions", "same ranking", "same first 10", "same answer", "largest difference of a score"
    )
    ours, theirs = (
        {(o["configuration"], o["question"]): o for o in table(documents[name], "outcomes")} for name in (device, other)
    )
    for configuration in sorted({key[0] for key in ours}):
        pairs = [(ours[key], theirs[key]) for key in ours if key[0] == configuration and key in theirs]
        count = lambda same: sum(same(a, b) for a, b in pairs)
        whole, first = (
            count(lambda a, b: a["ranked"] == b["ranked"]),
            count(lambda a, b: a["ranked"][:10] == b["ranked"][:10]),
        )
        answers = count(lambda a, b: a["answer"] == b["answer"])
        off = [abs(x - y) for a, b in pairs for x, y in both(a, b)]
        largest = max(off, default=None)
        values = {
            "questions": len(pairs),
            "same_ranking": whole,
            "same_first_10": first,
            "same_answer": answers,
            "largest": largest,
        }
        bench.session.record("job", f"{configuration}: {device} beside {other}", **values)
        lines.append(
            row(configuration, len(pairs), whole, first, answers, None if largest is None else f"{largest:.2e}")
        )
    return lines


def both(a, b):
    """Scores of the passages that both ranked."""
    scores = dict(zip(b["ranked"], b["scores"]))
    return [(score, scores[passage]) for passage, score in zip(a["ranked"], a["scores"]) if passage in scores]


def costs(bench, documents):
    """What the run's models took, and the energy where it was counted."""
    lines = head("device", "service", "requests", "device seconds", "joule a question")
    for device, document in documents.items():
        for cost in table(document, "costs") if document else ():
            if cost["configuration"] is None and cost["device_s"] is not None:
                joule = cost.get("energy_j")
                each = None if joule is None else f"{joule / document['questions']:.3g}"
                lines.append(
                    row(device, f"{cost['service']}, {cost['kind']}", cost["computed"], f"{cost['device_s']:.3f}", each)
                )
                bench.session.record(
                    "job", f"{device}: cost of {cost['service']}", cost=cost, questions=document["questions"]
                )
    return lines
