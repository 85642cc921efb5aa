#!/usr/bin/env python3
"""Words by spaCy beside hopeval's words by the rules that spaCy wrote (`word_rules` of the kind `lm`).

Why: EfficientRAG's labeler and filter read words of spaCy. hopeval has the algorithm of spaCy's tokenizer and none of
its data; both must cut real texts alike.

What: for each language, spaCy writes the rules of its tokenizer into a file. spaCy and hopeval cut the same texts: the
passages and questions of HotpotQA, MuSiQue and 2WikiMultihopQA, hard cases, and texts that are put together at random
from special cases, affixes, whitespace, signs and pieces of real words. Rules of no language try what Python's patterns
allow. A word is equal if spaCy has a word at the same place, from its first character to its last. The rows that
EfficientRAG's authors released have their own spaCy's words; those are compared with hopeval's, too, without commas,
row by row. Standard output gets Markdown tables.

    cargo build --release -p hopeval-wordrules --example cut
    words.py --cut target/release/examples/cut --data DIR --work DIR [--languages en,..] [--model NAME] [--invented N]

DIR of `--data` has `NAME/corpus.jsonl.gz` with `title` and `text` a line, and questions. A `--model` is what
`spacy.load` takes (`en_core_web_sm`); without one the rules are those of `spacy.blank(LANGUAGE)`.
Exits with 1 if fewer than 99.99 % of the words of real texts are equal in a language, or an invented or hard text
differs at all. Needed: spacy.
"""

import argparse
import collections
import gzip
import json
import pathlib
import random
import re
import subprocess
import sys
import time
import warnings

import spacy
from spacy.attrs import ORTH
from spacy.tokenizer import Tokenizer

WANTED = 0.9999
CORPORA = ["hotpotqa", "musique", "2wikimultihopqa"]
LABELS = "efficientrag_labels/labeler_musique.jsonl.gz"

