#!/usr/bin/env python3
"""Compares imported tokenizers with transformers' and SentencePiece's on real passages, id by id.

Why: a model that reads other ids than it was trained on gives other numbers, and nobody sees it. Vocabularies are trained on
the passages themselves, in the formats that the papers' checkpoints have (SentencePiece models, vocab.json and merges.txt,
vocab.txt), imported by hopeval's crate, and every passage is encoded by all sides.

    cargo build --release -p hopeval-checkpoint --example tokenize
    python3 ops/lm/compare-tokenizers.py --corpus corpus.jsonl.gz --work DIR --binary target/release/examples/tokenize

Sides: `transformers` is the class of the installed transformers, loaded from the same folder; `converter` is its
convert_slow_tokenizer.py, by which tokenizer.json files have been made of SentencePiece models since transformers 3;
`sentencepiece` is the library that trained the model, which transformers' slow tokenizers call.
`expect` below says which of them must agree on everything; the exit code is 1 if one does not. `--fixture DIR` also writes tiny
vocabularies with their expected ids, for the crate's tests (WordPiece's trainer gives another vocabulary each time).

Needs: transformers, tokenizers, sentencepiece. Knobs: --passages, --vocabulary, --training, --classes.
"""

import argparse
import gzip
import io
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import sentencepiece
import tokenizers
import transformers
import transformers.convert_slow_tokenizer

# The module, which `transformers` hides behind a function of the same name.
convert_slow_tokenizer = sys.modules["transformers.convert_slow_tokenizer"]

logging.getLogger("transformers").setLevel(logging.ERROR)

# What real passages may lack: spaces of all kinds, compatibility characters, combining marks, emoji, control characters.
HARD = [
    "", " ", "  two  spaces  inside ", "\ttab\tand\nnewline\r\n", "no\u00a0break\u2009thin\u3000ideographic\u200bzero",
    "½ cup… ﬁne ™ ① Ⅳ ²", "e\u0301 decomposed é composed", "İstanbul ŞİŞLİ", "日本語の文章と漢字", "한국어 문장", "नमस्ते दुनिया", "😀👩‍👩‍👧 family",
    "don't won't it's I'm they're we'll I've he'd", "3.14 1,000,000 20th-century (1990–1995)", "a\u0000b\u0007c\ufffd", "ÅÄÖ åäö ß ẞ",
    "...!!??--—–", "Ελληνικά Русский עברית العربية", "▁already▁metaspace ▁", "x" * 150, "snake_case camelCase C++ #hash @at",
]
HARD_WORDS = ["The", "'s", "-", ")", " ", "  ", "\n", "", "…", "film", "½", "U.S.", "San", "Francisco", ",", "日本"]


