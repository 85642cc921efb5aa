"""Trains every model for a few steps from tiny checkpoints of random weights, with the papers' presets, and checks what came out.

    smoke.py [--hopeval PROGRAM]

Checkpoints are as others publish them: weights in f16, in safetensors or in pytorch_model.bin, in a folder or in the hub's cache.
Checked are the steps and rates of the log, what the loss counts, what the folders hold, and what is refused and how. With a
program, `hopeval lm` answers from the folders beside transformers, as in check.py. No network, no data, no GPU: a minute.
"""

import argparse
import contextlib
import io
import json
import math
import os
import random
import re
import runpy
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

import chains
import check
import checkpoints
import encoders
import labeler
import lessons
import meanings
import modules
import numpy
import pieces
import renaming
import reranker
import retelling
import scorer
import tokenizer
import torch
import wiring
import wordnet
import writer
from encoders import averaged
from fitting import determine, rate
from folder import Pieces
from rows import as_published, read, write
from safetensors.torch import load_file
from torch.nn import functional
from transformers import BertConfig, BertModel, DebertaV2Config, DebertaV2Model, ElectraConfig, ElectraModel
from transformers import T5Config, T5ForConditionalGeneration, get_linear_schedule_with_warmup, logging
from worlds import words

HERE = Path(__file__).resolve().parent
PROGRAM = None
TOLERANCE = 1e-4  # as in check.py
NAMES = "ada ben cyd dov eli fay gus hal ivo jan".split()
QUESTIONS = [f"who is the {kin} of {name}" for kin in ("mother", "father", "teacher", "pupil") for name in NAMES]
TEMPLATES = "yes no query info ; : document ? question . ,"
ENTAILMENT = re.compile(r"premise: \(Title: (.*?)\) (.*) hypothesis: (.*)", re.DOTALL)  # of the course of modules
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 512}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
# The parts of deberta-v3: keys that content and positions share, logarithmic buckets, normalised tables of positions.
DISENTANGLED = {
    "type_vocab_size": 0, "relative_attention": True, "max_relative_positions": -1, "position_buckets": 16, "norm_rel_ebd": "layer_norm",
    "position_biased_input": False, "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "pooler_hidden_size": 32,
}  # fmt: skip


def named(text):
    """The capitalised words of a text behind its begin and that of a question in it, and its numbers."""
    return sorted(re.findall(r"(?<! \()(?<!: )\b(?:[A-Z][a-z]+|[0-9]+)", text)[1:])


def sentence(question):
    kin, name = question.split()[3], question.split()[5]
    return f"{name} : the {kin} of {name} is {name[::-1]}"


def vocabulary_of(model_type, folder):
    """Writes the tokenizer of all texts into a new folder; the size of its vocabulary."""
    texts = [*QUESTIONS, *map(sentence, QUESTIONS), *(part for pair in scorer.INSTRUCTIONS for part in pair), TEMPLATES]
    known = sorted({word.lower() for text in texts for word in words(text, drop_commas=False)})
    vocabulary = {token: n for n, token in enumerate([*tokenizer.SPECIALS, *known])}
    family = "t5" if model_type == "t5" else "bert"
    folder.mkdir(parents=True)
    tokenizer.tokenizer(vocabulary, family).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer.settings(family)))
    return len(vocabulary)


def published(model, folder, pickled=False):
    """Writes a model in f16, as safetensors or as pytorch_model.bin."""
    model.half().save_pretrained(folder)
    if pickled:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()


def encoder_of(model_type, folder, pickled=False):
    size = {"vocab_size": vocabulary_of(model_type, folder), **SHAPE, **NO_DROPOUT}
    torch.manual_seed(2)
    model = {
        "deberta-v2": lambda: DebertaV2Model(DebertaV2Config(**size, **DISENTANGLED)),
        "electra": lambda: ElectraModel(ElectraConfig(**size, embedding_size=32)),
        "bert": lambda: BertModel(BertConfig(**size), add_pooling_layer=False),
    }[model_type]()
    published(model, folder, pickled)


