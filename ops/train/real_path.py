"""EfficientRAG's whole path on real text in one command: training data from gold annotations, training, evaluation.

    real_path.py --hopeval PROGRAM --data DIR --work DIR [--held-out 100] [--seed 1] [--out FILE]

`--data` holds `musique` and `2wikimultihopqa`, each with questions in its own format (`train*`). MuSiQue's questions are parted:
those that share a gold passage, directly or through others, stay together, and such groups are drawn until `--held-out` questions
are aside. `hopeval train-data` makes rows of the others and of 2WikiMultihopQA's; `labeler.py` and `filter.py` train on them, from the
models that hopeval carries, which know generated worlds only. A job then asks the questions aside over the union of their own
contexts: BM25 alone, EfficientRAG as trained here, and EfficientRAG with the models as carried.

No language model, no GPU; some three minutes on two cores. `--work` is a new folder.
"""

import argparse
import datetime
import gzip
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet

HERE = Path(__file__).resolve().parent
CARRIED = HERE.parents[1] / "jobs/models/files"
TRAINING = {
    "labeler": ["--steps", "400", "--learning-rate", "5e-4"],
    "filter": ["--steps", "200", "--learning-rate", "5e-4", "--held-out", "0.02"],
}
MEASURES = ("recall_frac@2", "recall_frac@5", "recall_frac@10", "recall_all@10")

JOB = """name = "real-path"
[dataset]
format = "musique"
questions = {questions}
gold = "title+text"
[corpus]
source = "contexts"
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
k = 10
[measures]
recall_at = [2, 5, 10]
"""

METHOD = """[service.{name}_labeler]
kind = "lm"
model = {labeler}
[service.{name}_filter]
kind = "lm"
model = {filter}
[method.{name}]
kind = "efficientrag"
retriever = "bm25"
labeler = "{name}_labeler"
filter = "{name}_filter"
k = 10
max_iterations = 4
"""


def questions_in(folder):
    found = sorted(folder.glob("train*"))
    if len(found) != 1:
        sys.exit(f"{folder}: one file train* is expected, there are {len(found)}")
    return found[0]


def parted(lines, aside, seed):
    """Questions to train on and `aside` others, of which none has a gold passage in common with any of those."""
    parent = list(range(len(lines)))

    def root(n):
        while parent[n] != n:
            parent[n] = n = parent[parent[n]]
        return n

    first = {}
    for n, line in enumerate(lines):
        for paragraph in json.loads(line)["paragraphs"]:
            if paragraph["is_supporting"]:
                parent[root(n)] = root(first.setdefault((paragraph["title"], paragraph["paragraph_text"]), n))
    groups = {}
    for n in range(len(lines)):
        groups.setdefault(root(n), []).append(n)
    groups = list(groups.values())
    random.Random(seed).shuffle(groups)
    chosen = set()
    for group in groups:
        if len(chosen) + len(group) <= aside:
            chosen.update(group)
    if len(chosen) != aside or len(chosen) == len(lines):
        sys.exit(f"of {len(lines)} questions {len(chosen)} can be set aside without a gold passage in common with the others; --held-out is {aside}")
    return [l for n, l in enumerate(lines) if n not in chosen], [l for n, l in enumerate(lines) if n in chosen]


class Steps:
    """Commands that are run one after the other."""

    def __init__(self, options, work):
        self.options, self.work = options, work

    def run(self, *command):
        """What it prints."""
        print("+", *command, file=sys.stderr, flush=True)
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"failed with {done.returncode}: {' '.join(map(str, command))}")
        return done.stdout

    def hopeval(self, *arguments):
        # Without these a store would come to lie where the command is given.
        places = ["--store", self.work / "store", "--cache", self.work / "cache"]
        return self.run(self.options.hopeval, *places, *arguments)

    def script(self, name, *arguments):
        return self.run(sys.executable, HERE / name, *arguments)


def tokenizer(steps, work):
    """The vocabulary of the models that hopeval carries, made from the worlds that it was made from."""
    worlds = [work / f"world{seed}" for seed in (1, 2, 3)]
    for seed, world in enumerate(worlds, 1):
        steps.hopeval("world", "--questions", 4000, "--passages", 5000, "--seed", seed, "--split", "train", "--out", world)
    made = work / "tok"
    steps.script("tokenizer.py", *(word for world in worlds for word in ("--world", world)), "--out", made)
    if (made / "bert/tokenizer.json").read_bytes() != (CARRIED / "labeler/tokenizer.json").read_bytes():
        sys.exit("the tokenizer of these worlds is not the one that hopeval's models have")
    return made


