"""Texts and tokenizers of the fixtures: sentences from a small grammar, and vocabularies counted on them.

The tokenizers are put together from counts here instead of trained by the library, whose training visits hash maps in an
order of its own: the same script gives the same bytes.
"""

import collections
import itertools
import json
import random

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

PLACES = "Arlen Brovik Casteria Dunmore Elvane Farrowby Grisholm Hallstadt Istria Jornvale".split()
PEOPLE = "Ada Bruno Clara Dmitri Elena Fritz Greta Hugo Inès José".split()
THINGS = "bridge cathedral novel river symphony painting school harbour castle film".split()
VERBS = "built wrote founded painted crossed visited restored sold described designed".split()


def sentences(count=400):
    """Generated sentences with names, numbers, commas, accents and quotation marks."""
    rng = random.Random(5)
    out = []
    for _ in range(count):
        who, other = rng.sample(PEOPLE, 2)
        where, near = rng.sample(PLACES, 2)
        what, verb, year = rng.choice(THINGS), rng.choice(VERBS), rng.randint(1801, 1999)
        out.append(
            rng.choice(
                [
                    f"{who} {verb} the {what} of {where} in {year}.",
                    f"The {what} of {where}, {verb} by {who}, is near {near}.",
                    f"Who {verb} the {what} that {other} visited in {year}?",
                    f'"{where}" is a {what} by {who} and {other} ({year}).',
                    f"In {year}, {other}'s {what} was moved from {where} to {near}.",
                ]
            )
        )
    return out


PROMPTS = [
    ("Document: The bridge of Arlen, built by Ada, is near Istria. Review previous documents and ask some question. "
     "Question:", " Who built the bridge that José visited in 1875?"),
    ("Document: Clara wrote the novel of Dunmore in 1912. Question:", " Where is it?"),
    ("Naïve café: ½ €5 日本", " - yes"),
]

SINGLE = [
    "Greta restored the castle of Hallstadt in 1931.",
    "a",
    "  Two  spaces,\ttabs and a new\nline; Inès's “quotes” — naïve 日本 ½ €5.",
]

PAIRS = [
    ("Who designed the harbour?", "The harbour of Grisholm, designed by Fritz, is near Jornvale."),
    ("In which year was the film sold?", "In 1954, Hugo's film was moved from Casteria to Elvane. Bruno sold it."),
]


def texts(spec):
    """The texts that a fixture is asked about: `(text, text_pair or None)`."""
    pairs = [] if spec.kind != "encoder" or spec.heads == ("embed",) else PAIRS
    singles = [] if "span" in spec.heads else [(text, None) for text in SINGLE]
    return singles + pairs


def words():
    return collections.Counter(word for line in sentences() for word in line.split(" "))


def byte_level(size, specials):
    """Byte-level BPE by the textbook: the most frequent pair is merged, the least pair in order on a tie."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False)
    counts = collections.Counter(
        piece for line in sentences() for piece, _ in split.pre_tokenize_str(line)
    )
    spelled = {word: list(word) for word in sorted(counts)}
    merges = []
    for _ in range(size - len(alphabet) - len(specials)):
        pairs = collections.Counter()
        for word, parts in spelled.items():
            for pair in itertools.pairwise(parts):
                pairs[pair] += counts[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word, parts in spelled.items():
            spelled[word] = merge(parts, best)
    vocabulary = specials + alphabet + ["".join(pair) for pair in merges]
    tokenizer = tokenizers.Tokenizer(models.BPE({piece: i for i, piece in enumerate(vocabulary)}, merges))
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer


def merge(parts, pair):
    out, i = [], 0
    while i < len(parts):
        if tuple(parts[i : i + 2]) == pair:
            out.append(parts[i] + parts[i + 1])
            i += 2
        else:
            out.append(parts[i])
            i += 1
    return out


def substrings(counted, size):
    """All characters, then the substrings that save most: `(piece, count)`."""
    counts, characters = collections.Counter(), collections.Counter()
    for word, n in counted.items():
        for first, last in itertools.combinations(range(len(word) + 1), 2):
            (characters if last - first == 1 else counts)[word[first:last]] += n
    ranked = sorted(counts, key=lambda piece: (-counts[piece] * (len(piece) - 1), piece))
    pieces = sorted(characters) + ranked
    return [(piece, characters[piece] or counts[piece]) for piece in pieces[:size]]


def unigram(size, specials, unknown):
    """SentencePiece's unigram model as `tokenizers` holds it; scores are logarithms of the pieces' frequencies."""
    import math

    counted = collections.Counter()
    for word, n in words().items():
        counted["▁" + word] += n
    pieces = substrings(counted, size - len(specials))
    total = sum(n for _, n in pieces)
    vocabulary = [(special, 0.0) for special in specials]
    vocabulary += [(piece, round(math.log(n / total), 6)) for piece, n in pieces]
    tokenizer = tokenizers.Tokenizer(models.Unigram(vocabulary, specials.index(unknown), False))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return tokenizer


def word_piece(size, specials):
    """BERT's tokenizer, in lower case and without accents."""
    normalizer = normalizers.BertNormalizer(lowercase=True)
    split = pre_tokenizers.BertPreTokenizer()
    counted = collections.Counter(
        piece for line in sentences() for piece, _ in split.pre_tokenize_str(normalizer.normalize_str(line))
    )
    begins, goes_on = collections.Counter(), collections.Counter()
    for word, n in counted.items():
        begins[word[0]] += n
        for letter in word[1:]:
            goes_on["##" + letter] += n
    letters = sorted(begins) + sorted(goes_on)
    whole = sorted((w for w in counted if len(w) > 1), key=lambda w: (-counted[w], w))
    vocabulary = (specials + letters + whole)[:size]
    tokenizer = tokenizers.Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, split
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def framed(tokenizer, first, last):
    """`[CLS] text [SEP]`, `[CLS] text [SEP] pair [SEP]` with types 0 and 1."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (first, last)],
    )
    return tokenizer


BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
BERT_ROLES = {
    "pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]",
}  # fmt: skip


def gpt2(size):
    specials = ["<|endoftext|>"]
    roles = {"bos_token": specials[0], "eos_token": specials[0], "unk_token": specials[0]}
    return byte_level(size, specials), specials, "GPT2Tokenizer", roles


def roberta(size):
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = byte_level(size, specials)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), True, False)
    roles = {
        "bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "pad_token": "<pad>",
        "unk_token": "<unk>", "mask_token": "<mask>",
    }  # fmt: skip
    return tokenizer, specials, "RobertaTokenizer", roles


def t5(size):
    specials = ["<pad>", "</s>", "<unk>"]
    tokenizer = unigram(size, specials, "<unk>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    roles = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return tokenizer, specials, "T5Tokenizer", roles


def deberta(size):
    specials = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    return framed(unigram(size, specials, "[UNK]"), "[CLS]", "[SEP]"), specials, "DebertaV2Tokenizer", BERT_ROLES


def bert(size):
    return framed(word_piece(size, BERT), "[CLS]", "[SEP]"), BERT, "BertTokenizer", BERT_ROLES


def write(kind, size, folder):
    """Writes tokenizer.json and tokenizer_config.json; gives the tokenizer."""
    tokenizer, specials, family, roles = {
        "gpt2": gpt2, "roberta": roberta, "t5": t5, "deberta": deberta, "bert": bert,
    }[kind](size)  # fmt: skip
    tokenizer.add_special_tokens([tokenizers.AddedToken(token, special=True, normalized=False) for token in specials])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": family, "model_max_length": 128, "clean_up_tokenization_spaces": False} | roles
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return tokenizer
