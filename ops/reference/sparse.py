"""BM25, DrQA's hashed TF-IDF, and the TF-IDF that PromptRank ranks links by, from their definitions.

A retriever is made for a list of texts and gives `search(query, k)`: pairs of position and score, best first, of equal ones
the earlier; texts that share nothing with the query are left out.
"""

import collections
import math
import re
import unicodedata

import regex

# DrQA's list, as its simple tokenizer can produce it.
DRQA_STOP_WORDS = set(
    """a about above after again against ain all am an and any are aren as at be because been before being below between
    both but by can couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn
    have haven having he her here hers herself him himself his how i if in into is isn it its itself just ll m ma me
    mightn more most mustn my myself needn no nor not now o of off on once only or other our ours ourselves out over own
    re s same shan she should shouldn so some such t than that the their theirs them themselves then there these they
    this those through to too under until up ve very was wasn we were weren what when where which while who whom why will
    with won wouldn y you your yours yourself yourselves""".split()
)


def best(scores, k):
    """Pairs of position and score, best first."""
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def words(text, analyzer):
    if analyzer == "word":
        return re.findall(r"\w+", text.lower())
    if analyzer == "whitespace":
        return text.lower().split()
    raise SystemExit(f"the reference has no analyzer {analyzer!r}; it has word and whitespace")


class Bm25:
    """Lucene's BM25: each word of the query adds idf * tf / (tf + norm)."""

    def __init__(self, texts, settings):
        if settings.get("formula", "lucene") != "lucene":
            raise SystemExit("the reference has only the lucene formula")
        self.analyzer = settings.get("analyzer", "word")
        k1, b = settings.get("k1", 0.9), settings.get("b", 0.4)
        self.postings, lengths = collections.defaultdict(list), []
        for position, text in enumerate(texts):
            terms = words(text, self.analyzer)
            lengths.append(len(terms))
            for term, count in collections.Counter(terms).items():
                self.postings[term].append((position, count))
        self.count = len(texts)
        average = sum(lengths) / max(1, self.count)
        self.norms = [k1 * (1 - b + b * length / average) if average else k1 for length in lengths]

    def search(self, query, k):
        scores = collections.defaultdict(float)
        for term in words(query, self.analyzer):
            postings = self.postings.get(term, [])
            idf = math.log(1 + (self.count - len(postings) + 0.5) / (len(postings) + 0.5))
            for position, tf in postings:
                # In this order of operations; in another one the last bit differs, and with it the order of near ties.
                scores[position] += idf * (tf / (tf + self.norms[position]))
        return best(scores, k)


def murmur3(data):
    """MurmurHash3, 32 bits, seed 0."""
    mask, hashed = 0xFFFFFFFF, 0

    def scrambled(block):
        block = block * 0xCC9E2D51 & mask
        return ((block << 15 | block >> 17) & mask) * 0x1B873593 & mask

    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        hashed ^= scrambled(int.from_bytes(data[at : at + 4], "little"))
        hashed = ((hashed << 13 | hashed >> 19) & mask) * 5 + 0xE6546B64 & mask
    if whole < len(data):
        hashed ^= scrambled(int.from_bytes(data[whole:], "little"))
    hashed ^= len(data)
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & mask
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & mask
    return hashed ^ hashed >> 16


class DrqaTfidf:
    """Words and pairs of words, hashed; ln(1 + tf) times an idf that is never negative, on both sides; inner product."""

    TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
    MARKS = regex.compile(r"\p{P}+")

    def __init__(self, texts, settings):
        if settings.get("ties", "earlier") != "earlier":
            raise SystemExit("the reference ranks the earlier of equal passages first")
        self.longest, self.buckets = settings.get("ngrams", 2), 2 ** settings.get("hash_bits", 24)
        normal = settings.get("normalisation", "nfd") == "nfd"
        self.hashes = {}
        self.postings = collections.defaultdict(list)
        for position, text in enumerate(texts):
            for bucket, count in self.grams(text, normal).items():
                self.postings[bucket].append((position, count))
        self.count = len(texts)

    def dropped(self, token):
        return token in DRQA_STOP_WORDS or self.MARKS.fullmatch(unicodedata.normalize("NFD", token)) is not None

    def grams(self, text, normal=True):
        """Questions are always in NFD, passages as the settings say."""
        text = unicodedata.normalize("NFD", text) if normal else text
        tokens = [token.lower() for token in self.TOKEN.findall(text)]
        counts = collections.Counter()
        for length in range(1, self.longest + 1):
            for start in range(len(tokens) - length + 1):
                gram = tokens[start : start + length]
                if not any(self.dropped(token) for token in gram):
                    gram = " ".join(gram)
                    if gram not in self.hashes:
                        self.hashes[gram] = murmur3(gram.encode()) % self.buckets
                    counts[self.hashes[gram]] += 1
        return counts

    def search(self, query, k):
        scores = collections.defaultdict(float)
        for bucket, asked in sorted(self.grams(query).items()):
            postings = self.postings.get(bucket, [])
            idf = max(0.0, math.log((self.count - len(postings) + 0.5) / (len(postings) + 0.5)))
            for position, tf in postings:
                if idf > 0.0:
                    scores[position] += math.log1p(asked) * idf * (math.log1p(tf) * idf)
        return best(scores, k)


class LinkTfidf:
    """scikit-learn's `TfidfVectorizer(strip_accents="unicode", stop_words="english")` and the cosine to the query. All texts
    are ranked, also those of cosine 0; none where no text has a word that counts, unless there is just one."""

    def __init__(self, texts, _=None):
        from sklearn.feature_extraction.text import TfidfVectorizer

        self.count = len(texts)
        self.vectorizer = TfidfVectorizer(strip_accents="unicode", stop_words="english")
        try:
            self.matrix = self.vectorizer.fit_transform(texts)
        except ValueError:
            self.matrix = None

    def search(self, query, k):
        if self.matrix is None:
            return [(0, 0.0)] if self.count == 1 else []
        cosines = (self.matrix @ self.vectorizer.transform([query]).T).toarray().ravel()
        return best(dict(enumerate(cosines.tolist())), k)


def field(titles, texts, settings):
    """What of the passages is searched, one text each."""
    fields = settings.get("fields", "title+text")
    if fields == "title+text":
        return [f"{title} {text}" for title, text in zip(titles, texts)]
    if fields == "text":
        return texts
    raise SystemExit(f"the reference does not search the fields {fields!r}")


def retriever(settings, titles, texts):
    """The retriever of a job's service over passages."""
    kind = settings["kind"]
    if kind == "bm25":
        return Bm25(field(titles, texts, settings), settings)
    if kind == "tfidf":
        return DrqaTfidf(field(titles, texts, settings), settings)
    if kind == "link_tfidf":
        return LinkTfidf(texts)
    raise SystemExit(f"the reference has no retriever of kind {kind!r}; it has bm25, tfidf and link_tfidf")
