#!/usr/bin/env python3
"""FSM's support by the official scripts of HotpotQA and 2WikiMultihopQA beside hopeval's own measures.

Why: models invent titles, count sentences wrongly and write indices as texts. hopeval keeps such support in the model's
words, exports it, and counts it; the official scripts must come to the same figures from the exported files.

What: FSM1, FSM2 and a single prompt read questions with their paragraphs in the setting with support (2), against a
scripted server. The server knows the gold. It keeps to the form of each step, and names gold sentences, titles that
no paragraph has, titles in other letters, indices beyond the last sentence or before the first, indices as texts, as
fractions, as booleans, none at all, and lists that are no pair; of evidences gold triples, changed and broken ones.
Its answers are right about half the time. Of the single prompt, the support as it stands in the replies goes through
the script as well, which shows where hopeval reads it otherwise (`raw_support`). The predictions of `hopeval export`
go through the official script; its figures must be those of hopeval's table `measures`, and those of each question,
taken alone, hopeval's table `scores`. For 2WikiMultihopQA a file of aliases is made from some of the gold, and
`hopeval score --aliases` has the script's figures, too. The 2WikiMultihopQA script rounds to two digits; that is
switched off here, so that all digits are compared.

The official scripts are no part of this repository: `hotpot_evaluate_v1.py` is in hotpotqa/hotpot,
`2wikimultihop_evaluate_v1.1.py` in Alab-NII/2wikimultihop.

    support.py --hopeval PROGRAM --work DIR --data DIR --hotpotqa SCRIPT --2wikimultihopqa SCRIPT [--questions N]

Exits with 1 if a figure differs. Needed: pyarrow, blake3, ujson (of the scripts).
"""

import argparse
import ast
import collections
import contextlib
import gzip
import importlib.util
import io
import json
import pathlib
import random
import re
import sys
import time

import blake3
import pyarrow.parquet

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "readers"), str(HERE.parent / "endpoint")]

import babbler  # noqa: E402
import simulated_runs  # noqa: E402

FILES = {"hotpotqa": "dev*.json.gz", "2wikimultihopqa": "train*.json.gz"}
# The script of 2WikiMultihopQA prints percent.
SCALES = {"hotpotqa": 1, "2wikimultihopqa": 100}
CONFIGURATIONS = {
    "fsm1": {"kind": "fsm", "variant": "fsm1", "setting": 2},
    "fsm2": {"kind": "fsm", "variant": "fsm2", "setting": 2},
    "folded": {"kind": "fsm", "variant": "fsm2", "setting": 2, "titles": "folded", "draw": 1},
    "normal": {"kind": "fsm_baseline", "prompt": "normal", "setting": 2},
}
# hopeval's measures by the scripts' names.
MEASURES = {"em": "em", "f1": "f1", "prec": "precision", "recall": "recall"}
MEASURES |= {f"{kind}_{name}": f"{ours}_{own}" for kind, ours in (("sp", "sp"), ("evi", "evidence"), ("joint", "joint"))
             for name, own in MEASURES.items()}


