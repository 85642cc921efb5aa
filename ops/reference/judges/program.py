#!/usr/bin/env python3
"""MIGRES's accuracy by the program itself, beside the restatement of `migres.py`, pair by pair.

Why: `tests/judging.rs` holds the machine and the measure to the restatement. Here the whole way is held to it: answers
that are brought in, `hopeval judge`, a server that writes the scripted judge's replies, the table `scores`.

What: each pair of a prediction and gold answers becomes a question whose answer is brought in (`kind = "rankings"`).
Two judges have MIGRES's rule, one of them that of open-domain questions. The server takes the fields out of the prompt,
adds up their bytes and replies as `migres.py` says. The words, the accuracies, the sum of all bytes that the server
has seen, and the means must be the restatement's. A second `hopeval judge` must ask nothing. A dataset's gold answers
are kept once each, so the restatement is asked about pairs without repeated ones.

    program.py --hopeval PROGRAM --work DIR --pairs FILE

Exits with 1 if something differs. Needed: pyarrow.
"""

import argparse
import gzip
import json
import pathlib
import re
import sys
import threading
import time

import pyarrow.parquet

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "endpoint")]

import migres  # noqa: E402
import simulated_runs  # noqa: E402
from chat_server import ChatServer  # noqa: E402

FIELDS = re.compile(r"\nPrediction: (.*)\nCorrect answer: (.*)\nDoes the prediction", re.DOTALL)
JUDGES = {"plain": "false", "open": "true"}
JOB = """
name = "pairs"
[dataset]
format = "fields"
questions = "questions.jsonl"
[dataset.fields]
id = "id"
question = "question"
answers = "golds"
gold_ids = "gold"
[corpus]
source = "corpus.jsonl"
links = "none"
[method.brought]
kind = "rankings"
file = "answers.json"
[run]
allowed_failed = 1.0
"""


class ScriptedJudge:
    """Writes a reply for each prompt, and keeps the bytes of the fields by prompt."""

    def __init__(self):
        self.calls, self.bytes, self.lock = 0, {}, threading.Lock()
        self.url = ChatServer(self.reply).url

    def reply(self, prompt):
        total = sum(sum(part.encode()) for part in FIELDS.search(prompt).groups())
        with self.lock:
            self.calls += 1
            self.bytes[prompt] = total
        return migres.REPLIES[total % len(migres.REPLIES)]


def judges_text(url):
    judges = "".join(f'[judge.{name}]\nkind = "yes_no"\nrule = "migres"\ngenerator = "judge"\nopen_domain = {value}\n'
                     'prediction = "normalized"\nanswers = "python_list"\n' for name, value in JUDGES.items())
    return f"""[service.judge]
kind = "endpoint"
model = "scripted"
base_url = "{url}"
identity = "the scripted judge"
patience_s = 20
{judges}"""


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--pairs", required=True)
    arguments = parser.parse_args()
    with gzip.open(arguments.pairs, "rt", encoding="utf-8") as file:
        given = [json.loads(line) for line in file]
    pairs = [pair | {"golds": list(dict.fromkeys(pair["golds"]))} for pair in given]
    repeated = sum(pair != before for pair, before in zip(pairs, given))
    place = simulated_runs.RunFolder(arguments.hopeval, arguments.work.resolve() / "pairs", JOB,
                                     arguments.work.resolve() / "cache", store=f"store-{time.time_ns():x}")
    ids = [f"pair{number:04}" for number in range(len(pairs))]
    write_lines(place.folder / "questions.jsonl", [
        {"id": id, "question": f"Question {number}?", "golds": pair["golds"], "gold": ["p"]}
        for number, (id, pair) in enumerate(zip(ids, pairs))])
    write_lines(place.folder / "corpus.jsonl", [{"id": "p", "title": "A page", "text": "A text."}])
    answers = {id: pair["prediction"] for id, pair in zip(ids, pairs)}
    (place.folder / "answers.json").write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
    place.run()
    run, judge = place.id(), ScriptedJudge()
    (place.folder / "judges.toml").write_text(judges_text(judge.url))
    calls, means = [], []
    for _ in range(2):
        told = json.loads(place.tell("judge", run, "judges.toml", "--json"))
        calls.append(judge.calls)
        means.append({row["configuration"]: row["value"] for row in told["measures"]
                      if row["stratum"] == "all" and row["measure"] == "acc_migres"})
    final = place.store.root / "runs" / told["run"] / "final"
    outcomes = {(row["configuration"], row["question"]): row
                for row in pyarrow.parquet.read_table(final / "outcomes.parquet").to_pylist()}
    scores = {(row["configuration"], row["question"]): row["value"]
              for row in pyarrow.parquet.read_table(final / "scores.parquet").to_pylist()
              if row["measure"] == "acc_migres"}
    wrong, wanted_bytes, right = [], 0, {name: 0 for name in JUDGES}
    for id, pair in zip(ids, pairs):
        total, word, plain, open_domain = migres.judge(pair)
        wanted_bytes += total
        for name, accurate in (("plain", plain), ("open", open_domain)):
            outcome, score = outcomes[f"{name}(brought)", id], scores[f"{name}(brought)", id]
            right[name] += accurate
            if (outcome["answer"], score) != ("yes" if word else "no", float(accurate)):
                wrong.append((name, pair["prediction"], pair["golds"], outcome["status"], outcome["answer"], score,
                              word, accurate))
    seen = sum(judge.bytes.values())
    print(f"{len(pairs)} pairs ({repeated} had repeated gold answers), {calls[0]} calls, the second time "
          f"{calls[1] - calls[0]} more; bytes of the fields {seen} at the server, {wanted_bytes} restated; "
          f"words and accuracies: {2 * len(pairs) - len(wrong)} of {2 * len(pairs)} equal; means {means[0]}, restated "
          f"{({name: count / len(pairs) for name, count in right.items()})}")
    for found in wrong[:8]:
        print("  ", *map(repr, found))
    same = all(abs(means[0][f"{name}(brought)"] - count / len(pairs)) < 1e-12 for name, count in right.items())
    return 0 if not wrong and same and seen == wanted_bytes and calls[0] == calls[1] and means[0] == means[1] else 1


if __name__ == "__main__":
    sys.exit(main())