HARD = [
    "", " ", "   ", "\n", "\t\t", " a", "a ", "a  ", "  a  b  ", "a\n\nb", "a \n b", "a\u00a0b", "a\u2003 b", "\r\n",
    "a\u200bb", "a\x1cb", "http://example.com", "https://www.example.co.uk/a/b?c=d&e=f#g,", "(www.example.com)",
    "example.com.", "see http://x.y/(z).", "ftp://user:pw@host.org:21/path", "192.168.0.1", "http://10.0.0.1/a",
    "http://8.8.8.8:80/a", "a.b@c.de", "<a.b+c@d-e.org>,", "mailto:x@y.zz", "don't", "Don't!", "(can't)", "I'd've",
    "they'll've", "y'all", "o'clock", "'tis", "rock 'n' roll", "ma'am", "cannot", "gonna", "He's", "dogs'", "James's",
    "I’m", "we’ve", "‘twas", "“Hello,” she said.", "\"'a'\"", "''x''", "``x``", "„x“", "«x»", "(a)[b]{c}<d>", "((a))",
    "a)b", "a(b", "U.S.", "U.S.A.", "St. Louis", "Dr. J. R. R. Tolkien", "J.R.R. Tolkien", "Inc.", "Co., Ltd.", "a.m.",
    "5p.m.", "10a.m", "e.g.", "i.e.,", "vs.", "No. 5", "Jr.,", "Ph.D.", "40,000", "$40,000.50", "US$5", "£5m", "5€",
    "5%", "-5", "+5", "1+1", "3-4", "3–4", "1990s", "'90s", "20km/h", "5kg", "10 °C.", "10°C.", "1/2", "#1", "a=b",
    "x^2", "2*3", "A4", "4x4", "1.2.3", "well-known", "mother-in-law", "--", "a--b", "a -- b", "a—b", "a – b", "...",
    "a...", "...a", "a....b", "a…b", "!?", "?!?", "wow!!!", "a,b", "a, b", "a ,b", ",,", "a;b:c", "a/b", "and/or",
    "a.B", "end.Next", "one.two", ":)", ":-)", "x:)", ":)x", ":-(.", "<3", "(:", ":o)", "¯\\_(ツ)_/¯", "(ಠ_ಠ)", "=D",
    "xD", "8)", "\\o/", "😀", "a😀b", "👩‍👩‍👧‍👦", "🇫🇷🇩🇪", "☺️.", "❤️", "1️⃣", "Beyoncé", "Beyonce\u0301", "naïve,",
    "Ελληνικά.", "Россия (СССР)", "日本語。", "中文,字", "हिन्दी।", "العربية،", "עברית", "ไทย", "한국어", "ŁódźKraków", "straße",
    "İstanbul", "ǅ", "ﬁn", "@user", "#tag", "AT&T", "R&B", "C++", "C#", ".NET", "a_b", "__init__", "*a*", "~a~", "a|b",
    "\\n", "`a`", "a'b'c", "O'Neill", "d'Arc", "l'homme", "F.C.", "A.C.", "b.c.", "C.", "(C.", "x.y.z.", "\ufeffa",
    "a\u00adb", "\u202aa\u202c", "a\u2028b", "²", "x²", "½", "№5", "§5", "©2020", "™", "a•b", "• a", "→", "a→b",
    "\U00010348", "\ufffd",
]
# Rules of no language, for what Python's patterns and spaCy's habits allow: matches that are empty or elsewhere, flags,
# references, `$` before a line break, special cases with spaces, among words, and over each other.
ODD = [
    {
        "prefix_search": r"[(\[]",
        "suffix_search": r"[)\]]|\d",
        "infix_finditer": r"x*",
        "token_match": r"\d+$",
        "url_match": None,
        "rules": [["a", "b"]],
    },
    {
        "prefix_search": r"^(['\"]).*?\1",
        "suffix_search": r"\b[a-z]\Z",
        "infix_finditer": r"(?=[A-Z])|\B-\B|-",
        "token_match": None,
        "url_match": r"\w+@",
        "rules": [],
    },
    {
        "prefix_search": r"(?i)^[A-C]|^\W",
        "suffix_search": r"(?x) [^\s\w] $ # a sign\n | s$",
        "infix_finditer": r"(?<![a-z])[^\W\d_](?!\w)|(?P<q>[.,])(?P=q)+",
        "token_match": r"(?s).\.",
        "url_match": None,
        "rules": [["(a", ")"], ["a b"], ["b  c"]],
    },
    {
        "prefix_search": r"^\s|^[-&~\]\[^]",
        "suffix_search": r"\s$|[\u0300-\u036f\U0001F600-\U0001F64F]+$",
        "infix_finditer": r"[&&--]|[]~[]|\n",
        "token_match": None,
        "url_match": r"[^\S]",
        "rules": [[" "], ["\n"], ["."], ["..", "."], [".", "."], ["a."], ["-", "a"]],
        "faster_heuristics": False,
    },
    {
        "prefix_search": r"^.{2,}?(?=z)|^(?:a|ab)(?:c|bcd)??(?#any)",
        "suffix_search": r"(?:(?<=a)|(?<=\d\d))[b-d]{,2}$",
        "infix_finditer": r"(?i:KM|é)(?-i:s)?|{}|a{1",
        "token_match": r"(?m)^\w$",
        "url_match": r".+\d$",
        "rules": [["$"], ["k", "m"], ["don", "'t"]],
    },
    {
        "prefix_search": None,
        "suffix_search": r"(\w)(?:\1)$|$",
        "infix_finditer": r"(a)?(?(1)b|c)|\x2d|\101|\0",
        "token_match": None,
        "url_match": None,
        "rules": [["bb"], ["cc", "c"]],
    },
]
PIECES = list("abzAZ059äßЖ日ก. ,;:!?()[]{}<>'\"-–—_/\\@#$%&*+=~^`|…“”‘’„«»°²€£\t\n\u00a0é\u0301😀") + [
    "  ", "...", "--", "n't", "'s", "'S", "'ll", "’s", "http://", "www.", ".com", "a.b", "@", "Co.", "km", "$", "US$",
    "U.S.", "can", "not", "10", "3.5", "1,000", ":-)", ":)", "o'clock",
]


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def real_texts(data):
    """Texts by source: titles with texts of passages, questions."""
    passages = {name: read(data / name / "corpus.jsonl.gz") for name in CORPORA}
    texts = {name: [f"{row['title']}: {row['text']}" for row in rows] for name, rows in passages.items()}
    with gzip.open(data / "hotpotqa/dev_1267.json.gz") as file:
        questions = [row["question"] for row in json.load(file)]
    with gzip.open(data / "2wikimultihopqa/train_500.json.gz") as file:
        questions += [row["question"] for row in json.load(file)]
    texts["questions"] = questions + [row["question"] for row in read(data / "musique/train_299.jsonl.gz")]
    return texts


