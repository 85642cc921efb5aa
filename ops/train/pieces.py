"""Makes the writer's tokenizer: cased words and short pieces of names, with spaces by rule and lines kept.

    pieces.py --world DIR [--world DIR ...] --prompts DIR --texts FILE --out DIR --course chains|modules [--course ...]

A writer's texts are read by people and by programs, so they keep capitals, lines, quotes and brackets, which the
tokenizer of the other small models drops. A word is one run of letters and digits with the hyphens, commas, points and
apostrophes inside it; every other sign is a piece of its own, and so is a line's end. Which signs stand without a space
before or behind them is a rule of the decoder; straight quotes are told apart as opening and closing ones. A world's
texts come back letter by letter.

What begins a part of a prompt is a piece, at the begin of a line: a course's prompts have marks of their own.

Ordinary words have pieces of their own, in lower case, and with a capital where a sentence or a name begins with them:
the worlds' words, those that the training tells of (`relations.toml`), and the most frequent ones of real texts, since
a writer is to quote what its training never said.
Names are spelled in pieces of at most three letters, as in `tokenizer.py`. `layout.json` says where each kind stands;
words that a prompt or the training itself writes (`given`) are apart from others, which `renaming.py` may exchange.

Writes tokenizer.json, tokenizer_config.json and layout.json.
"""

import argparse
import gzip
import json
import re
import tomllib
from collections import Counter
from pathlib import Path

from tokenizer import DIGITS, LETTERS, spelling
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from worlds import World

SPECIALS = ["[PAD]", "</s>", "[UNK]"] + [f"<extra_id_{n}>" for n in range(8)]
WORD = r"\w+(?:[-'’.,]\w+)*"
PUNCTUATION = list(".,?!:;'()[]{}-–—&/%$#@*+=_<>|~^`\\") + ["“", "”", "\n"]
# What begins a part of a course's prompts, with what it begins: 0 a passage, 1 the question, 2 what was said so far.
MARKS = {
    "chains": {"Wikipedia Title:": 0, "Q:": 1, "\nA:": 2},
    "modules": {
        "Title:": 0,
        "(Title:": 0,
        **dict.fromkeys(("Question:", "Original Question:", "Complex question:"), 1),
        **dict.fromkeys(("Information:", "Known Information:", "Missing Information:"), 2),
        **dict.fromkeys(("Historical Questions:", "Sub-question:", "Answer:"), 2),
    },
}
BETWEEN = "\n\n"  # passages
INSIDE = ["##" + sign for sign in "-'’.,_"]
# What the training itself writes, besides the prompts.
WRITTEN = "Q A Wikipedia Title So the answer is unknown Yes No yes no Write next step Answer in a few words".split()


def count(worlds):
    """Words in lower case, and words that begin with a capital, by how often they occur."""
    lower, capital = Counter(), Counter()
    for world in worlds:
        texts = (
            [p.text for p in world.passages] + [p.title for p in world.passages] + [q["text"] for q in world.questions]
        )
        for text in texts:
            for word in re.findall(r"[A-Za-z]+", text):
                if word.islower():
                    lower[word] += 1
                elif word.istitle():
                    capital[word] += 1
    return lower, capital