class Scripted(babbler.Babbler):
    """Answers FSM's prompts in their form, with support that is partly wrong."""

    def __init__(self, rows):
        super().__init__([row["context"][0][0] for row in rows], [])
        self.by_titles, self.kinds, self.normal = {}, collections.Counter(), {}
        for row in rows:
            self.by_titles.setdefault(row["question"], row)
            for title, _ in row["context"]:
                self.by_titles.setdefault(title, row)

    def choice(self, body, number, index, prompt, fields, chat):
        draw = random.Random(int.from_bytes(blake3.blake3(body).digest()[:8]) + number)
        found = re.findall(r"(?m)^Title: (.+)$", prompt)
        asked = re.findall(r"(?m)^Question: (.+)$", prompt)
        row = next((self.by_titles[name] for name in asked + found if name in self.by_titles), None)
        reply = self.fields_of_reply(draw, prompt, row, found)
        if row and "Answer the question from the paragraphs. Find" in prompt:
            self.normal[row["_id"]] = reply
        text = json.dumps(reply, ensure_ascii=False)
        return {"index": index, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}

    def fields_of_reply(self, draw, prompt, row, titles):
        if '"subquestion"' in prompt:
            simple = draw.random() < 0.4
            return {"simple": simple, "subquestion": None if simple else "What came first?"}
        if '"identical"' in prompt:
            return {"identical": draw.random() < 0.1}
        if '"relation": "composition"' in prompt:
            return {"question": row["question"] if row else "What is left?", "relation": "composition"}
        if '"simple"' in prompt:
            return {"simple": True, "answer": re.findall(r"(?m)^Answer: (.*)$", prompt)[-1]}
        value = {"question": "Which?", "explain": "It stands there.", "paragraph title": draw.choice(titles or ["x"]),
                 "answer": self.short_answer(draw, row)}
        return value | {"supporting-facts": self.facts(draw, row, titles), "evidences": self.triples(draw, row)}

    def short_answer(self, draw, row):
        gold = row["answer"] if row else "yes"
        words = gold.split()
        return draw.choice([gold, gold, gold, " ".join(words[:5]), words[0], gold.upper() + ".", "yes", "no", "Paris"])

    def facts(self, draw, row, titles):
        gold = [list(fact) for fact in row["supporting_facts"]] if row else []
        if draw.random() < 0.3:
            return gold
        facts = [fact for fact in gold if draw.random() < 0.8]
        for _ in range(draw.randrange(4)):
            title, index = draw.choice(gold) if gold and draw.random() < 0.6 else (draw.choice(titles or ["x"]), 0)
            kind = draw.choice(["invented", "letters", "underscores", "beyond", "before", "next", "text", "word",
                                "fraction", "half", "boolean", "none", "triple", "title", "single", "twice", "nested"])
            self.kinds[kind] += 1
            facts += {"invented": [[f"The {title} Affair", index]], "letters": [[title.lower(), index]],
                      "underscores": [[title.replace(" ", "_"), index]], "beyond": [[title, 40]],
                      "before": [[title, -1]], "next": [[title, index + 1]], "text": [[title, str(index)]],
                      "word": [[title, "first"]], "fraction": [[title, float(index)]], "half": [[title, 0.5]],
                      "boolean": [[title, bool(index)]], "none": [[title, None]], "triple": [[title, index, 1]],
                      "title": [title], "single": [[title]], "twice": [[title, index], [title, index]],
                      "nested": [[[title], index]]}[kind]
        draw.shuffle(facts)
        return facts

    def triples(self, draw, row):
        gold = [list(triple) for triple in (row or {}).get("evidences", [])]
        if draw.random() < 0.3:
            return gold
        triples = [triple for triple in gold if draw.random() < 0.8]
        for _ in range(draw.randrange(3)):
            subject, relation, object = draw.choice(gold) if gold else ["Rome", "is", "old"]
            kind = draw.choice(["changed", "letters", "points", "number", "pair", "text", "empty", "twice", "order"])
            self.kinds[f"triple: {kind}"] += 1
            triples += {"changed": [[subject, relation, "Rome"]], "letters": [[subject.upper(), relation, object]],
                        "points": [[subject, f"{relation}!", f" {object} ."]], "number": [[subject, relation, 3]],
                        "pair": [[subject, relation]], "text": ["one two three"], "empty": [[]],
                        "twice": [[subject, relation, object]] * 2, "order": [[object, relation, subject]]}[kind]
        return triples


def job_text(data, questions, limit, url):
    methods = "\n".join(f"[method.{name}]\ngenerator = \"llm\"\n"
                        + "\n".join(f"{key} = {simulated_runs.toml_value(value)}" for key, value in settings.items())
                        for name, settings in CONFIGURATIONS.items())
    return f"""
name = "support"
[dataset]
format = "{data}"
questions = {json.dumps(str(questions))}
limit = {limit}
[corpus]
source = "contexts"
links = "none"
[service.llm]
kind = "endpoint"
base_url = "{url}"
model = "scripted"
dialect = "vllm"
key_env = "SIMULATED_KEY"
identity = "the scripted model"
seed = 7
patience_s = 20
{methods}
[measures]
recall_at = [2]
[run]
allowed_failed = 1.0
"""


