#!/usr/bin/env python3
"""Measures what each difference between hopeval's defaults and the authors' own runs of PromptRank and EfficientRAG
does.

Why: `../shared/reviews/fidelity.md` lists 22 deviations from what the authors of both papers ran. hopeval has both
ways as parameters; which of them move a figure, and how far, must be known before a table is compared with a
published one.

What: for each deviation that the data at hand can show, a figure by hopeval's default and by the authors' way.
Where both are over the same questions of one run, the difference has its paired 95 % interval; else both numbers of
questions stand there. Data: HotpotQA (1,267 development questions over the 12,392 passages of their contexts, links
are title mentions), MuSiQue (299), 2WikiMultihopQA (500), and predictions for them; for what asks models, a
generated world, whose questions are what hopeval's own small models were trained for. With them the *direction* of
a deviation of a reader or a labeler can be seen, not the size that it has with the papers' models on real text.

    deviations.py --hopeval target/release/hopeval --shared ../shared [--questions 300] [--scored 60]
                  [--folder DIR] [--out FILE]

`--questions`: of the deviations that ask small models; `--scored`: of those that score PromptRank's paths. All
others are over all questions. Needs the standard library alone. Exits with 1 if a run fails.
"""

import argparse
import gzip
import json
import pathlib
import subprocess
import tempfile

HOTPOTQA = """
[dataset]
questions = "HOTPOTQA/dev_1267.json.gz"
gold = "title"
limit = LIMIT
[corpus]
source = "HOTPOTQA/corpus.jsonl.gz"
links = "mentions"
"""

RETRIEVAL = """
[service.titles]
kind = "tfidf"
[service.texts]
kind = "tfidf"
fields = "text"
[service.written]
kind = "tfidf"
fields = "text"
normalisation = "none"
[service.link_tfidf]
kind = "link_tfidf"
[service.okapi]
kind = "bm25"
formula = "okapi"
k1 = 2.0
b = 0.75
[method.titles]
kind = "one_step"
retriever = "titles"
k = 100
[method.texts]
kind = "one_step"
retriever = "texts"
k = 100
[method.written]
kind = "one_step"
retriever = "written"
k = 100
[method.flat]
kind = "tfidf_bm25"
retriever = "titles"
reranker = "okapi"
[method.paths]
kind = "tfidf_bm25"
as = "code"
retriever = "written"
link_ranker = "link_tfidf"
k = 200
[measures]
recall_at = [2, 10, 20, 100]
answer_recall_at = [2, 10, 20]
bridge_answer_recall_at = [2, 10, 20]
"""

PATHS = """
[service.written]
kind = "tfidf"
fields = "text"
normalisation = "none"
[service.link_tfidf]
kind = "link_tfidf"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
[service.reader]
kind = "lm"
model = "hopeval:reader"
[method.smaller_id]
kind = "promptrank"
retriever = "written"
link_ranker = "link_tfidf"
scorer = "scorer"
reader = "reader"
[method.pool_order]
kind = "promptrank"
retriever = "written"
link_ranker = "link_tfidf"
scorer = "scorer"
reader = "reader"
ties = "pool"
[method.words]
kind = "promptrank"
retriever = "written"
link_ranker = "link_tfidf"
scorer = "scorer"
reader = "reader"
span_text = "words"
[method.final_text]
kind = "promptrank"
retriever = "written"
link_ranker = "link_tfidf"
scorer = "scorer"
reader = "reader"
span_text = "final_text"
[measures]
recall_at = [2, 10]
"""

EFFICIENTRAG = """
[service.encoder]
kind = "lm"
model = "hopeval:encoder"
[service.dense]
kind = "dense"
encoder = "encoder"
[service.twice]
kind = "dense"
encoder = "encoder"
fields = "title+title+text"
between = ": "
[service.labeler]
kind = "lm"
model = "hopeval:labeler"
[service.sequence]
kind = "lm"
model = "hopeval:labeler"
label_scope = "sequence"
[service.filter]
kind = "lm"
model = "hopeval:filter"
[service.reader]
kind = "lm"
model = "hopeval:reader"
[method.dense]
kind = "one_step"
retriever = "dense"
k = 10
[method.twice]
kind = "one_step"
retriever = "twice"
k = 10
[method.chunk]
kind = "efficientrag"
retriever = "dense"
labeler = "labeler"
filter = "filter"
reader = "reader"
[method.sequence]
kind = "efficientrag"
retriever = "dense"
labeler = "sequence"
filter = "filter"
reader = "reader"
[method.empty_query]
kind = "efficientrag"
retriever = "dense"
labeler = "labeler"
filter = "filter"
reader = "reader"
empty_query = "retrieve"
[method.repeats]
kind = "efficientrag"
retriever = "dense"
labeler = "labeler"
filter = "filter"
reader = "reader"
read_repeats = true
[measures]
recall_at = [10]
chunk_recall = true
chunks_with_repeats = true
"""

