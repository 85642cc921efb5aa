#!/usr/bin/env python3
"""MIGRES's accuracy restated in Python, under a scripted judge: the expectations of `tests/judging.rs`.

Why: MIGRES counts an answer as right if it matches strictly, or if the judging model says yes, or, for open-domain
questions, if a gold answer is contained in it. A test holds hopeval's judge and measure beside this program, which was
written from what is known of the authors' evaluation and shares no code with them.

What: for each pair of a prediction and gold answers it makes the fields of the judge's prompt as the authors' code
shows them (the normalised prediction, the list of gold answers as Python prints it), lets a scripted judge say yes or
no to them, and applies the rule. The scripted judge adds up the bytes of both fields: remainders of 5 are its replies.

Arguments:
  --pairs FILE   JSON Lines, gzipped: `prediction`, `golds`
  --check FILE   compares the result with this file; exits with 1 if it differs. Without it the result is printed.

The result has the number of pairs, the sum of all bytes of the fields, and one bit a pair, as hexadecimal digits (the
first pair is the highest bit): the judge's words, the accuracy, and the accuracy of open-domain questions.

Only the standard library is used.
"""

import argparse
import gzip
import json
import re
import string
import sys

PUNCTUATION = set(string.punctuation)
# The scripted judge's replies, by the remainder of the sum of bytes. tests/judging.rs has the same.
REPLIES = ["Yes", "No", " yes, it does.", "The two differ: no", "No."]


def normalize(text):
    """SQuAD's normalisation; `true` and `false` are yes and no."""
    text = "".join(letter for letter in text.lower() if letter not in PUNCTUATION)
    text = " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())
    return {"true": "yes", "false": "no"}.get(text, text)


def matches(prediction, gold):
    """MIGRES's strict match of two normalised texts."""
    if prediction == gold or prediction.replace(" ", "") == gold.replace(" ", ""):
        return True
    said, wanted = prediction.split(" ") if prediction else [], gold.split(" ") if gold else []
    return len(said) == len(wanted) and all(word in said for word in wanted)


def says_yes(reply):
    """The word of a reply: its first word, else the only one of the two."""
    words = re.findall(r"\w+", reply.lower())
    if words[0] in ("yes", "no"):
        return words[0] == "yes"
    said = {word for word in words if word in ("yes", "no")}
    assert len(said) == 1, reply
    return said == {"yes"}


def judge(row):
    """The bytes of the fields, the judge's word, and both accuracies of a pair."""
    prediction = normalize(row["prediction"])
    golds = [normalize(gold) for gold in row["golds"]]
    total = sum(prediction.encode()) + sum(repr(row["golds"]).encode())
    word = says_yes(REPLIES[total % len(REPLIES)])
    strict = any(matches(prediction, gold) for gold in golds)
    contained = any(gold in prediction for gold in golds)
    return total, word, word or strict, word or strict or contained


def as_hexadecimal(bits):
    return f"{int(''.join('01'[bit] for bit in bits), 2):0{(len(bits) + 3) // 4}x}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--check")
    arguments = parser.parse_args()
    with gzip.open(arguments.pairs, "rt", encoding="utf-8") as file:
        judged = [judge(json.loads(line)) for line in file]
    totals, words, plain, open_domain = zip(*judged)
    lines = [
        f"pairs {len(judged)}",
        f"bytes {sum(totals)}",
        f"words {as_hexadecimal(words)}",
        f"plain {as_hexadecimal(plain)}",
        f"open {as_hexadecimal(open_domain)}",
    ]
    found = "\n".join(lines) + "\n"
    if not arguments.check:
        sys.stdout.write(found)
        return
    with open(arguments.check, encoding="utf-8") as file:
        sys.exit(0 if file.read() == found else f"{arguments.check} differs")


if __name__ == "__main__":
    main()