def invented_texts(nlp, texts, number):
    """Texts put together from what rules are made for, the same in every run."""
    draw = random.Random(20)
    special = sorted(nlp.tokenizer.rules)
    words = sorted({word for text in texts["questions"] for word in text.split()})
    texts = []
    for _ in range(number):
        kinds = draw.choices([special, words, PIECES, ["", " "]], weights=[3, 2, 5, 2], k=draw.randint(1, 12))
        texts.append("".join(draw.choice(kind) for kind in kinds))
    return texts


def odd_tokenizers():
    """Tokenizers with the rules of `ODD`."""
    # Python warns of patterns that may mean something else one day.
    warnings.simplefilter("ignore", FutureWarning)
    for number, odd in enumerate(ODD, 1):
        method = {"infix_finditer": "finditer", "token_match": "match", "url_match": "match"}
        patterns = {
            key: odd[key] and getattr(re.compile(odd[key]), method.get(key, "search"))
            for key in ["prefix_search", "suffix_search", "infix_finditer", "token_match", "url_match"]
        }
        rules = {"".join(words): [{ORTH: word} for word in words] for words in odd["rules"]}
        nlp = spacy.blank("xx")
        few = odd.get("faster_heuristics", True)
        nlp.tokenizer = Tokenizer(nlp.vocab, rules=rules, faster_heuristics=few, **patterns)
        yield f"odd-{number}", nlp


def odd_texts(number):
    """Short texts of the characters that odd rules are about, the same in every run."""
    draw = random.Random(21)
    letters = list("aabbccxzsAZK09..,,--()[]'\"&~$@é  \n\t{}1") + ["km", "KM", "😀", "\u0301", "don't", "\u0000", "..."]
    return ["".join(draw.choices(letters, k=draw.randint(1, 12))) for _ in range(number)]


