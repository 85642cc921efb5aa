"""Makes the one tokenizer of the small models: whole words for what is said, pieces of at most three letters for names.

    tokenizer.py --world DIR [--world DIR ...] --out DIR

A word that occurs in lower case is ordinary and gets a piece of its own; names, titles and trades are spelled in short
pieces. Names that training never saw are therefore spelled exactly as those that it saw, which is what lets a model that
copies names copy new ones. Texts are lower-cased. The vocabulary is laid out in regions (`layout.json`), because training
exchanges the pieces of names at random (`renaming.py`).

Writes `t5/` (texts end in </s>) and `bert/` ([CLS] text [SEP] text [SEP]) with tokenizer.json and tokenizer_config.json.
"""

import argparse
import json
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from worlds import World, words

SPECIALS = ["[PAD]", "</s>", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"<extra_id_{n}>" for n in range(8)]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
# Words of the methods' own templates, which worlds do not say.
TEMPLATES = """query info document documents passage passages question read write ask answer answers think combine facts
    use form one which belong together needs above task review previous some generate following yes no
    go through consider all state behind look pose whose hold each to word study below at them these about""".split()
PUNCTUATION = list(".,?!:;'\"()[]{}-–—&/%$#@*+=_<>|~^`\\")


def count(worlds):
    """Ordinary words by how often they occur in lower case, and the other words by how many texts have them."""
    lower, other = Counter(), Counter()
    for world in worlds:
        for passage in world.passages:
            for word in words(passage.text):
                if word.isascii() and word.isalpha():
                    (lower if word.islower() else other)[word.lower()] += 1
        for question in world.questions:
            for word in words(question["text"])[1:]:
                if word.isascii() and word.isalpha():
                    (lower if word.islower() else other)[word.lower()] += 1
            # What a question begins with: who, which, are, of.
            lower[words(question["text"])[0].lower()] += 1
    return lower, other


def spelling(names, ordinary, pairs, triples):
    """The pieces that names are spelled with: every pair of letters that is common, and the most useful triples."""
    first, later = Counter(), Counter()
    for word in list(names) + list(ordinary):
        for size in (2, 3):
            first[word[:size]] += 1
            for start in range(1, len(word) - size + 1):
                later[word[start : start + size]] += 1
    chosen = []
    for counts, mark in ((first, ""), (later, "##")):
        for size, most in ((2, pairs), (3, triples)):
            sized = [(-n, piece) for piece, n in counts.items() if len(piece) == size]
            chosen += [mark + piece for _, piece in sorted(sized)[:most]]
    return chosen


def layout(worlds, least=5, pairs=330, triples=420):
    lower, other = count(worlds)
    often = {w for w, n in lower.items() if n >= least and len(w) > 1 and w.isascii() and w.isalpha()}
    ordinary = sorted(often | set(TEMPLATES))
    known = set(ordinary)
    names = [w for w in other if w not in known]
    pieces = [p for p in spelling(names, ordinary, pairs, triples) if p not in known]
    numbers = [mark + a + b for mark in ("", "##") for a in DIGITS for b in DIGITS]
    singles = list(DIGITS) + ["##" + d for d in DIGITS]
    regions = {
        "specials": SPECIALS,
        "punctuation": PUNCTUATION,
        "numbers": singles + numbers,
        "words": ordinary,
        "first_pieces": list(LETTERS) + sorted(p for p in pieces if not p.startswith("##")),
        "later_pieces": ["##" + c for c in LETTERS] + sorted(p for p in pieces if p.startswith("##")),
    }
    vocabulary, bounds = {}, {}
    for name, tokens in regions.items():
        start = len(vocabulary)
        for token in tokens:
            vocabulary.setdefault(token, len(vocabulary))
        bounds[name] = [start, len(vocabulary)]
    return vocabulary, bounds


def tokenizer(vocabulary, family):
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=64))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    made.add_special_tokens(SPECIALS)
    if family == "t5":
        single, pair = "$A </s>", "$A </s> $B </s>"
        special = [("</s>", vocabulary["</s>"])]
    else:
        single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
        special = [(t, vocabulary[t]) for t in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    return made


def settings(family):
    common = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    if family == "t5":
        return common | {"eos_token": "</s>", "model_input_names": ["input_ids", "attention_mask"]}
    return common | {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", action="append", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    vocabulary, bounds = layout([World.read(folder) for folder in options.world])
    for family in ("t5", "bert"):
        folder = options.out / family
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer(vocabulary, family).save(str(folder / "tokenizer.json"), pretty=False)
        (folder / "tokenizer_config.json").write_text(json.dumps(settings(family), indent=1) + "\n")
    (options.out / "layout.json").write_text(json.dumps(bounds, indent=1) + "\n")
    print(len(vocabulary), "pieces:", {name: end - start for name, (start, end) in bounds.items()})


if __name__ == "__main__":
    main()