def t5(folder, tied):
    """A T5 with one table for pieces and output, as T5 1.0 has, or with two, as T5 1.1."""
    size = {"d_model": 32, "d_kv": 8, "num_heads": 4, "d_ff": 48, "num_layers": 2, "dropout_rate": 0.0, "decoder_start_token_id": 0}
    torch.manual_seed(2)
    model = T5ForConditionalGeneration(T5Config(vocab_size=vocabulary_of("t5", folder), pad_token_id=0, eos_token_id=1, **size))
    if not tied:
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.shared.weight))
    published(model, folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("scale_decoder_outputs")
    # As published: T5 1.0 does not say, and T5 1.1 says no.
    config.pop("tie_word_embeddings") if tied else config.update(tie_word_embeddings=False)
    (folder / "config.json").write_text(json.dumps(config))


def rows_in(folder):
    """The six files of training data."""
    folder.mkdir()
    made = {name: [] for name in ("labeler", "filter", "reader", "encoder", "scorer", "reranker")}
    for n, question in enumerate(QUESTIONS):
        told, other = sentence(question), sentence(QUESTIONS[n - 1])
        name, answer = told.split()[0], told.split()[-1]
        kept = [word in (name, answer) for word in words(told)]
        made["labeler"].append(as_published(question, told, words(told), kept, "FINISH" if n % 2 else "TERMINATE", str(n), told, 0))
        query = ["Query", ":", *words(question), "Info", ":", answer]
        made["filter"].append((query, [word == answer for word in query], str(n), 0))
        made["reader"].append((str(n), question, [told, other], answer if n % 2 else "", n % 2))
        made["encoder"].append((str(n), question, told, [other], 0))
        made["scorer"] += [(str(n), question, [told], 2), (str(n), question, [other], 0)]
        made["reranker"] += [(str(n), question, told, 1), (str(n), question, other, 0)]
    for name, of in made.items():
        write(of, name, folder)


class Smoke(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        cls.made = tempfile.TemporaryDirectory()
        cls.work = Path(cls.made.name)
        rows_in(cls.work / "rows")
        for name in ("deberta-v2", "electra", "bert"):
            encoder_of(name, cls.work / name, pickled=name == "electra")
        for name in ("tied", "untied"):
            t5(cls.work / name, tied=name == "tied")

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def trained(self, script, out, *options):
        """A script's folder and the lines of its log."""
        out = self.work / "out" / out
        # The scorer holds nothing out: a world judges it.
        aside = [] if script == "scorer" else ["--held-out", "0.1"]
        self.run_script(script, "--rows", self.work / "rows", "--out", out, "--log-every", "1", *aside, *options)
        return out, self.log(out)

    def run_script(self, script, *options):
        command = [f"{script}.py", *options]
        with mock.patch.object(sys, "argv", list(map(str, command))), contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(HERE / command[0]), run_name="__main__")

    def log(self, out):
        """The lines of a log whose folder is whole, with weights in f16."""
        self.assertLessEqual({"config.json", "model.safetensors", "tokenizer.json"}, {file.name for file in out.iterdir()})
        self.assertEqual({t.dtype for t in load_file(str(out / "model.safetensors")).values()}, {torch.float16})
        lines = [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
        self.assertTrue(lines[-1]["finished"])
        self.assertEqual(lines[-1]["steps"], lines[0]["settings"]["steps"])
        return lines

    def rates(self, lines):
        return [line["rate"] for line in lines if "rate" in line]

    def beside(self, compare, folder, file):
        """Numbers of `hopeval lm` beside those of transformers."""
        if PROGRAM is None:
            return
        with torch.no_grad():
            rows = read(self.work / "rows" / f"{file}.parquet", *check.MODELS[file][2])[:6]
            theirs, ours = compare(argparse.Namespace(hopeval=PROGRAM), folder, rows)
        self.assertEqual(list(map(len, theirs)), list(map(len, ours)))
        self.assertLessEqual(check.largest_difference(theirs, ours), TOLERANCE)

    def test_a_difference_that_is_no_number_is_not_passed_over(self):
        self.assertEqual(check.largest_difference([[1.0, 2.0], [3.0]], [[1.0, 2.5], [3.25]]), 0.5)
        for place in range(3):
            theirs = [1.0, 2.0, 3.0]
            theirs[place] = math.nan
            self.assertTrue(math.isnan(check.largest_difference([theirs], [[1.5, 2.0, 3.0]])))

    def test_labeler_as_the_paper_has_it(self):
        out, lines = self.trained("labeler", "labeler", "--base", self.work / "deberta-v2")
        rows, settings = lines[0]["rows"], lines[0]["settings"]
        self.assertEqual((settings["epochs"], settings["steps"]), (2, math.ceil(rows / 32) * 2))
        self.assertEqual((settings["pieces"], settings["rows"], settings["weight_decay"]), (384, 32, 0.01))
        for found, step in zip(self.rates(lines), range(settings["steps"]), strict=True):
            self.assertAlmostEqual(found, 5e-6 * step / 200, delta=1e-15)
        self.assertEqual(json.loads((out / "config.json").read_text())["classifier_pooling"], "mean")
        self.assertFalse([name for name in load_file(str(out / "model.safetensors")) if "pooler" in name])
        self.beside(check.labels, out, "labeler")

    def test_labeler_as_the_authors_code_has_it(self):
        options = ["--pooling", "cls", "--keep-weights", "0.51,25.45", "--steps", "3"]
        out, lines = self.trained("labeler", "labeler-cls", "--base", self.work / "deberta-v2", *options)
        self.assertEqual((lines[0]["settings"]["steps"], lines[0]["settings"]["keep_weights"]), (3, [0.51, 25.45]))
        self.assertEqual(json.loads((out / "config.json").read_text())["classifier_pooling"], "cls")
        self.assertIn("pooler.dense.weight", load_file(str(out / "model.safetensors")))
        self.beside(check.labels, out, "labeler")

    def test_the_labelers_loss_counts_every_position(self):
        weights = (0.5, 20.0)
        options = ["--steps", "1", "--held-out", "0.5", "--keep-weights", "0.5,20"]
        _, lines = self.trained("labeler", "labeler-loss", "--base", self.work / "deberta-v2", *options)
        columns = ("question", "chunk_tokens", "labels", "tag", "question_id")
        rows, _ = labeler.parted(read(self.work / "rows/labeler.parquet", *columns), 0.5)
        self.assertEqual(lines[0]["rows"], len(rows))
        # The one batch has all rows; the model is as it starts, heads drawn from the seed.
        model = labeler.Labeler(checkpoints.backbone(self.work / "deberta-v2"), 2, "mean", determine(1, 1))
        examples = [labeler.example(Pieces(self.work / "deberta-v2"), row, 384, labeler.TAGS[2]) for row in rows]
        total = norm = tag_loss = 0.0
        for ids, labels, wanted in examples:
            token, tag = (t.detach() for t in model([ids], 384)[:2])
            self.assertEqual(token.shape, (1, 384, 2))
            tag_loss += float(functional.cross_entropy(tag, torch.tensor([wanted]))) / len(examples)
            if int(tag.argmax()) != 1:
                labels = labels + [0] * (384 - len(labels))
                logs = token[0].log_softmax(-1)[torch.arange(384), labels].tolist()
                total -= sum(weights[label] * log for label, log in zip(labels, logs))
                norm += sum(weights[label] for label in labels)
        self.assertGreater(norm, 0)
        step = next(line for line in lines if "words" in line)
        self.assertAlmostEqual(step["words"], total / norm, places=4)
        self.assertAlmostEqual(step["tags"], tag_loss, places=4)

    def test_a_mean_is_of_the_row_and_not_of_its_padding(self):
        model = labeler.Labeler(checkpoints.backbone(self.work / "deberta-v2"), 2, "mean", determine(1, 1))
        rows = [[3, 20, 21, 4], [3, 22, 23, 24, 25, 4]]
        with torch.no_grad():
            _, together, _ = model(rows, 384)
            for row, found in zip(rows, together):
                states = model.backbone(input_ids=torch.tensor([row])).last_hidden_state
                self.assertTrue(torch.allclose(averaged(states, torch.ones(1, len(row)))[0], states[0].mean(dim=0), atol=1e-6))
                self.assertTrue(torch.allclose(model.sequence(states[0].mean(dim=0)), found, atol=1e-5))

    def test_filter(self):
        out, lines = self.trained("filter", "filter", "--base", self.work / "deberta-v2")
        settings = lines[0]["settings"]
        self.assertEqual((settings["epochs"], settings["steps"], settings["pieces"]), (2, math.ceil(lines[0]["rows"] / 32) * 2, 256))
        self.assertAlmostEqual(self.rates(lines)[-1], 5e-6 * (settings["steps"] - 1) / 200, delta=1e-15)
        self.beside(check.filters, out, "filter")
        _, lines = self.trained("filter", "filter-steps", "--base", out, "--steps", "3", "--learning-rate", "1e-5")
        self.assertAlmostEqual(self.rates(lines)[2], 1e-5 * 2 / 200, delta=1e-15)

    def test_reader(self):
        for name in ("electra", "bert", "deberta-v2"):
            with self.subTest(name):
                epochs, options = (3, ["--epochs", "3"]) if name == "bert" else (7, [])
                out, lines = self.trained("reader", f"reader-{name}", "--base", self.work / name, *options)
                settings = lines[0]["settings"]
                self.assertEqual((settings["epochs"], settings["steps"], settings["clip"]), (epochs, epochs, 2.0))
                self.beside(check.spans, out, "reader")

    def test_reranker(self):
        base = self.work / "deberta-v2"
        out, lines = self.trained("reranker", "reranker", "--base", base, "--held-out-rows", self.work / "rows")
        settings, rows = lines[0]["settings"], 2 * len(QUESTIONS)
        self.assertEqual((lines[0]["rows"], lines[0]["held_out"]), (rows, rows))
        self.assertEqual((settings["epochs"], settings["steps"]), (2, math.ceil(rows / 32) * 2))
        config = json.loads((out / "config.json").read_text())
        self.assertEqual(config["architectures"], ["DebertaV2ForSequenceClassification"])
        self.assertEqual(config["id2label"], {"0": "LABEL_0"})
        self.beside(check.relevances, out, "reranker")

    def test_a_reranker_begins_as_the_labelers_tags(self):
        options = ["--base", self.work / "deberta-v2", "--pooling", "cls", "--steps", "2"]
        folder, _ = self.trained("labeler", "labeler-tags", *options)
        model = reranker.Reranker(checkpoints.backbone(self.work / "deberta-v2"), "f32", determine(1, 1))
        encoders.adopt(model.backbone, folder)
        reranker.adopt_heads(model, folder)
        parts, row = check.Parts(folder), [3, 20, 21, 4, 22, 4]
        with torch.no_grad():
            states = parts.backbone(input_ids=torch.tensor([row])).last_hidden_state
            going, ending = parts.tags(states, torch.ones(1, len(row)))[0].tolist()
            self.assertAlmostEqual(float(model([row])[0]), going - ending, places=4)

    def test_encoder(self):
        out, lines = self.trained("encoder", "encoder", "--base", self.work / "bert", "--batch", "8", "--steps", "3")
        self.assertEqual(lines[0]["settings"]["learning_rate"], 1e-5)
        self.beside(check.vectors, out, "encoder")

    def test_scorer(self):
        for name in ("tied", "untied"):
            with self.subTest(name):
                model = checkpoints.opened(T5ForConditionalGeneration, self.work / name).eval()
                ids, given = torch.tensor([[20, 21, 22, 1]]), torch.tensor([[0, 23, 24]])
                with torch.no_grad():
                    before = model(input_ids=ids, decoder_input_ids=given).logits
                    after = scorer.untied(model)(input_ids=ids, decoder_input_ids=given).logits
                self.assertTrue(torch.allclose(before, after, atol=1e-5))
                self.assertFalse(torch.equal(model.lm_head.weight, model.shared.weight))
                out, lines = self.trained("scorer", f"scorer-{name}", "--base", self.work / name, "--steps", "3")
                self.assertEqual(lines[-1]["steps"], 3)
                self.beside(check.scores, out, "scorer")

    def test_a_writer_copies_what_stands_there(self):
        if PROGRAM is None:
            self.skipTest("a world takes --hopeval")
        world = self.work / "world"
        command = [PROGRAM, "world", "--questions", "60", "--passages", "1000", "--seed", "1", "--split", "train", "--out", world]
        subprocess.run(list(map(str, command)), check=True, capture_output=True)
        reading, rng = chains.Reading(world), random.Random(1)
        self.without_held_out_words(reading)
        texts = ["--world", world, "--prompts", modules.PROMPTS, "--texts", world / "corpus.jsonl"]
        frequent = [f"the{n}" for n in range(meanings.GRAMMAR)]
        listed = frequent + sorted({word for text in reading.sentences for word in re.findall("[a-z]+", " ".join(text))})
        vectors = self.work / "vectors.json"
        vectors.write_text(json.dumps({"words": listed, "vectors": {w: [rng.gauss(0, 1) for _ in range(102)] for w in listed}}))
        for course in (chains, modules):
            out, name = self.work / "out" / course.__name__, course.__name__
            made = self.work / f"pieces-{name}"
            self.run_script("pieces", *texts, "--course", name, "--out", made)
            table, regions = Pieces(made), json.loads((made / "layout.json").read_text())
            if course is chains:
                known = self.wordnet([dict.fromkeys(listed[-2:], 1)], {})
                given = ["--vectors", vectors, "--wordnet", known, "--tokenizer", made]
                self.run_script("meanings", *given)
            states, copied = course.states(reading, 1), 0
            for state in states:
                prompt, target, sources, labels, counts = course.example(reading, table, state, rng, 5, 3, True)
                copied += self.copies(prompt, target, sources)
                self.assertEqual((len(labels), len(counts)), (len(prompt), len(target)))
                self.assertTrue(counts[0] == counts[-1] == chains.DECISION, counts)
                sources = {place for places in sources for place in places}
                if state.task != "entail":  # which flags what is read and not written
                    self.assertLessEqual(set(labels.any(dim=1).nonzero().ravel().tolist()), sources)
                self.assertTrue((labels[:, 3] <= labels[:, 0] | labels[:, 2]).all())
                for ids in (prompt[:-1], target[:-1]):
                    # Texts are put together from the pieces of their parts, which must be those of the whole.
                    text = table.tokenizer.decode(ids)
                    self.assertEqual(table.tokenizer.encode(text, add_special_tokens=False).ids, ids, text)
                if state.task == "entail":
                    title, said, stated = ENTAILMENT.fullmatch(table.tokenizer.decode(prompt[:-1])).groups()
                    true = stated.startswith(f"{title}: ") and stated.removeprefix(f"{title}: ") in said
                    self.assertEqual(table.tokenizer.decode(target[:-1]), str(int(true)))
                # The same with words that are spelled for one example.
                self.copies(*course.example(reading, writer.Spelled(table, regions, rng), state, rng, 5, 3)[:3])
            self.retold(course, reading, table, states, rng)
            self.assertGreater(copied, 5 * len(states))
            options = ["--course", name, "--world", world, "--tokenizer", made, "--held-out", world, "--out", out]
            options += ["--steps", "2", "--held-states", "40", "--states", self.work / f"{name}.states"]
            self.run_script("writer", *options)
            self.run_script("writer", *options, "--resume", out, "--workers", "2", *["--compile"] * (course is chains))
            with self.assertRaisesRegex(SystemExit, "name another file"):
                lessons.read_lessons([name], [world], 2, self.work / f"{name}.states")
            rows = chains.Reading(world).world.questions
            sizes, kept = (Counter(len(row["gold"]) for row in some) for some in (rows, lessons.evenly(rows)))
            self.assertTrue(len(sizes) > 1 and set(kept.values()) == {min(sizes.values())} and kept < sizes)
            lines = self.log(out)
            measured = {"chains": {"held_chains_end", "held_chains_fact"}, "modules": {"held_modules_leaf"}}[name]
            self.assertLessEqual(measured, set(lines[-1]))
            # Training leaves what words mean, and words that have none are free.
            meant = meanings.read(made)
            self.assertEqual(meant is None, course is modules)
            if meant is not None:
                meant = torch.from_numpy(meant)
                marks = {table.id(mark): kind for mark, kind in pieces.MARKS[name].items()}
                seeded = torch.Generator().manual_seed(wiring.WIRING_SEED)
                _, _, held = writer.build(len(meant), seeded, marks, [], meant, writer.Preset())
                trained = load_file(str(out / "model.safetensors"))["shared.weight"].float()
                self.assertGreater(len(held.words), 100)
                torch.testing.assert_close(trained[held.words] @ held.directions.T, held.rows, atol=0.01, rtol=0.01)
                near = renaming.Renaming(made / "layout.json", meanings=meant).near[held.words]
                likeness = (meant[near] * meant[held.words, None]).sum(dim=-1)
                self.assertTrue(((likeness >= renaming.LIKENESS - 1e-6) | (near == held.words[:, None])).all())
                # What goes on from the folder finds its components there, whatever words it is given.
                self.run_script("meanings", *given, "--resume", out)
                again = torch.from_numpy(meanings.read(made))
                self.assertTrue(((again * meant).sum(dim=-1)[held.words] > 0.999).all())

    def wordnet(self, senses, derived):
        """A folder as WordNet has it: nouns and how often each word was met in each sense; words of other senses that
        one is derived from, by the number of a sense."""
        folder = self.work / "wordnet"
        folder.mkdir(exist_ok=True)
        data, index = [], []
        for n, words in enumerate(senses):
            listed = " ".join(f"{word} 0" for word in words)
            pointers = [f"+ {other:08} n 0101" for other in derived.get(n, ())]
            data.append(f"{n:08} 03 n {len(words):02x} {listed} {len(pointers):03} {' '.join(pointers)} | a gloss\n")
            index += [f"{word}%1:00:00:: {n:08} 1 {count}\n" for word, count in words.items()]
        for file in wordnet.FILES.values():
            (folder / f"data.{file}").write_text("  1 licence\n" + "".join(data if file == "noun" else []))
        (folder / "index.sense").write_text("".join(index))
        return folder

    def test_words_of_one_sense_are_drawn_together(self):
        words = ["director", "head", "direct", "directed", "skull", "other"]
        senses = [{"director": 9, "head": 3}, {"head": 30, "skull": 1}, {"direct": 2}]
        found = wordnet.WordNet(self.wordnet(senses, {0: [2]})).neighbours(words)
        found = {(words[one], words[other]): weight for (one, other), weight in found.items()}
        self.assertAlmostEqual(found["director", "head"], (3.3 / 33.6) ** 0.5)
        self.assertEqual({pair for pair, weight in found.items() if weight == 1}, {
            ("director", "direct"), ("direct", "director"), ("direct", "directed"), ("directed", "direct"),
        })  # fmt: skip
        self.assertTrue(all(found[one, other] == found[other, one] for one, other in found))
        rows = meanings.unit(numpy.random.default_rng(1).normal(size=(len(words), 8)))
        drawn = wordnet.drawn_together(rows, words, self.work / "wordnet")
        self.assertTrue((drawn[-1] == rows[-1]).all())
        for one, other in found:
            near, before = (table[words.index(one)] @ table[words.index(other)] for table in (drawn, rows))
            self.assertGreater(near, before)

    def copies(self, prompt, target, sources):
        """How many pieces of a text are copied; each from where it stands."""
        for piece, places in zip(target, sources, strict=True):
            self.assertTrue(all(prompt[place] == piece for place in places))
        return sum(map(bool, sources))

    def retold(self, course, reading, table, states, rng):
        """Retold examples say and ask of the same names, and what one fact's sentence says its question asks."""
        retell, changed = retelling.Retelling(table.tokenizer.get_vocab()), 0
        for state in states:
            told, other = retell(reading, state, rng)
            self.copies(*course.example(told, table, other, rng, 5, 3)[:3])
            self.assertEqual(named(other.lesson.question), named(state.lesson.question))
            for before, after in zip(state.lesson.facts, other.lesson.facts, strict=True):
                self.assertIn(after.sentence, told.sentences[after.passage])
                self.assertIn(after.answer, after.sentence)
                self.assertEqual(named(after.asked), named(before.asked))
                # The other wordings of a relation are not its own. What asks of a side has the other's phrase, too.
                asked = after.asked != before.asked
                self.assertIn(after.sentence != before.sentence, (asked, False) if before.side else (asked,))
                changed += after.sentence != before.sentence
        self.assertGreater(changed, len(states) / 2)

    def test_a_retold_question_keeps_its_sense(self):
        every_word = mock.MagicMock()
        every_word.__contains__.return_value = True
        retell = retelling.Retelling(every_word)
        other = retelling.Wordings([], ["the foe of {x}"], ["Whose foe is {x}?"], [])

        def told(question):
            return retell.told(retell.parsed(question), {"director": other}, random.Random(1))

        # Each side of a comparison may have an `and` of its own.
        self.assertEqual(
            told("Were the director of Levity and the stark and rustic director of Foo born in the same city?"),
            "Were the foe of Levity and the stark and rustic foe of Foo born in the same city?",
        )
        self.assertEqual(
            told("Where was the director of the film Foo (known for stark sets) born?"),
            "Where was the foe of the film Foo (known for stark sets) born?",
        )
        # What is compared is told otherwise, too.
        foes = retelling.Wordings([], [], [], ["Do {y} and {z} share the foe?"])
        self.assertEqual(
            retell.told(retell.parsed("Do Foo and Levity have the same director?"), {"director": foes}, random.Random(1)),
            "Do Foo and Levity share the foe?",
        )
        unknown = "Which film has the older director, Foo or Levity?"
        self.assertEqual(told(unknown), unknown)
        # Or in words of which the question has none.
        both = retelling.Wordings(["{o} shot {s}", "{o} is the foe of {s}"], ["the foe of {x}", "the enemy of {x}"], [], [])
        both.asks = [f"Who is {phrase}?" for phrase in both.phrase]
        unlike = [both.unlike(random.Random(seed)) for seed in range(9)]
        self.assertEqual({tuple(row.says): len(row.phrase) for row in unlike}, {(both.says[0],): 2, (both.says[1],): 1})
        self.assertNotIn("foe", unlike[[row.says for row in unlike].index([both.says[1]])].asks[0])
        alike = retelling.Wordings(["{o} edited {s}"], ["the editor of {x}"], ["Who edited {x}?"], [])
        self.assertIs(alike.unlike(random.Random(1)), alike)
        days = [pattern for row in retell.invented["date"] for pattern in (*row.says, *row.asks)]
        self.assertEqual(retell.schema.objects["date of birth"], ("date", "day"))
        self.assertFalse([pattern for pattern in days if "year" in pattern or " in {o}" in pattern])

    def test_the_parts_of_a_question_quote_it(self):
        retell = retelling.Retelling(frozenset())

        def lesson(question, kind, *facts):
            made = object.__new__(chains.Lesson)
            made.question, made.kind = question, kind
            made.facts = [chains.Fact(0, 0, "", asked, answer, needs) for asked, answer, needs in facts]
            return retell.quoting(made)

        bridge = lesson(
            "Where was the stark director of the film Foo, known for sets, born?", "bridge",
            ("Who directed the film Foo?", "Ann", []), ("Where was Ann born?", "Bar", [0]),
        )  # fmt: skip
        self.assertTrue(bridge.quotes)
        asked = [fact.asked for fact in bridge.facts]
        self.assertEqual(asked, ["Who is the stark director of the film Foo, known for sets?", "Where was Ann born?"])
        self.assertEqual(modules.open_question(bridge, []), bridge.question)
        self.assertEqual(modules.open_question(bridge, [0]), asked[1])
        both = lesson(
            "Were the director of Foo and the director of Levity born in the same city?", "bridge_comparison",
            ("Who directed Foo?", "Ann", []), ("In which city was Ann born?", "Bar", [0]),
            ("Who directed Levity?", "Bob", []), ("In which city was Bob born?", "Baz", [2]),
        )  # fmt: skip
        self.assertTrue(both.quotes)
        known = "Were Ann and the director of Levity born in the same city?"
        self.assertEqual(both.facts[1].asked, f"What about Ann: {known}")
        self.assertEqual(both.facts[2].asked, "Who is the director of Levity?")
        self.assertEqual(modules.open_question(both, [0, 1]), f"{known} (Ann: Bar)")
        asked = modules.open_question(both, [0, 1, 2])
        self.assertEqual(asked, "What about Bob: Were Ann and Bob born in the same city?")
        plain = lesson(
            "Do Foo and Levity have the same director?", "comparison",
            ("Who directed Foo?", "Ann", []), ("Who directed Levity?", "Bob", []),
        )  # fmt: skip
        self.assertEqual(plain.facts[0].asked, f"What about Foo: {plain.question}")
        self.assertEqual(retelling.names(retell.parsed(plain.facts[0].asked)), ["director"] * 2)
        deep = "Which film has the older director, Foo or Levity?"  # whose directors no phrase names
        facts = ("Who directed Foo?", "Ann", []), ("When was Ann born?", "Bar", [0])
        unparted = lesson(deep, "bridge_comparison", *facts)
        self.assertEqual((unparted.quotes, unparted.facts[0].asked), (False, "Who directed Foo?"))
        # What is asked so is retold as a question that stands alone.
        tree = retell.parsed("Who is the stark director of the film Foo, known for sets?")
        self.assertEqual(retelling.names(tree), ["director"])

    def without_held_out_words(self, reading):
        """No relation is told with a word of wordings that only worlds of evaluation have."""
        schema = retelling.Schema.read()
        parts = (schema.says, schema.back, schema.phrase, schema.asks, schema.same, schema.compared)
        known = {pattern.text for part in parts for pattern in part}
        patterns = set(re.findall(r'"([^"]*\{[^"]*)"', retelling.SCHEMA.read_text()))
        self.assertEqual(len(schema.objects), 18)
        self.assertGreater(len(patterns - known), 150)

        def lower(texts):
            return {word for text in texts for word in re.findall(r"[a-z]+", text.lower())}

        world = [text for sentences in reading.sentences for text in sentences]
        held_out = lower(patterns - known) - lower(known) - lower(world)
        told = re.sub(r"#.*", "", retelling.RELATIONS.read_text())
        invented = retelling.invented(lambda word: True)
        for rows in invented.values():
            for part in ("says", "phrase", "asks", "same"):
                listed = [pattern for row in rows for pattern in set(getattr(row, part))]
                self.assertEqual(len(listed), len(set(listed)), "two relations are told in the same words")
        # Words that name no relation.
        self.assertLessEqual(lower([told]) & held_out, {"whom", "whose", "into", "before", "lies", "name"})

    def test_the_schedule_is_that_of_transformers(self):
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
        for steps in (150, 1000):
            theirs = get_linear_schedule_with_warmup(optimizer, 200, steps)
            settings = argparse.Namespace(steps=steps, warm_up_steps=200, schedule="linear")
            for step in range(steps):
                self.assertAlmostEqual(rate(step, step / steps, settings), theirs.lr_lambdas[0](step), places=12)

    def test_what_a_paper_names_comes_from_the_hub(self):
        home = self.work / "home"
        for script, name, kind in (("encoder", "facebook/contriever", "bert"), ("labeler", "microsoft/deberta-v3-large", "deberta-v2")):
            kept = home / "hub" / f"models--{name.replace('/', '--')}"
            (kept / "refs").mkdir(parents=True)
            (kept / "refs/main").write_text("0" * 40)
            encoder_of(kind, kept / "snapshots" / ("0" * 40), pickled=True)
            out = self.work / "out" / f"hub-{script}"
            command = [sys.executable, HERE / f"{script}.py", "--rows", self.work / "rows", "--out", out, "--steps", 2]
            command += ["--batch", 8] if script == "encoder" else []
            environment = os.environ | {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}
            environment.pop("HF_HUB_CACHE", None)
            done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.log(out)

    def refused(self, why, script, *options):
        shown = io.StringIO()
        with self.assertRaises(SystemExit) as found, contextlib.redirect_stderr(shown):
            self.trained(script, "refused", *options)
        self.assertIn(why, shown.getvalue() + str(found.exception.code))

    def test_what_is_refused(self):
        alone = self.work / "alone"
        encoder_of("deberta-v2", alone)
        (alone / "tokenizer.json").unlink()
        base = ["--base", self.work / "deberta-v2"]
        self.refused("needs --base", "scorer")
        self.refused("needs --tokenizer", "labeler", "--preset", "small")
        self.refused("no such folder", "labeler", "--base", self.work / "absent")
        self.refused("no such folder", "labeler", "--base", "./absent")
        self.refused("has no config.json", "labeler", "--base", self.work / "rows")
        self.refused("allowed are: deberta-v2", "filter", "--base", self.work / "bert")
        self.refused("hopeval model import", "filter", "--base", alone)
        self.refused("is not allowed", "labeler", *base, "--keep-weights", "1")
        self.refused("is no device", "labeler", *base, "--device", "gpu")
        self.refused("fewer than a batch", "encoder", "--base", self.work / "bert")
        # The tokenizer of another folder will do.
        out, lines = self.trained("filter", "alone", "--base", alone, "--tokenizer", self.work / "deberta-v2", "--steps", "1")
        # A training that does not begin leaves the log of the model that is there.
        with self.assertRaises(SystemExit):
            self.trained("filter", "alone", "--base", alone, "--steps", "2")
        self.assertEqual(self.log(out), lines)


def main():
    global PROGRAM
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", type=Path, help="the program")
    PROGRAM = parser.parse_args().hopeval
    if PROGRAM is None:
        print("no --hopeval: folders are not opened by the program", file=sys.stderr)
    unittest.main(argv=sys.argv[:1], warnings="ignore")


if __name__ == "__main__":
    main()
