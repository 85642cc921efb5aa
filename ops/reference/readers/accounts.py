#!/usr/bin/env python3
"""MIGRES's tables 4 and 5, calls and tokens by step, beside sums over the servers' logs.

Why: both tables are what hopeval says about its own requests. The server of the language model has counted them too.

What: for each form of knowledge (sentences, whole passages, summaries, copied parts) hopeval runs MIGRES over a world
against `hopeval simulate-llm`, behind a proxy that keeps each body, and against `scorers.py`. Then:

* *incurred*: calls and tokens of the run, which sends equal requests once, are the sums over the server's log.
* *by step*: `hopeval costs` says calls and tokens of a question, as if nothing were shared. A body's step is told by its
  prompt, and its tokens are those of its line in the log; how often questions ask for it, the reference says
  (`migres.py`), which is run over the same questions. The sums over all lines, by step, must be hopeval's.
* *table 4*: API calls (forward, leaf, main, query, final) and the passages shown, from the log's bodies. Iterations
  are printed and not compared: no log has them.
* *table 5*: tokens of the shown passages (three bytes are one) in the bodies of the leaf module, and of the steps
  `summ` and `snippet`.

    accounts.py --hopeval PROGRAM --work DIR [--questions N] [--passages N]

Exits with 1 if a sum differs. Needed: those of conform.py.
"""

import argparse
import collections
import http.client
import json
import pathlib
import sys
import time
import urllib.parse

import blake3

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "endpoint")]

import conform  # noqa: E402
import inputs  # noqa: E402
import migres  # noqa: E402
import ranking  # noqa: E402
import scorers  # noqa: E402
import shared  # noqa: E402
import simulated_runs  # noqa: E402
from post_server import PostServer  # noqa: E402

KNOWLEDGE = ("sentences", "whole", "summ", "snippet")
# Steps of the paper's API calls.
API = ("forward", "leaf", "main", "query", "final")


class Proxy(PostServer):
    """Passes calls on to the simulated server, and keeps their bodies."""

    def __init__(self, url):
        self.place, self.bodies = urllib.parse.urlsplit(url), {}
        super().__init__(self.pass_on)

    def pass_on(self, body, path, headers):
        self.bodies[blake3.blake3(body).hexdigest()] = body
        connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=60)
        kept = {name: headers[name] for name in ("content-type", "authorization")}
        connection.request("POST", path, body, kept)
        answer = connection.getresponse()
        return answer.status, answer.read()


def step_of(prompt):
    """The step of MIGRES that a prompt belongs to."""
    ends = {"New queries:": "query", "\nInformation:": "forward", "Summary:": "summ", "Copied parts:": "snippet"}
    for end, step in ends.items():
        if prompt.rstrip().endswith(end):
            return step
    keys = {'"useful_information"': "leaf", '"missing_information"': "main", '"confidence"': "final"}
    return next(step for key, step in keys.items() if key in prompt)


def prompt_of(body):
    return json.loads(body)["messages"][-1]["content"]