def frequent(file, most):
    """The most frequent words of the field `text` of JSON Lines, in lower case, and those that have a capital often."""
    lower, capital = Counter(), Counter()
    with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else open(file, encoding="utf-8") as lines:
        for line in lines:
            for word in re.findall(r"[A-Za-z]{2,}", json.loads(line)["text"]):
                if word.islower():
                    lower[word] += 1
                elif word.istitle():
                    capital[word] += 1
    words = {w for w, _ in lower.most_common(most)}
    often = [w for w, _ in capital.most_common(most) if w.lower() in words]
    return words, set(often[: most // 4])


def told():
    """The words of the relations that the training invents: in lower case, and with a capital."""
    found = tomllib.loads((Path(__file__).parent / "relations.toml").read_text())
    texts = re.findall(r"'([^']*)'|\"([^\"]*)\"", str([*found.values()]))
    words = {w for pair in texts for text in pair for w in re.findall(r"[A-Za-z]{2,}", re.sub(r"\{.\}", "", text))}
    return {w for w in words if w.islower()}, {w for w in words if w.istitle()}


def layout(worlds, prompts, real, marks, least=5, pairs=300, triples=380):
    """The vocabulary, and the bounds of its regions. `real` are words of real texts, and such with a capital."""
    lower, capital = count(worlds)
    given = {w for text in prompts for w in re.findall(r"[A-Za-z]+", text) if len(w) > 1} | set(WRITTEN)
    given = {w for w in given if w.islower() or w.istitle()}
    invented, begun = told()
    ordinary = {w for w, n in lower.items() if n >= least and len(w) > 1} | real[0] | invented
    known = ordinary | {w for w in given if w.islower()}
    often = {w for w, n in capital.items() if n >= least and w.lower() in known} | real[1] | begun
    names = [w.lower() for w in capital if w.lower() not in known]
    spelled = [p for p in spelling(names, sorted(known), pairs, triples) if len(p.removeprefix("##")) > 1]
    regions = {
        "specials": SPECIALS,
        "marks": [*marks, BETWEEN],
        "punctuation": PUNCTUATION + INSIDE,
        "numbers": [m + d for m in ("", "##") for d in DIGITS]
        + [m + a + b for m in ("", "##") for a in DIGITS for b in DIGITS],
        "letters": list(LETTERS) + ["##" + c for c in LETTERS.upper()],
        "given": sorted(given),
        "words": sorted(ordinary - given),
        "capitals": sorted(often - given),
        "first_pieces": list(LETTERS.upper()) + sorted({p.capitalize() for p in spelled if not p.startswith("##")}),
        "later_pieces": ["##" + c for c in LETTERS] + sorted({p for p in spelled if p.startswith("##")}),
    }
    vocabulary, bounds = {}, {}
    for name, tokens in regions.items():
        start = len(vocabulary)
        for token in tokens:
            vocabulary.setdefault(token, len(vocabulary))
        bounds[name] = [start, len(vocabulary)]
    return vocabulary, bounds


def tokenizer(vocabulary, marks):
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=64))
    opening = normalizers.Replace(Regex(r'(?<![^\s{\[(])"'), "“")
    made.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), opening, normalizers.Replace('"', "”")]
    )
    # A title may end with a mark's word, and a colon follow it.
    marked = [(r"(?<![^\n])" if mark[0].isalpha() else "") + mark.replace("(", r"\(") for mark in marks]
    made.pre_tokenizer = pre_tokenizers.Split(
        Regex("|".join([*marked, BETWEEN, WORD, r"[^\w\s]|\n"])), behavior="removed", invert=True
    )
    rules = [decoders.Replace(" " + sign, sign) for sign in ".,?!:;)]}%”"]
    rules += [decoders.Replace(sign + " ", sign) for sign in "([{“#$"]
    rules += [
        decoders.Replace(*pair)
        for pair in ((" \n", "\n"), ("\n ", "\n"), ("“", '"'), ("”", '"'), (" / ", "/"), (" _ ", "_"))
    ]
    made.decoder = decoders.Sequence([decoders.WordPiece(prefix="##", cleanup=False), decoders.Fuse(), *rules])
    made.add_special_tokens(SPECIALS)
    end = [("</s>", vocabulary["</s>"])]
    made.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=end)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", action="append", required=True, type=Path)
    parser.add_argument(
        "--prompts", required=True, type=Path, help="the methods' prompts, whose words are ordinary words"
    )
    parser.add_argument(
        "--texts", required=True, type=Path, help="JSON Lines with a field text: a corpus whose words are common ones"
    )
    parser.add_argument("--words", type=int, default=3000, help="of those texts, the most frequent")
    parser.add_argument("--course", action="append", choices=MARKS, required=True, help="of the writer")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    marks = [mark for course in options.course for mark in MARKS[course]]
    worlds = [World.read(folder) for folder in options.world]
    prompts = [file.read_text(encoding="utf-8") for file in sorted(options.prompts.rglob("*.txt"))]
    vocabulary, bounds = layout(worlds, prompts, frequent(options.texts, options.words), marks)
    made = tokenizer(vocabulary, marks)
    options.out.mkdir(parents=True, exist_ok=True)
    made.save(str(options.out / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "eos_token": "</s>",
    }
    settings["model_input_names"] = ["input_ids", "attention_mask"]
    (options.out / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    (options.out / "layout.json").write_text(json.dumps(bounds, indent=1) + "\n")
    changed = sum(made.decode(made.encode(p.text).ids) != p.text for world in worlds for p in world.passages)
    print(len(vocabulary), "pieces:", {name: end - start for name, (start, end) in bounds.items()})
    print(changed, "of", sum(len(world.passages) for world in worlds), "passages come back otherwise")


if __name__ == "__main__":
    main()