def passages(paths: list[Path], most: int) -> list[tuple[str, str]]:
    """Titles and texts of corpora in JSON Lines, evenly spread over all of them."""
    rows = []
    for path in paths:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            rows += [(row["title"], row["text"]) for row in map(json.loads, lines)]
    if len(rows) < most:
        print(f"only {len(rows)} passages of {most} wanted")
    count = min(most, len(rows))
    return [rows[n * len(rows) // count] for n in range(count)]


def sentencepiece_model(path: Path, texts: list[str], vocabulary: int, **options) -> None:
    """Trains a SentencePiece model."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=out, vocab_size=vocabulary, minloglevel=2, num_threads=2,
        max_sentence_length=100_000, **options,
    )
    path.write_bytes(out.getvalue())


def folder(work: Path, name: str, model_type: str, config: dict | None = None) -> Path:
    """A model folder without weights."""
    path = work / name
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps({"model_type": model_type}))
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(config))
    return path


def make(work: Path, texts: list[str], vocabulary: int, **normaliser) -> dict[str, Path]:
    """Trains a vocabulary for each class, in the files that its checkpoints have."""
    made = {}
    path = made["t5"] = folder(work, "t5", "t5")
    sentencepiece_model(
        path / "spiece.model", texts, vocabulary, model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **normaliser,
    )
    path = made["deberta-v2"] = folder(work, "deberta-v2", "deberta-v2", {"do_lower_case": False, "vocab_type": "spm"})
    sentencepiece_model(
        path / "spm.model", texts, vocabulary, model_type="unigram", pad_id=0, bos_id=1, eos_id=2, unk_id=3,
        pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]", **normaliser,
    )
    path = made["xlm-roberta"] = folder(work, "xlm-roberta", "xlm-roberta")
    sentencepiece_model(path / "sentencepiece.bpe.model", texts, vocabulary, model_type="unigram", **normaliser)
    path = made["llama"] = folder(work, "llama", "llama", {"add_bos_token": True, "legacy": False})
    sentencepiece_model(
        path / "tokenizer.model", texts, vocabulary, model_type="bpe", byte_fallback=True, split_digits=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.999,
    )
    fairseq = ["<s>", "<pad>", "</s>", "<unk>"]
    opt = {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": True, "add_prefix_space": False}
    opt |= {"bos_token": "</s>", "eos_token": "</s>", "unk_token": "</s>", "pad_token": "<pad>"}
    for name, special, config in [
        ("gpt2", ["<|endoftext|>"], None),
        ("opt", fairseq, opt),
        ("roberta", [*fairseq, "<mask>"], None),
    ]:
        path = made[name] = folder(work, name, name, config)
        trainer = tokenizers.ByteLevelBPETokenizer()
        trainer.train_from_iterator(texts, vocab_size=vocabulary, special_tokens=special, show_progress=False)
        trainer.save_model(str(path))
    path = made["qwen2"] = folder(work, "qwen2", "qwen2")
    words = transformers.Qwen2Tokenizer()._tokenizer
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.normalizer, trained.pre_tokenizer = words.normalizer, words.pre_tokenizer
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    trained.train_from_iterator(texts, trainer)
    trained.model.save(str(path))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    for name, model_type, config, lower in [
        ("bert-uncased", "bert", None, True),
        ("bert-cased", "bert", {"do_lower_case": False}, False),
        ("electra", "electra", {"do_lower_case": True, "strip_accents": False}, True),
    ]:
        path = made[name] = folder(work, name, model_type, config)
        trainer = tokenizers.BertWordPieceTokenizer(lowercase=lower, strip_accents=lower and name != "electra")
        trainer.train_from_iterator(texts, vocab_size=vocabulary, special_tokens=special, show_progress=False)
        trainer.save_model(str(path))
    return made


CLASSES = {
    "t5": transformers.T5Tokenizer, "deberta-v2": transformers.DebertaV2Tokenizer,
    "xlm-roberta": transformers.XLMRobertaTokenizer, "llama": transformers.LlamaTokenizer,
    "gpt2": transformers.GPT2Tokenizer, "opt": transformers.GPT2Tokenizer, "roberta": transformers.RobertaTokenizer,
    "qwen2": transformers.Qwen2Tokenizer,
    "bert-uncased": transformers.BertTokenizer, "bert-cased": transformers.BertTokenizer, "electra": transformers.BertTokenizer,
}
CONVERTERS = {
    "t5": ("spiece.model", convert_slow_tokenizer.T5Converter),
    "deberta-v2": ("spm.model", convert_slow_tokenizer.DebertaV2Converter),
    "xlm-roberta": ("sentencepiece.bpe.model", convert_slow_tokenizer.XLMRobertaConverter),
}
# File, what stands around the library's ids, and the library's ids of what stands there.
SENTENCEPIECE = {
    "t5": ("spiece.model", lambda ids: [*ids, 1], lambda ids: ids[:-1]),
    "deberta-v2": ("spm.model", lambda ids: [1, *ids, 2], lambda ids: ids[1:-1]),
    "xlm-roberta": (
        "sentencepiece.bpe.model",
        lambda ids: [0, *(i + 1 if i else 3 for i in ids), 2],
        lambda ids: [0 if i == 3 else i - 1 for i in ids[1:-1]],
    ),
    "llama": ("tokenizer.model", lambda ids: [1, *ids], lambda ids: ids[1:]),
}
# Which sides must agree with hopeval on every text. The class of transformers 5 gives DeBERTa-v2 a normaliser of its own (NFC; the
# model has nmt_nfkc); the published models were trained by way of the slow tokenizer, which is the library. Llama's class and the
# library differ in leading spaces (`legacy`). Where the library must agree, a tie is no difference: two segmentations of the
# same score, between which it decides in 32 bits and `tokenizers` in 64.
EXPECT = {name: {"transformers"} for name in CLASSES} | {
    "t5": {"transformers", "converter", "sentencepiece"},
    "deberta-v2": {"converter", "sentencepiece"},
    "xlm-roberta": {"transformers", "converter", "sentencepiece"},
}
# The converter leaves spaces that the character map puts at a text's end, and the library does not.
HARD_MAY_DIFFER = {("deberta-v2", "converter")}


def is_tie(pieces: sentencepiece.SentencePieceProcessor, one: list[int], other: list[int]) -> bool:
    """Whether two segmentations of one text have the same score."""
    score = lambda ids: sum(pieces.get_score(i) for i in ids)  # noqa: E731
    return pieces.decode(one) == pieces.decode(other) and abs(score(one) - score(other)) < 1e-3


def converted(name: str, path: Path) -> tokenizers.Tokenizer:
    """The tokenizer that convert_slow_tokenizer.py makes of a SentencePiece model."""
    file, converter = CONVERTERS[name]
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(path / file))
    slow = SimpleNamespace(
        vocab_file=str(path / file), _extra_ids=100, add_prefix_space=True, do_lower_case=False, split_by_punct=False,
        convert_tokens_to_ids=lambda token: {"<s>": 0, "</s>": 2}[token] if name == "xlm-roberta" else pieces.piece_to_id(token),
    )
    return converter(slow).converted()


def sides(name: str, path: Path) -> dict:
    """For each side a function from a text to its ids."""
    reference = CLASSES[name].from_pretrained(path)
    found = {"transformers": lambda text: reference(text)["input_ids"]}
    if name in CONVERTERS:
        made = converted(name, path)
        found["converter"] = lambda text: made.encode(text).ids
    if name in SENTENCEPIECE:
        file, around, _ = SENTENCEPIECE[name]
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(path / file))
        found["sentencepiece"] = lambda text: around(pieces.encode(text))
    return found


def imported(binary: Path, path: Path, out: Path, asked: list[dict], *rules: str) -> list[dict]:
    """hopeval's ids."""
    lines = "".join(json.dumps(line) + "\n" for line in asked)
    done = subprocess.run([binary, path, out, *rules], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(name: str, path: Path, binary: Path, texts: list[tuple[str, str]]) -> bool:
    """Prints how many texts differ from each side; whether all that must agree do."""
    alone = [text for _, text in texts] + HARD
    asked = [{"text": text} for text in alone] + [{"text": title, "text_pair": text} for title, text in texts[:2000]]
    words = [{"words": text.split(" ") + HARD_WORDS} for _, text in texts[:2000]]
    began = time.monotonic()
    ours = imported(binary, path, path / "imported", asked + words)
    good = True
    reference = CLASSES[name].from_pretrained(path)
    for side, encode in sides(name, path).items():
        theirs = [encode(text) for text in alone]
        wrong = [n for n, ids in enumerate(theirs) if ids != ours[n]["ids"]]
        ties = []
        if side == "sentencepiece":
            file, _, inner = SENTENCEPIECE[name]
            pieces = sentencepiece.SentencePieceProcessor(model_file=str(path / file))
            ties = [n for n in wrong if is_tie(pieces, inner(theirs[n]), inner(ours[n]["ids"]))]
            wrong = [n for n in wrong if n not in ties]
        hard = sum(n >= len(texts) for n in wrong)
        must = side in EXPECT[name]
        print(
            f"{name:13} {side:13} {len(texts):6} passages {sum(map(len, theirs)):9} tokens: {len(wrong) - hard:5} differ; "
            f"{len(HARD)} hard texts: {hard:2} differ{f'; ties: {len(ties)}' if ties else ''}{'' if must else '   (may differ)'}"
        )
        if wrong:
            first = next((n for n in wrong if n < len(texts)), wrong[0])
            at = next((i for i, (a, b) in enumerate(zip(theirs[first], ours[first]["ids"])) if a != b), "end")
            print(f"    first: {alone[first][:80]!r} at {at}: {theirs[first]} | {ours[first]['ids']}"[:600])
        may = not must or (hard == len(wrong) and (name, side) in HARD_MAY_DIFFER)
        good &= may or not wrong
    if "transformers" in EXPECT[name]:
        pairs = [reference(title, text) for title, text in texts[:2000]]
        wrong = 0
        for pair, found in zip(pairs, ours[len(alone) :]):
            types = pair.get("token_type_ids", found["type_ids"])
            wrong += pair["input_ids"] != found["ids"] or types != found["type_ids"]
        print(f"{name:13} {'pairs':13} {len(pairs):6} pairs: {wrong:5} differ")
        good &= wrong == 0
    if name == "deberta-v2":
        # The labeler's input: each word on its own, as the slow tokenizer had it.
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(path / "spm.model"))
        theirs = [[i for word in line["words"] for i in pieces.encode(word)] for line in words]
        found = [answer["ids"] for answer in ours[len(asked) :]]
        wrong = sum(one != other and not is_tie(pieces, one, other) for one, other in zip(theirs, found))
        by_class = imported(binary, path, path / "imported-5", asked[: len(alone)], "transformers-5")
        wrong_5 = sum(reference(text)["input_ids"] != found["ids"] for text, found in zip(alone, by_class))
        print(f"{name:13} {'transformers':13} {len(alone):6} texts, imported by the rules of transformers 5: {wrong_5:5} differ")
        good &= wrong_5 == 0
        print(f"{name:13} {'words':13} {len(words):6} texts word by word, against sentencepiece: {wrong:5} differ")
        good &= wrong == 0
    print(f"    {time.monotonic() - began:.0f} s")
    return good


# A character map of a few rules: the whole of nmt_nfkc is a quarter of a megabyte.
RULES = {"…": "...", "½": "1/2", "ﬁ": "fi", "™": "TM", "\u00a0": " ", "\u2009": " ", "\u3000": " ", "\t": " ", "\n": " ", "\r": " ", "\u200b": "", "▁": " "}


def fixture(out: Path, texts: list[tuple[str, str]], classes: list[str]) -> None:
    """Tiny vocabularies and the ids that the sides which must agree give, for the crate's tests. Of some classes only: on the texts
    that the others have."""
    out.mkdir(parents=True, exist_ok=True)
    shown = [text[:200] for _, text in texts[::100][:6]] + HARD
    if set(classes) < set(CLASSES):
        shown = json.loads((out / "texts.json").read_text())
    (out / "texts.json").write_text(json.dumps(shown, ensure_ascii=False, indent=0))
    with tempfile.TemporaryDirectory() as work:
        rules = Path(work) / "rules.tsv"
        codes = [[" ".join(f"{ord(c):X}" for c in text) for text in rule] for rule in RULES.items()]
        rules.write_text("".join(f"{one}\t{other}\n" for one, other in codes))
        made = make(Path(work), [text[:300] for _, text in texts[:300]], 500, normalization_rule_tsv=str(rules))
        for name in classes:
            encode = sides(name, made[name])[min(EXPECT[name])]
            rows = ",\n".join(json.dumps(encode(text), separators=(",", ":")) for text in shown)
            (made[name] / "ids.json").write_text(f"[\n{rows}\n]\n")
            shutil.copytree(made[name], out / name, dirs_exist_ok=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, action="append", required=True, help="JSON Lines of title and text, or .gz; repeatable")
    parser.add_argument("--work", type=Path, required=True, help="where vocabularies go; those of an earlier run are used again")
    parser.add_argument("--binary", type=Path, help="the example `tokenize` of hopeval-checkpoint")
    parser.add_argument("--passages", type=int, default=10_000)
    parser.add_argument("--vocabulary", type=int, default=8_000)
    parser.add_argument("--training", type=int, default=4_000, help="passages that vocabularies are trained on")
    parser.add_argument("--fixture", type=Path, help="write the crate's test vocabularies here and stop")
    parser.add_argument("--classes", type=lambda text: text.split(","), default=list(CLASSES), help="comma-separated; all by default")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.classes if name not in CLASSES]:
        parser.error(f"no class {', '.join(unknown)}; there are {', '.join(CLASSES)}")
    texts = passages(arguments.corpus, arguments.passages)
    if arguments.fixture:
        fixture(arguments.fixture, texts, arguments.classes)
        return 0
    if not arguments.binary:
        parser.error("--binary is needed")
    print(f"transformers {transformers.__version__}, tokenizers {tokenizers.__version__}, sentencepiece {sentencepiece.__version__}")
    if all((arguments.work / name / "config.json").exists() for name in arguments.classes):
        made = {name: arguments.work / name for name in arguments.classes}
    else:
        made = make(arguments.work, [text for _, text in texts[:: max(1, len(texts) // arguments.training)]], arguments.vocabulary)
    results = [compare(name, made[name], arguments.binary, texts) for name in arguments.classes]
    print("all that must agree agree" if all(results) else "SOME DIFFER")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