def rows(steps, work, sources):
    """Rows of all sources in one folder, and a line of a table for each source."""
    lines, tables = [], {"labeler": [], "filter": []}
    for name, path in sources.items():
        out = work / f"rows-{name}"
        steps.hopeval("train-data", "--questions", path, "--format", name, "--out", out)
        for kind, parts in tables.items():
            parts.append(parquet.read_table(out / f"{kind}.parquet"))
        lines.append(f"| {name} | {tables['labeler'][-1].num_rows:,} | {tables['filter'][-1].num_rows:,} |")
    both = work / "rows"
    both.mkdir()
    for kind, parts in tables.items():
        parquet.write_table(pyarrow.concat_tables(parts), both / f"{kind}.parquet", compression="zstd")
    return both, lines


def trained(steps, work, given, tok):
    """Folders of models by their names, and a line of a table for each."""
    folders, lines = {}, []
    for name, settings in TRAINING.items():
        out = folders[name] = work / name
        common = ["--preset", "small", "--rows", given, "--tokenizer", tok, "--base", CARRIED / name, "--out", out]
        steps.script(f"{name}.py", *common, *settings)
        first, *_, last = map(json.loads, (out / "training.jsonl").read_text().splitlines())
        figures = ", ".join(f"{key} {value:.3f}" for key, value in last.items() if key not in ("finished", "steps", "cpu_seconds", "wall_seconds"))
        lines.append(f"| {name} | {' '.join(settings)} | {first['rows']:,} | {first['held_out']:,} | {last['cpu_seconds']:.0f} | {figures} |")
    return folders, lines


def evaluated(steps, work, questions, folders):
    """A table of the job's run."""
    methods = {"as_trained": folders, "as_carried": {name: f"hopeval:{name}" for name in folders}}
    text = JOB.format(questions=json.dumps(str(questions)))
    for name, models in methods.items():
        text += METHOD.format(name=name, **{kind: json.dumps(str(model)) for kind, model in models.items()})
    job = work / "real-path.toml"
    job.write_text(text)
    shown = steps.hopeval("run", job, "--json")
    document = json.loads(shown)
    named = ("bm25", *methods)
    outcomes = parquet.read_table(work / "store/runs" / document["run"] / "final/outcomes.parquet", columns=["configuration", "ranked"]).to_pylist()
    head = [f"| configuration | {' | '.join(MEASURES)} | chunks | coverage |", "| --- |" + " --- |" * (len(MEASURES) + 2)]
    lines = []
    for configuration in named:
        found = {m["measure"]: m for m in document["measures"] if m["configuration"] == configuration and m["stratum"] == "all"}
        cells = [f"{found[measure]['value']:.3f} ± {found[measure]['stderr']:.3f}" for measure in MEASURES]
        cells.append(f"{statistics.mean(len(row['ranked']) for row in outcomes if row['configuration'] == configuration):.2f}")
        lines.append(f"| {configuration} | {' | '.join(cells)} | {found[MEASURES[0]]['coverage']:.3f} |")
    return head + lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True, type=Path, help="the program")
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--held-out", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    musique, wiki = (questions_in(options.data / name) for name in ("musique", "2wikimultihopqa"))
    work = options.work.resolve()
    steps = Steps(options, work)
    work.mkdir(parents=True, exist_ok=True)
    if any(work.iterdir()):
        sys.exit(f"{work} is not empty; --work is a new folder")
    opened = gzip.open if musique.suffix == ".gz" else open
    with opened(musique, "rt", encoding="utf-8", newline="\n") as file:
        training, aside = parted(list(file), options.held_out, options.seed)
    files = {"training": training, "aside": aside}
    for name, lines in files.items():
        (work / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8", newline="\n")
    given, made = rows(steps, work, {"musique": work / "training.jsonl", "2wikimultihopqa": wiki})
    folders, fitted = trained(steps, work, given, tokenizer(steps, work))
    text = [
        f"# From construction to evaluation on real text, {datetime.date.today()}",
        "",
        f"`ops/train/real_path.py`: {len(training)} of MuSiQue's questions and 2WikiMultihopQA's to train on, {len(aside)} of MuSiQue's, without a gold",
        "passage in common with the others, to evaluate. BM25 as retriever, k = 10, at most four iterations, over the union of their contexts.",
        "Means with their standard errors.",
        "",
        "| rows of | labeler | filter |",
        "| --- | --- | --- |",
        *made,
        "",
        "| model | settings | rows | held out | processor s | on rows held out |",
        "| --- | --- | --- | --- | --- | --- |",
        *fitted,
        "",
        *evaluated(steps, work, work / "aside.jsonl", folders),
        "",
    ]
    print("\n".join(text))
    if options.out:
        options.out.write_text("\n".join(text))


if __name__ == "__main__":
    main()
