"""Sparse retrieval for negatives and for measuring: DrQA's TF-IDF, BM25, and the TF-IDF that PromptRank ranks links by.

These are slow and obvious; hopeval's own indexes are what runs are made with.
"""

import math
import re
from collections import Counter
from functools import lru_cache

import numpy as np
from scipy import sparse

RUN = re.compile(r"\w+")
STOP_WORDS = frozenset(
    """a about above after again against ain all am an and any are aren as at be because been before being below between
    both but by can couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn
    have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m ma me
    mightn more most mustn my myself needn no nor not now o of off on once only or other our ours ourselves out over own
    re s same shan she should shouldn so some such t than that the their theirs them themselves then there these they
    this those through to too under until up ve very was wasn we were weren what when where which while who whom why will
    with won wouldn y you your yours yourself yourselves""".split()
)


def terms(text):
    return [w.lower() for w in RUN.findall(text)]


def grams(text):
    """Words and pairs of neighbours without stop words."""
    found = terms(text)
    pairs = [f"{a} {b}" for a, b in zip(found, found[1:]) if a not in STOP_WORDS and b not in STOP_WORDS]
    return [w for w in found if w not in STOP_WORDS] + pairs


class Matrix:
    """Counts of terms: one row per text."""

    def __init__(self, texts, analyse):
        self.analyse, self.columns = analyse, {}
        rows, columns, counts = [], [], []
        for row, text in enumerate(texts):
            for term, count in Counter(analyse(text)).items():
                rows.append(row)
                columns.append(self.columns.setdefault(term, len(self.columns)))
                counts.append(count)
        shape = (len(texts), len(self.columns))
        self.counts = sparse.csr_matrix((np.asarray(counts, np.float64), (rows, columns)), shape=shape)
        self.frequency = np.bincount(columns, minlength=shape[1]).astype(np.float64)

    def query(self, text):
        """The columns that a text's terms have, and how often each occurs."""
        found = Counter(self.columns[t] for t in self.analyse(text) if t in self.columns)
        return np.fromiter(found, np.int64), np.fromiter(found.values(), np.float64)


def product(postings, columns, weights):
    """What rows score for a few weighted columns of a matrix that is stored by column."""
    scores = np.zeros(postings.shape[0])
    for column, weight in zip(columns, weights):
        span = slice(postings.indptr[column], postings.indptr[column + 1])
        scores[postings.indices[span]] += weight * postings.data[span]
    return scores


def best(scores, k):
    """The k best with a positive score; ties in order of position."""
    order = np.argsort(-scores, kind="stable")[:k]
    return [int(n) for n in order if scores[n] > 0]


class TfIdf:
    """log(1 + tf) times a clipped idf, on both sides."""

    def __init__(self, texts):
        self.matrix = Matrix(texts, grams)
        n, df = len(texts), self.matrix.frequency
        self.idf = np.maximum(np.log((n - df + 0.5) / (df + 0.5)), 0.0)
        weighted = self.matrix.counts.copy()
        weighted.data = np.log1p(weighted.data) * self.idf[weighted.indices]
        self.postings = weighted.tocsc()

    def scores(self, text):
        columns, counts = self.matrix.query(text)
        return product(self.postings, columns, np.log1p(counts) * self.idf[columns])

    def search(self, text, k):
        return best(self.scores(text), k)


class Bm25:
    """Lucene's BM25."""

    def __init__(self, texts, k1=0.9, b=0.4):
        self.matrix = Matrix(texts, terms)
        n, df = len(texts), self.matrix.frequency
        lengths = np.asarray(self.matrix.counts.sum(axis=1)).ravel()
        norm = k1 * (1 - b + b * lengths / lengths.mean())
        weighted = self.matrix.counts.copy()
        rows = np.repeat(np.arange(len(texts)), np.diff(weighted.indptr))
        weighted.data = weighted.data / (weighted.data + norm[rows])
        weighted.data *= np.log(1 + (n - df + 0.5) / (df + 0.5))[weighted.indices]
        self.postings = weighted.tocsc()

    def scores(self, text):
        columns, _ = self.matrix.query(text)
        return product(self.postings, columns, np.ones(len(columns)))

    def search(self, text, k):
        return best(self.scores(text), k)


@lru_cache(maxsize=100_000)
def bag(text):
    return Counter(w for w in terms(text) if w not in STOP_WORDS and len(w) > 1)


def rank_links(question, texts):
    """Positions of `texts` by the cosine of a TF-IDF fitted on just them; of equal ones the later first, as PromptRank does."""
    bags = [bag(text) for text in texts]
    frequency = Counter(w for bag in bags for w in bag)
    idf = {w: math.log((1 + len(texts)) / (1 + df)) + 1 for w, df in frequency.items()}
    asked = {w: c * idf[w] for w, c in Counter(terms(question)).items() if w in idf}

    def cosine(counts):
        length = math.sqrt(sum((c * idf[w]) ** 2 for w, c in counts.items()))
        return sum(asked[w] * counts[w] * idf[w] for w in asked if w in counts) / length if length else 0.0

    scores = [cosine(counts) for counts in bags]
    return sorted(range(len(texts)), key=lambda n: (-scores[n], -n))