WORLD = """
[dataset.world]
questions = QUESTIONS
passages = 4000
seed = 11
"""

SMALL_CORPUS = """
[dataset]
questions = "QUESTIONS"
gold = "title"
[corpus]
source = "SOURCE"
links = "none"
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
k = 100
[measures]
recall_at = [10, 20]
chunk_recall = true
"""


class Bench:
    """Runs of one binary in one store, and the rows of the table."""

    def __init__(self, binary, shared, work):
        self.binary, self.shared, self.work = binary, shared, work
        self.rows = []

    def hopeval(self, *words):
        places = ["--store", self.work / "store", "--cache", self.work / "cache"] if words[0] != "score" else []
        command = [str(word) for word in (self.binary, *words, *places, "--json")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def run(self, name, text):
        """The id of a run of a job."""
        path = self.work / f"{name}.toml"
        path.write_text(f'name = "{name}"\n' + text.replace("HOTPOTQA", str(self.shared / "data/hotpotqa")))
        return self.hopeval("run", path)["run"]

    def compare(self, run, number, what, default, authors, measures):
        """Rows of one deviation: two configurations of a run."""
        named = [word for measure in measures for word in ("--measure", measure)]
        shown = self.hopeval("show", run, "--against", default, *named)
        rows = [row for row in shown["measures"] if row["stratum"] == "all"]
        value = {(row["configuration"], row["measure"]): row["value"] for row in rows}
        for measure in measures:
            row = next(
                row
                for row in shown["differences"]
                if (row["configuration"], row["measure"], row["stratum"]) == (authors, measure, "all")
            )
            # A count is no share.
            scale = 1 if measure.startswith("chunks") else 100
            figures = [value[default, measure], value[authors, measure], row["difference"], row["low"], row["high"]]
            self.add(number, what, measure, [figure * scale for figure in figures], row["n"])

    def two(self, runs, number, what, configuration, measures):
        """Rows of one deviation: a configuration in two runs of different corpora."""
        shown = [self.hopeval("show", run) for run in runs]
        for measure in measures:
            found = [
                next(
                    row
                    for row in document["measures"]
                    if (row["configuration"], row["measure"], row["stratum"]) == (configuration, measure, "all")
                )
                for document in shown
            ]
            values = [row["value"] * 100 for row in found]
            counts = f"{found[0]['n']}, {found[1]['n']}"
            self.add(number, what, measure, [*values, values[1] - values[0], None, None], counts)

    def add(self, number, what, measure, figures, questions):
        default, authors, difference, low, high = figures
        interval = "" if low is None else f" ({low:+.1f} to {high:+.1f})"
        figures = [f"{default:.1f}", f"{authors:.1f}", f"{difference:+.1f}{interval}"]
        cells = [number, what, measure, *figures, str(questions)]
        self.rows.append("| " + " | ".join(cells) + " |")
        print(self.rows[-1], flush=True)


def retrieval(bench):
    run = bench.run("retrieval", HOTPOTQA.replace("LIMIT", "1267") + RETRIEVAL)
    recall = ["recall_all@2", "recall_all@10", "recall_all@20", "recall_all@100"]
    bench.compare(run, "1", "TF-IDF over titles and texts; over texts alone", "titles", "texts", recall)
    bench.compare(run, "12", "texts in NFD; as they stand", "texts", "written", recall)
    bench.compare(run, "2", "TF-IDF + BM25 as one list; by the authors' paths", "flat", "paths", recall)
    shown = bench.hopeval("show", run)
    value = {(row["configuration"], row["measure"]): row for row in shown["measures"] if row["stratum"] == "all"}
    for depth in (2, 10, 20):
        code, paper = (value["texts", f"{name}answer_recall@{depth}"] for name in ("", "bridge_"))
        figures = [code["value"] * 100, paper["value"] * 100, (paper["value"] - code["value"]) * 100, None, None]
        what = "answer recall without yes and no (code); without comparisons, too (paper)"
        bench.add("5", what, f"AR@{depth}", figures, f"{code['n']}, {paper['n']}")
    older = bench.run("older", HOTPOTQA.replace("LIMIT", '1267\nmissing_gold = "leave_out_as_promptrank"') + RETRIEVAL)
    left = bench.hopeval("show", older)["questions"]
    what = f"all questions; the {left} whose gold titles PromptRank's older evaluation finds"
    bench.two([run, older], "9", what, "texts", ["recall_all@2", "recall_all@10"])


def answers(bench):
    golden, data = bench.shared / "golden", bench.shared / "data"
    files = [
        ("hotpotqa", golden / "hotpotqa_dev_1267_predictions.json.gz", data / "hotpotqa/dev_1267.json.gz"),
        (
            "2wikimultihopqa",
            golden / "2wikimultihopqa_train_500_predictions.json.gz",
            data / "2wikimultihopqa/train_500.json.gz",
        ),
        ("musique", golden / "musique_train_299_predictions.jsonl.gz", data / "musique/train_299.jsonl.gz"),
    ]
    for profile, predictions, gold in files:
        official = bench.hopeval("score", "--profile", profile, "--predictions", predictions, "--gold", gold)
        answered = bench.work / f"{profile}-answers.json"
        answered.write_text(json.dumps(answers_of(predictions)))
        authors = bench.hopeval("score", "--profile", "efficientrag", "--predictions", answered, "--gold", gold)
        theirs = {row["measure"]: row["value"] for row in authors["measures"] if row["stratum"] == "all"}
        unit = 100 if profile == "hotpotqa" else 1
        for measure, name in (("em", "em"), ("f1", "f1")):
            own = official[f"answer_{name}" if profile == "musique" else name]
            own = own * 100 if profile == "musique" else own * unit
            found = theirs[measure] * 100
            what = f"{profile}'s rules; EfficientRAG's (EM if the answer stands in the gold one, no aliases)"
            bench.add("7", what, measure, [own, found, found - own, None, None], official["questions"])


def answers_of(path):
    """The answers of a file of predictions, by question."""
    text = gzip.decompress(path.read_bytes()).decode("utf-8")
    if path.name.endswith(".jsonl.gz"):
        rows = [json.loads(line) for line in text.split("\n") if line]
        return {row["id"]: row["predicted_answer"] for row in rows}
    return json.loads(text)["answer"]


def corpora(bench):
    rows = json.loads(gzip.decompress((bench.shared / "data/hotpotqa/dev_1267.json.gz").read_bytes()))
    some = bench.work / "some.json"
    some.write_text(json.dumps(rows[:160]))
    union = bench.shared / "data/hotpotqa/dev_1267.json.gz"
    runs = [
        bench.run(f"corpus-{name}", SMALL_CORPUS.replace("QUESTIONS", str(some)).replace("SOURCE", str(source)))
        for name, source in (("own", some), ("union", union))
    ]
    what = "BM25 over the contexts of 160 questions; over a union 7.9 times as large (1,267)"
    bench.two(runs, "8", what, "bm25", ["recall_frac@10", "recall_frac@20"])


def models(bench, questions, scored):
    run = bench.run("paths", WORLD.replace("QUESTIONS", str(scored)) + PATHS)
    what, recall = "equally good documents by id; by the pool's order", ["recall_all@2", "recall_all@10"]
    bench.compare(run, "11", what, "smaller_id", "pool_order", recall)
    for name, what in (("words", "its whole words"), ("final_text", "MDR's final text")):
        bench.compare(run, "3", f"an answer's tokens; {what}", "smaller_id", name, ["em", "f1"])
    run = bench.run("efficientrag", WORLD.replace("QUESTIONS", str(questions)) + EFFICIENTRAG)
    bench.compare(run, "18", "title and text embedded; the title twice", "dense", "twice", ["recall_frac@10"])
    shown = bench.hopeval("show", run)
    value = {(row["configuration"], row["measure"]): row for row in shown["measures"] if row["stratum"] == "all"}
    once, often = (value["chunk", name] for name in ("chunks", "chunks_with_repeats"))
    figures = [once["value"], often["value"], often["value"] - once["value"], None, None]
    bench.add("15", "K of distinct passages; with repeats", "K", figures, once["n"])
    measures = ["chunk_recall", "chunks_with_repeats", "f1"]
    bench.compare(run, "22", "kept words of the chunk; of the query, too", "chunk", "sequence", measures)
    bench.compare(run, "22", "an empty query ends the loop; is retrieved with", "chunk", "empty_query", measures)
    bench.compare(run, "22", "a chunk is read once; as often as it was kept", "chunk", "repeats", ["f1"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True, type=pathlib.Path)
    parser.add_argument("--shared", required=True, type=pathlib.Path, help="the folder with data and golden")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--scored", type=int, default=60)
    parser.add_argument("--folder", help="where the runs lie; a new folder by default")
    parser.add_argument("--out", type=pathlib.Path, help="the file of the table")
    options = parser.parse_args()
    work = pathlib.Path(options.folder or tempfile.mkdtemp(prefix="deviations-"))
    work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options.hopeval.resolve(), options.shared.resolve(), work.resolve())
    retrieval(bench)
    answers(bench)
    corpora(bench)
    models(bench, options.questions, options.scored)
    head = ["| # | hopeval's default; the authors' way | measure | default | authors' | difference | questions |"]
    head += ["| --- | --- | --- | --- | --- | --- | --- |"]
    rows = sorted(bench.rows, key=lambda row: int(row.split("|")[1]))
    if options.out:
        options.out.write_text("\n".join(head + rows) + "\n")


if __name__ == "__main__":
    main()