def cut(program, rules, texts):
    """hopeval's words of each text, and what it says of its time."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([program, rules], input=lines.encode(), capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{program} {rules} ended with {done.returncode}\n{done.stderr.decode()}")
    words = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    return words, json.loads(done.stderr.decode().splitlines()[-1])


def places(text, words):
    """Where the words stand, from the first character to behind the last."""
    found, at = [], 0
    for word in words:
        at = text.index(word, at)
        found.append((at, at + len(word)))
        at += len(word)
    return found


class Counts:
    """Texts and words of one source."""

    def __init__(self):
        self.texts = self.words = self.equal = self.other_texts = 0
        self.seconds = self.cut_seconds = 0.0
        self.differences = []

    def add(self, text, wanted, found):
        self.texts += 1
        self.words += len(wanted)
        if wanted == found:
            self.equal += len(wanted)
            return
        self.other_texts += 1
        here = set(places(text, wanted)) & set(places(text, found))
        self.equal += len(here)
        if len(self.differences) < 10:
            self.differences.append((text, wanted, found))


def compare(program, rules, nlp, texts):
    counts = Counts()
    begun = time.perf_counter()
    wanted = [[token.text for token in nlp.tokenizer(text)] for text in texts]
    counts.seconds = time.perf_counter() - begun
    found, figures = cut(program, rules, texts)
    counts.cut_seconds = figures["cut_s"]
    for text, of_spacy, ours in zip(texts, wanted, found, strict=True):
        counts.add(text, of_spacy, ours)
    return counts, figures


def released_rows(program, rules, data):
    """Of the released rows: how many have hopeval's words, and the first others."""
    rows = read(data / LABELS)
    found, _ = cut(program, rules, [row["chunk"] for row in rows])
    found = [[word for word in words if word != ","] for words in found]
    pairs = [(row["chunk"], row["chunk_tokens"], words) for row, words in zip(rows, found, strict=True)]
    other = [pair for pair in pairs if pair[1] != pair[2]]
    words = sum(len(row["chunk_tokens"]) for row in rows)
    differing = sum(len(set(places(text, a)) - set(places(text, b))) for text, a, b in other)
    return len(rows), len(other), words, differing, other


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cut", required=True, help="the example `cut` of hopeval-wordrules")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--languages", default="en")
    parser.add_argument("--model", help="a model of spaCy, whose rules are compared as well")
    parser.add_argument("--invented", type=int, default=50_000, help="invented texts of each language")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    texts, bad, shown = real_texts(arguments.data), 0, []
    print(f"spaCy {spacy.__version__}\n")
    print("| rules | texts of | texts | that differ | words | equal | share | spaCy, words a second | hopeval | opened, ms |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    names = [*arguments.languages.split(","), *filter(None, [arguments.model])]
    for name in names:
        try:
            nlp = spacy.load(name) if name == arguments.model else spacy.blank(name)
        except ImportError:
            nlp = None
        # Some languages need other packages, and have another tokenizer.
        if nlp is None or not isinstance(nlp.tokenizer, Tokenizer):
            print(f"| {name} | no rules | | | | | | | | |")
            continue
        rules = arguments.work / f"tokenizer-{name}"
        nlp.tokenizer.to_disk(rules, exclude=["vocab"])
        real = Counts()
        sources = {**texts, "hard cases": HARD, "invented": invented_texts(nlp, texts, arguments.invented)}
        for source, of_source in sources.items():
            counts, figures = compare(arguments.cut, rules, nlp, of_source)
            print(
                f"| {name} | {source} | {counts.texts} | {counts.other_texts} | {counts.words} | {counts.equal} "
                f"| {counts.equal / max(counts.words, 1):.6f} | {counts.words / counts.seconds:.0f} "
                f"| {counts.words / counts.cut_seconds:.0f} | {1000 * figures['open_s']:.0f} |",
                flush=True,
            )
            shown += [(name, source, *difference) for difference in counts.differences]
            if source in texts:
                real.words, real.equal = real.words + counts.words, real.equal + counts.equal
            else:
                bad += counts.other_texts
        share = real.equal / real.words
        print(f"| {name} | real texts together | | | {real.words} | {real.equal} | {share:.6f} | | | |")
        bad += real.equal < WANTED * real.words
    for name, nlp in odd_tokenizers():
        rules = arguments.work / f"tokenizer-{name}"
        nlp.tokenizer.to_disk(rules, exclude=["vocab"])
        counts, _ = compare(arguments.cut, rules, nlp, odd_texts(arguments.invented))
        print(f"| {name} | invented | {counts.texts} | {counts.other_texts} | {counts.words} | {counts.equal} | | | | |")
        shown += [(name, "invented", *difference) for difference in counts.differences]
        bad += counts.other_texts
    first = arguments.work / f"tokenizer-{names[-1] if arguments.model else names[0]}"
    rows, other, words, differing, differences = released_rows(arguments.cut, first, arguments.data)
    print(f"\nReleased rows: {rows}, {other} have other words; of {words} words {differing} are cut otherwise.")
    shown += [("released", LABELS, *difference) for difference in differences[:10]]
    for name, source, text, wanted, found in shown:
        only = collections.Counter(wanted) - collections.Counter(found)
        ours = collections.Counter(found) - collections.Counter(wanted)
        print(f"\n{name}, {source}: {text[:200]!r}")
        print(f"  spaCy alone: {list(only)[:12]}\n  hopeval alone: {list(ours)[:12]}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
