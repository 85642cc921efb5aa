#!/usr/bin/env python3
"""Whether the modules of MIGRES and FSM help with `hopeval:writer`: each beside its reader of one step, on a world.

Why: a model that says what is missing is worth its calls only if the answer gets better by it where a question needs
three or four passages. And it has to lose that if what the modules say is another question's: MIGRES's statements,
FSM's sub-answers. (Other citations would change next to nothing: without an entailer MIGRES only looks whether a
statement has one.) MIGRES is judged at three and at four gold passages. FSM2 is judged over all questions: half of
those of four are of yes or no, three of four of these are answered with no, and a reader that guesses no is hard to
beat there.

What: one run over a generated world by the program: MIGRES beside its own single step (`iterations = 0`), which reads
at once, by the prompt `direct.txt`, what the same retriever and re-ranker find for the question; FSM2 beside NORMAL,
which reads all given paragraphs. Then MIGRES and FSM2 again behind a server of the same writer in transformers. On 24
questions it replies what the writer writes, and nine of ten answers have to be those of the first run. For the
controls it exchanges the statements of each leaf for others of the first run, and replies to each search with a title
that is shown and a sub-answer of the first run, all drawn by the prompt: of some thousand few are the question's own. A
question without an answer counts as 0. Differences are paired by question; their 95 % intervals are bootstrap
percentiles (10,000 resamples, seeded).

    module_margins.py --hopeval PROGRAM --work DIR --model FOLDER [--split eval] [--questions 600] [--seed 1]
                      [--controlled N] [--out FILE]

FOLDER is the writer's (`jobs/models/files/writer`). As many questions of two, of three and of four gold passages
(`reasoning.py`); with `--controlled` the controls, which take most of the time, are of the first N of each. Exits with
1 if the interval of a method less its reader, or less its control, is not wholly above 0: of MIGRES at three or at four
gold passages, of FSM2 over all questions; also if a size has no question, if a reader leaves more than a tenth of its
questions unanswered, if replies are not alike, and if an outcome failed otherwise than by a reply that cannot be read.
Needed: numpy, pyarrow, torch, transformers.
"""

import argparse
import datetime
import json
import pathlib
import random
import re
import sys
import threading
import time

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "endpoint")]

import simulated_runs  # noqa: E402
from chat_server import ChatServer  # noqa: E402
from reasoning import BM25, FILES, PASSAGES, SIZES, Tables, as_many_of_each, difference  # noqa: E402

NAME = 'name = "module-margins"\n'
WRITER = """
[service.writer]
kind = "lm"
model = {model}
batch_tokens = 8192
"""
SERVED = """
[service.writer]
kind = "endpoint"
model = "{name}"
base_url = "{url}"
identity = "{name}, seed {seed}"
context_tokens = 100000
patience_s = 20
# The server answers one prompt at a time, in seconds: with more in flight the last one would seem to have stalled.
concurrency = 4
"""
MOST_TOKENS = {"migres": 300, "fsm2": 100}
# Shown are the first ten of BM25, re-ranked: where a fact was asked for and not stated, its passage often had one of
# the places 6 to 10 (`ops/train/writers-2026-11-30.md`). A passage is shown as often as it is found.
READING = f"""
kind = "migres"
retriever = "bm25"
reranker = "reranker"
generator = "writer"
retrieved = 10
passages = 10
forward = false
threshold = -99.0
max_tokens = {MOST_TOKENS["migres"]}
"""
MIGRES = f"""
[service.reranker]
kind = "lm"
model = "hopeval:reranker"
[method.migres]{READING}most_shown = 0
"""
ONE_STEP = f"""
[method.one_step]{READING}iterations = 0
"""
FSM2 = f"""
[method.fsm2]
kind = "fsm"
generator = "writer"
temperature = 0.0
history = 0
max_tokens = {MOST_TOKENS["fsm2"]}
"""
NORMAL = """
[method.normal]
kind = "fsm_baseline"
prompt = "normal"
generator = "writer"
temperature = 0.0
max_tokens = 60
"""
RUN = """
[run]
allowed_failed = 1.0
"""
# Of the ten paragraphs of a question: else NORMAL guesses the answers of long chains by their kind.
RIVALS = 6
METHODS = ("migres", "one_step", "fsm2", "normal")
REPLAYED = 24  # questions, of which the server's unchanged replies must give the first run's answers to nine of ten
MOST_UNANSWERED = 0.1  # of a reader's questions: one that often fails is beaten by anything
JUDGED = {"migres": (3, 4), "fsm2": ("all",)}  # of the rows, by gold passages
STATED = re.compile(r'("info": )"(?:[^"\\]|\\.)*"')
SEARCH = re.compile(r"^Paragraphs:\n.*\nQuestion: (.*)$", re.DOTALL)
TITLE = re.compile(r"^Title: (.*)$", re.MULTILINE)