def loaded(path):
    """An official script, which neither rounds nor prints here: its figures come back as a dictionary."""
    spec = importlib.util.spec_from_file_location("official", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.round = lambda number, digits: number

    def figures(*files):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            module.eval(*map(str, files))
        # What is missing has lines of its own before the figures.
        text = told.getvalue()
        return ast.literal_eval(text[text.index("{"):])

    return figures


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def aliases_of(rows):
    """Lines of 2WikiMultihopQA's file: for every third answer its first word, for the subjects of triples an alias."""
    made = {}
    for number, row in enumerate(rows):
        ids = [row["answer_id"]] if row["answer_id"] else []
        words = [row["answer"].split()[0], row["answer"].upper() + "."]
        for (subject, _, _), (id, *_) in zip(row["evidences"], row["evidences_id"]):
            made.setdefault(id, {"Q_id": id, "aliases": [subject.upper() + "!", "Rome"], "demonyms": []})
        for id in ids if number % 3 == 0 else []:
            made[id] = {"Q_id": id, "aliases": words, "demonyms": ["Paris"]}
    return "\n".join(map(json.dumps, made.values())) + "\n"


def score(place, data, predictions, gold, aliases):
    """The figures of `hopeval score`; none if it refuses the file."""
    command = ["score", "--profile", data, "--predictions", str(predictions), "--gold", str(gold), "--json"]
    command += ["--aliases", str(aliases[0])] if aliases else []
    try:
        return json.loads(place.tell(*command))
    except RuntimeError as refused:
        print("   hopeval score:", str(refused).split("caused by: ")[-1].strip())
        return {}


def with_numbers(support):
    """Indices that are texts become numbers that no sentence has, each its own."""
    made = {}
    for id, facts in support.items():
        texts = sorted({index for _, index in facts if isinstance(index, str)})
        made[id] = [[title, 1000 + texts.index(index) if isinstance(index, str) else index] for title, index in facts]
    return made


def raw_support(replies, exported, read, data):
    """Support in the model's own words and types. A title that is a list, which the scripts fail on, is a text here.
    `read`: in three cases hopeval reads something else than the scripts. Of a list of three parts it takes two; a
    boolean is no index (Python's True is 1); and a title in other letters is no title, which 2WikiMultihopQA's script
    allows."""
    made = {}
    for id, known in exported.items():
        facts = [fact if isinstance(fact, list) else [fact] for fact in replies[id]["supporting-facts"]]
        made[id] = [[part if not isinstance(part, list) else str(part) for part in fact] for fact in facts]
        if read:
            made[id] = [[str(part) if isinstance(part, bool) else part for part in fact[:2]] for fact in made[id]]
        if read and data == "2wikimultihopqa":
            titles = {title for title, index in known if isinstance(index, int)}
            made[id] = [[fact[0], *(str(part) for part in fact[1:])] if fact[0] not in titles else fact
                        for fact in made[id]]
    return made


class Comparison:
    """What was held beside each other."""

    def __init__(self, about, scale):
        self.about, self.scale, self.compared, self.equal, self.differ = about, scale, 0, 0, []

    def add(self, name, official, own):
        self.compared += 1
        own = own if own is None else own * self.scale
        if own == official:
            self.equal += 1
        else:
            self.differ.append((name, official, own))

    def tell(self):
        print(f"{self.about}: {self.equal} of {self.compared} equal", flush=True)
        for name, official, own in self.differ[:6]:
            print(f"   {name}: official {official!r}, hopeval {own!r}")
        if self.differ:
            print(f"   most apart: {max(abs((own or 0) - official) for _, official, own in self.differ):.3g}")


def check(data, arguments):
    path = sorted((arguments.data / data).glob(FILES[data]))[0]
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)[:arguments.questions]
    server = Scripted(rows)
    place = simulated_runs.RunFolder(arguments.hopeval, arguments.work / data,
                                     job_text(data, path.resolve(), arguments.questions, server.url),
                                     arguments.work / "cache", store=f"store-{time.time_ns():x}")
    place.run()
    server.stop()
    print(f"{data}: {len(rows)} questions, {server.sent.total()} calls; written beside the gold:")
    print("  " + ", ".join(f"{count} {kind}" for kind, count in sorted(server.kinds.items())))
    run = place.store.root / "runs" / place.id() / "final"
    measures = {(row["configuration"], row["measure"]): row["value"]
                for row in pyarrow.parquet.read_table(run / "measures.parquet").to_pylist() if row["stratum"] == "all"}
    scores = {(row["configuration"], row["question"], row["measure"]): row["value"]
              for row in pyarrow.parquet.read_table(run / "scores.parquet").to_pylist()}
    statuses = collections.Counter((row["configuration"], row["status"])
                                   for row in pyarrow.parquet.read_table(run / "outcomes.parquet").to_pylist())
    print("  " + ", ".join(f"{name} {status}: {count}" for (name, status), count in sorted(statuses.items())))
    official = loaded(arguments.scripts[data])
    gold = write(place.folder / "gold.json", rows)
    empty, aliases = place.folder / "no-aliases.json", place.folder / "aliases.json"
    empty.write_text("")
    differ, scale = False, SCALES[data]
    for name in CONFIGURATIONS:
        exported = place.folder / f"{name}.json"
        place.tell("export", place.id(), "--format", data, "--configuration", name, "--out", str(exported))
        predictions = json.loads(exported.read_text())
        more = [empty] if data == "2wikimultihopqa" else []
        whole = Comparison(f"{data} {name}, all questions", scale)
        wanted = official(exported, gold, *more)
        for measure, value in wanted.items():
            whole.add(measure, value, measures.get((name, MEASURES[measure])))
        each = Comparison(f"{data} {name}, each question", scale)
        for row in rows:
            one = write(place.folder / "one.json", [row])
            for measure, value in official(exported, one, *more).items():
                each.add(f"{row['_id']} {measure}", value, scores.get((name, row["_id"], MEASURES[measure])))
        told = [whole, each]
        more = []
        if data == "2wikimultihopqa":
            aliases.write_text(aliases_of(rows))
            more = [aliases]
            wanted = official(exported, gold, aliases)
        numbered = write(place.folder / "numbered.json", predictions | {"sp": with_numbers(predictions["sp"])})
        for about, file in (("hopeval score", exported), ("hopeval score, texts as numbers", numbered)):
            scored = Comparison(f"{data} {name}, {about}", 1)
            found = score(place, data, file, gold, more)
            for measure, value in wanted.items():
                scored.add(measure, value, found.get(measure))
            told.append(scored)
        for comparison in told:
            comparison.tell()
            differ |= bool(comparison.differ)
        if name == "normal":
            for about, read in (("as written", False), ("as written, read as hopeval reads it", True)):
                support = raw_support(server.normal, predictions["sp"], read, data)
                raw = write(place.folder / "raw.json", predictions | {"sp": support})
                own = Comparison(f"{data} {name}, all questions, support {about}", scale)
                for measure, value in official(raw, gold, *([empty] if more else [])).items():
                    own.add(measure, value, measures.get((name, MEASURES[measure])))
                own.tell()
                differ |= read and bool(own.differ)
        names = ["em", "sp_em", "sp_f1", "sp_prec", "sp_recall", *(["evi_em", "evi_f1"] if more else []), "joint_em",
                 "joint_f1"]
        print("   official: " + ", ".join(f"{key} {wanted[key]:.17g}" for key in names), flush=True)
        print(f"   predictions: {len(predictions['answer'])} answers, "
              f"{sum(map(len, predictions['sp'].values()))} facts", flush=True)
    return differ


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--data", required=True, type=pathlib.Path)
    parser.add_argument("--hotpotqa", type=pathlib.Path)
    parser.add_argument("--2wikimultihopqa", dest="wiki", type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=200)
    arguments = parser.parse_args()
    arguments.work = arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.scripts = {"hotpotqa": arguments.hotpotqa, "2wikimultihopqa": arguments.wiki}
    return int(any([check(data, arguments) for data in FILES if arguments.scripts[data]]))


if __name__ == "__main__":
    sys.exit(main())