class AskingServer(shared.Server):
    """Counts every draw that is asked for, equal ones too."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked = collections.Counter()

    def drawn(self, messages, max_tokens, sampling, count=1, first=0, json_object=False):
        if "seed" in sampling or json_object:
            raise ValueError("only greedy texts are counted here")
        fields = {"model": self.model, "messages": [{"role": role, "content": text} for role, text in messages],
                  "max_tokens": max_tokens} | sampling
        body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()
        self.asked[blake3.blake3(body).hexdigest()] += count
        return super().drawn(messages, max_tokens, sampling, count, first, json_object)


def job_text(knowledge, arguments, model, scored):
    settings = {"knowledge": knowledge, "count_knowledge": True, "entailer": "nli"}
    side = conform.Servers(model, scored)
    return conform.job_text("world", "migres", settings, side, arguments), settings


def shown_texts(prompt):
    """The passages in a prompt of the leaf module, without their numbers."""
    head = (shared.PROMPTS / "migres" / "leaf.txt").read_text(encoding="utf-8").split("{demonstrations}")[0]
    lines = prompt.removeprefix(head).rsplit("\nQuestion: ", 1)[0].split("\n")
    return [line.split(": ", 1)[1] for line in lines]


def check(knowledge, arguments):
    unique = f"{knowledge}-{time.time_ns():x}"
    server = simulated_runs.SimulatedServer(arguments.hopeval, arguments.work, {}, unique)
    proxy, scored = Proxy(server.url), scorers.Scorers()
    job, settings = job_text(knowledge, arguments, proxy, scored)
    place = simulated_runs.RunFolder(arguments.hopeval, arguments.work / knowledge, job, arguments.work / "cache",
                                     store=f"store-{unique}")
    place.run()
    log = {entry["body"]: entry for entry in server.entries()}
    told = [len(server.entries()) == len(log), all(entry["outcome"] == "answered" for entry in log.values()),
            set(log) == set(proxy.bodies)]
    run = inputs.Run(place.store.root / "runs" / place.id())
    costs = json.loads(place.tell("costs", place.id(), "--json"))

    # Incurred.
    incurred = next(row for row in costs["incurred"] if row["service"] == "llm")
    sums = {"computed": len(log), "unique": len(log),
            "prompt_tokens": sum(entry["tokens"]["prompt"] for entry in log.values()),
            "completion_tokens": sum(entry["tokens"]["completion"] for entry in log.values())}
    report = Report(knowledge)
    for name, value in sums.items():
        report.add(f"incurred {name}", value, incurred[name])

    # By step.
    reference_server = simulated_runs.SimulatedServer(arguments.hopeval, arguments.work, {}, f"reference-{unique}")
    asking = AskingServer(reference_server.url, simulated_runs.KEY, "chat", conform.SEED)
    tools = shared.Tools(conform.corpus_of(run, arguments), run.services, asking)
    tools.scorer = ranking.Scorer(shared.Server(scored.url, simulated_runs.KEY, "completions", conform.SEED))
    parameters = migres.DEFAULTS | settings
    for question in conform.questions_of(run):
        asking.asking = question.id
        migres.answer(question, tools, parameters)
    expected = collections.defaultdict(collections.Counter)
    for digest, count in asking.asked.items():
        if digest not in log:
            report.add(f"a body of the reference is not in the log: {step_of(prompt_of(proxy.bodies[digest]))}"
                       if digest in proxy.bodies else "a body of the reference is not in the log", 1, 0)
            continue
        step, tokens = step_of(prompt_of(proxy.bodies[digest])), log[digest]["tokens"]
        expected[step] += {"calls": count, "prompt_tokens": count * tokens["prompt"],
                           "completion_tokens": count * tokens["completion"]}
        if step == "leaf":
            texts = shown_texts(prompt_of(proxy.bodies[digest]))
            # Three bytes count as a token where there is no tokenizer.
            expected["shown"] += {"passages": count * len(texts),
                                  "tokens": count * sum(-(-len(text.encode()) // 3) for text in texts)}
    report.add("bodies of the log that the reference asks for", len(log), sum(digest in asking.asked for digest in log))
    traces = conform.traces_of(run)
    by_step = collections.defaultdict(collections.Counter)
    for trace in traces.values():
        for row in trace["steps"]:
            if row["service"] == "llm":
                by_step[row["step"]] += {key: row[key] for key in ("calls", "prompt_tokens", "completion_tokens")}
    means = {row["step"]: row for row in costs["configurations"][0]["calls"] if row["service"] == "llm"}
    for step in sorted(set(by_step) | set(expected) - {"shown"}):
        for key in ("calls", "prompt_tokens", "completion_tokens"):
            report.add(f"{step} {key}", expected[step][key], by_step[step][key])
            report.add(f"{step} {key} a question, costs", expected[step][key] / len(traces), means[step][key])
        report.table.append((step, expected[step]))

    # Tables 4 and 5.
    notes = collections.defaultdict(list)
    for trace in traces.values():
        for note in trace["notes"]:
            notes[note["name"]].append(note["text"])
    outcomes = run.outcomes("m").values()
    report.lines.append(f"API calls {sum(by_step[step]['calls'] for step in API) / len(traces):.2f}, iterations "
                        f"{sum(row['iterations'] for row in outcomes) / len(traces):.2f}, passages in a round "
                        f"{sum(map(int, notes['shown'])) / max(1, len(notes['shown'])):.2f}")
    report.add("shown passages", expected["shown"]["passages"], sum(map(int, notes["shown"])))
    report.add("tokens of shown passages", expected["shown"]["tokens"], sum(map(int, notes["knowledge_tokens"])))
    report.add("checks of the log", 3, sum(told))
    server.stop()
    reference_server.stop()
    scored.stop()
    return report.tell(len(traces))


class Report:
    def __init__(self, about):
        self.about, self.compared, self.differ, self.table, self.lines = about, 0, [], [], []

    def add(self, name, wanted, own):
        self.compared += 1
        if wanted != own:
            self.differ.append(f"{name}: by the log {wanted}, hopeval {own}")

    def tell(self, questions):
        print(f"{self.about}: {questions} questions, {self.compared - len(self.differ)} of {self.compared} equal")
        for step, sums in self.table:
            print(f"   {step:8} calls {sums['calls']:6}  prompt {sums['prompt_tokens']:8}  "
                  f"completion {sums['completion_tokens']:7}")
        print("\n".join("   " + line for line in self.lines + self.differ[:12]), flush=True)
        return not self.differ


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hopeval", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--passages", type=int, default=2000)
    parser.add_argument("--only", choices=KNOWLEDGE)
    arguments = parser.parse_args()
    arguments.work = arguments.work.resolve()
    arguments.work.mkdir(parents=True, exist_ok=True)
    chosen = [arguments.only] if arguments.only else KNOWLEDGE
    return int(not all([check(knowledge, arguments) for knowledge in chosen]))


if __name__ == "__main__":
    sys.exit(main())