class Writer:
    """The writer in transformers, one text at a time."""

    def __init__(self, folder):
        import torch
        from tokenizers import Tokenizer
        from transformers import T5ForConditionalGeneration

        torch.set_num_threads(1)
        self.torch, self.lock = torch, threading.Lock()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.model = T5ForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()

    def __call__(self, prompt, most):
        with self.lock, self.torch.no_grad():
            ids = self.torch.tensor([self.tokenizer.encode(prompt).ids])
            made = self.model.generate(ids, max_new_tokens=most, do_sample=False, num_beams=1)
            return self.tokenizer.decode(made[0].tolist(), skip_special_tokens=True)


def other_statements(writer, donors):
    """Replies, but with one of `donors` in place of each statement; what the statement cites stays."""

    def reply(prompt):
        rng = random.Random(prompt)
        return STATED.sub(
            lambda found: found[1] + json.dumps(rng.choice(donors)), writer(prompt, MOST_TOKENS["migres"])
        )

    return reply


def other_answers(writer, donors):
    """Replies, but to a search with one of the answers `donors`, from a title that is shown."""

    def reply(prompt):
        if not (asked := SEARCH.match(prompt)) or '"paragraph title"' not in prompt:
            return writer(prompt, MOST_TOKENS["fsm2"])
        rng = random.Random(prompt)
        title = rng.choice(TITLE.findall(prompt))
        return json.dumps({"question": asked[1], "paragraph title": title, "answer": rng.choice(donors)})

    return reply


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument(
        "--split", choices=("eval", "train"), default="eval", help="of wordings: those of the training, or others"
    )
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1, help="of the world")
    parser.add_argument("--controlled", type=int, help="most questions of each size that the controls answer; else all")
    parser.add_argument("--out", type=pathlib.Path)
    given = parser.parse_args()
    work = given.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    files = as_many_of_each(given.hopeval, work, given.questions, given.seed, RIVALS, given.split)
    questions, corpus = (json.dumps(str(file)) for file in files)
    world = NAME + FILES.format(questions=questions, corpus=corpus) + BM25

    def finished(name, job):
        place = simulated_runs.RunFolder(
            given.hopeval, work / name, job, work / "cache", store=f"store-{time.time_ns():x}"
        )
        place.run()
        tables = Tables(place)
        refuse_other_failures(name, tables)
        return tables

    methods = MIGRES + ONE_STEP + FSM2 + NORMAL
    made = finished("writer", world + WRITER.format(model=json.dumps(str(given.model.resolve()))) + methods + RUN)
    writer = Writer(given.model)

    def notes(configuration, name):
        rows = made.rows("traces", configuration=configuration)
        return [note["text"] for row in rows for note in row["notes"] if note["name"] == name]

    statements = notes("migres", "info")
    answers = [text.rsplit(" (from ", 1)[0] for text in notes("fsm2", "sub_answer")]
    if not statements or not answers:
        raise SystemExit("MIGRES stated nothing, or no search of FSM was answered: there is nothing to exchange")

    def behind(name, reply, method, world):
        service = SERVED.format(name=name, url=ChatServer(reply).url, seed=given.seed)
        return finished(name.replace(" ", "-"), world + service + method + RUN)

    of_size = {}
    for id, row in made.questions.items():
        of_size.setdefault(len(row["gold"]), []).append(id)
    lines = files[0].read_text(encoding="utf-8").splitlines(keepends=True)

    def world_of(name, lines):
        file = work / f"{name}.jsonl"
        file.write_text("".join(lines), encoding="utf-8")
        return NAME + FILES.format(questions=json.dumps(str(file)), corpus=corpus) + BM25

    served = world_of("replayed", lines[:: max(1, len(lines) // REPLAYED)])
    replayed = {
        method: behind(f"{method} replayed", lambda prompt, most=MOST_TOKENS[method]: writer(prompt, most), job, served)
        for method, job in (("migres", MIGRES), ("fsm2", FSM2))
    }
    some = {id for ids in of_size.values() for id in ids[: given.controlled]}
    controlled = world_of("controlled", [line for line in lines if json.loads(line)["id"] in some])
    controls = {
        "migres": behind("statements of others", other_statements(writer, statements), MIGRES, controlled),
        "fsm2": behind("answers of others", other_answers(writer, answers), FSM2, controlled),
    }
    f1 = {name: answered(made, name, "f1") for name in METHODS}
    f1 |= {f"{name}, control": answered(tables, name, "f1") for name, tables in controls.items()}
    em = {name: answered(made, name, "em") for name in METHODS}
    generator, missed = numpy.random.default_rng(1), []
    missed += [f"{size} gold passages: no question" for size in SIZES if size not in of_size]
    unanswered = {
        name: sum(row["status"] != "ok" for row in made.rows("outcomes", configuration=name)) for name in METHODS
    }
    missed += [
        f"{name}: {unanswered[name]} questions without an answer"
        for name in ("one_step", "normal")
        if unanswered[name] > MOST_UNANSWERED * len(made.questions)
    ]
    alike = {method: same_answers(method, made, tables) for method, tables in replayed.items()}
    missed += [
        f"{method}: of {of} questions {same} are answered alike by the server"
        for method, (same, of) in alike.items()
        if same < 0.9 * of
    ]

    def figures(name, ids):
        return ", ".join(f"{numpy.mean([values[name][id] for id in ids]):.3f}" for values in (f1, em))

    def compared(one, other, ids, size):
        ids = [id for id in ids if id in f1[other]]
        mean, low, high = difference(f1[one], f1[other], ids, generator)
        lost = low <= 0 and size in JUDGED[one]
        if lost:
            of = "all questions" if size == "all" else f"{size} gold passages"
            missed.append(f"{of}: {one} above {other}")
        return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]" + (" **missed**" if lost else "")

    def table(method, reader, control):
        """A method beside its reader and its control, by size."""
        yield ""
        yield (
            f"| gold passages | n | F1, EM of {method} | {reader} | F1: {method} less {reader} | n | {method} less "
            f"that with {control} | {method} with {control} less {reader} |"
        )
        yield "| ---: | ---: | --- | --- | --- | ---: | --- | --- |"
        for size, ids in [*sorted(of_size.items()), ("all", list(made.questions))]:
            with_control = [id for id in ids if id in some]
            mean, low, high = difference(f1[f"{method}, control"], f1[reader], with_control, generator)
            cells = [figures(method, ids), figures(reader, ids), compared(method, reader, ids, size)]
            cells.append(str(len(with_control)))
            cells += [compared(method, f"{method}, control", ids, size), f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"]
            yield f"| {size} | {len(ids)} | " + " | ".join(cells) + " |"

    lines = [
        f"# Whether modules help, {datetime.date.today()}",
        "",
        f"`ops/reference/module_margins.py`: {given.model.name}, world of {given.questions} questions in the wordings "
        f"of `{given.split}`, as many of each size, {RIVALS} rivals, and {PASSAGES:,} passages, seed {given.seed}. A "
        "question without an answer counts as 0: "
        + ", ".join(f"{name} {count} of {len(made.questions)}" for name, count in unanswered.items())
        + ". Answered alike by the server's unchanged replies: "
        + ", ".join(f"{method} {same} of {of}" for method, (same, of) in alike.items())
        + ".",
        *table("migres", "one_step", "statements of others"),
        *table("fsm2", "normal", "answers of others"),
    ]
    lines += ["", "Missed: " + ("; ".join(missed) or "none") + ".", ""]
    print("\n".join(lines))
    if given.out:
        given.out.write_text("\n".join(lines))
    sys.exit(1 if missed else 0)


def refuse_other_failures(name, tables):
    """A reply that cannot be read is the method's own failure; an outcome that ended otherwise tells nothing of it."""
    others = [row for row in tables.rows("outcomes") if row["status"] not in ("ok", "parse_failure")]
    if others:
        first = others[0]
        raise SystemExit(
            f"{name}: {len(others)} outcomes failed otherwise than by a reply that cannot be read, first "
            f"{first['configuration']} on {first['question']}: {first['status']}, {first['message']}"
        )


def same_answers(method, made, replayed):
    """Of the questions of a second run, how many have the first run's status and answer."""
    first, second = (
        {row["question"]: (row["status"], row["answer"]) for row in tables.rows("outcomes", configuration=method)}
        for tables in (made, replayed)
    )
    return sum(first[id] == found for id, found in second.items()), len(second)


def answered(tables, configuration, measure):
    """A measure of each question's answer, 0 where there is none."""
    scores = tables.scores(configuration, measure)
    return {id: scores.get(id) or 0.0 for id in tables.questions}


if __name__ == "__main__":
    main()
