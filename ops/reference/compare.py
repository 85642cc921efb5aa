#!/usr/bin/env python3
"""Holds a run of hopeval beside what `promptrank.py` or `efficientrag.py` wrote of it; exits with 1 if they differ.

Of PromptRank the ranked passages and all paths are compared, with their scores; of EfficientRAG each iteration's query, chunks
with the retriever's scores, tags with their logits, information and next query, which hopeval's transcripts have, and the
ranked passages.

Numbers may differ by the tolerance. Rankings must have the same members in the same order. What has the same score to the last
bit stands in the order of the passages' numbers, of paths in that of their first passages, then their second ones, and so on,
on both sides. Only where the reference's scores are within the tolerance of each other, but not equal, may the order be another one:
such near ties are counted, and the last of a retriever's k hits may then be another passage. After a near tie that gives the filter
its information in another order, an iteration's next query need not be the reference's, and what follows from it is not compared.

    compare.py --run STORE/runs/RUN --configuration NAME --reference FILE [--transcripts FILE] [--tolerance 1e-4]

`--transcripts`: JSON Lines as `hopeval show RUN --question ID --configuration NAME --json` prints them, one for each question.
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass, field

import inputs


def distance(a, b):
    """Between two numbers; infinite where one is none, or only one is finite."""
    if a == b:
        return 0.0
    return abs(a - b) if math.isfinite(a - b) else math.inf


@dataclass
class Comparison:
    """What was compared, and what was found."""

    tolerance: float
    questions: int = 0
    differ: int = 0
    """Questions with a problem."""
    numbers: int = 0
    largest: float = 0.0
    """Difference of a number."""
    equal: int = 0
    """Neighbours of a ranking with the same score to the last bit, in the order that is said of them."""
    near: int = 0
    """Rankings in another order than the reference's, because of scores within the tolerance of each other."""
    lines: list = field(default_factory=list)
    """Of problems."""

    def question(self, id, problems):
        self.questions += 1
        self.differ += bool(problems)
        self.lines += [f"{id}: {problem}" for problem in problems]

    def same_numbers(self, ours, theirs):
        if len(ours) != len(theirs):
            return [f"{len(ours)} numbers, the reference has {len(theirs)}"]
        off = max(map(distance, ours, theirs), default=0.0)
        self.numbers += len(ours)
        self.largest = max(self.largest, off)
        return [f"numbers differ by up to {off:.2e}"] if off > self.tolerance else []

    def ranking(self, found, wanted, cut=False):
        """What is wrong with `found`, pairs of key and score, beside `wanted`; `cut` ones end where more would follow."""
        found_by, wanted_by = dict(found), dict(wanted)
        extra, missing = sorted(found_by.keys() - wanted_by.keys()), sorted(wanted_by.keys() - found_by.keys())
        end = min(wanted_by.values(), default=0.0)
        # Within the tolerance of the last one, another may have been taken in its place.
        last = [found_by[key] for key in extra] + [wanted_by[key] for key in missing]
        at_the_end = cut and len(found) == len(wanted) and all(abs(score - end) <= self.tolerance for score in last)
        problems = []
        if (extra or missing) and not at_the_end:
            problems.append(f"has {extra[:5]} that the reference lacks, lacks {missing[:5]}")
        both = [key for key, _ in found if key in wanted_by]
        problems += self.same_numbers([found_by[key] for key in both], [wanted_by[key] for key in both])
        for (first, score), (second, next_score) in zip(found, found[1:]):
            if score == next_score:
                self.equal += 1
                if first > second:
                    problems.append(f"ranks {first} before {second}, which is as good")
        for first, second in zip(both, both[1:]):
            if wanted_by[first] < wanted_by[second] - self.tolerance:
                problems.append(f"ranks {first} before {second}")
        self.near += [key for key, _ in found] != [key for key, _ in wanted]
        return problems

    def promptrank(self, outcome, wanted):
        ranked = list(zip(outcome["ranked"], outcome["scores"]))
        scores = dict(wanted["ranked"])
        # Passages without a score stand last, in the retriever's order.
        scored = [pair for pair in ranked if pair[0] in scores or pair[0] not in wanted["pool"]]
        paths = [(tuple(path["passages"]), path["score"]) for path in outcome["paths"]]
        documents = self.ranking(scored, [tuple(pair) for pair in wanted["ranked"]])
        whole = self.ranking(paths, [(tuple(path), score) for path, score in wanted["paths"]])
        return [f"documents: {p}" for p in documents] + [f"paths: {p}" for p in whole]

    def iteration(self, ours, theirs):
        """What is wrong with an iteration, and whether the next one follows from the same."""
        problems = []
        if ours["query"] != theirs["query"]:
            problems.append(f"query is {ours['query']!r}, the reference's {theirs['query']!r}")
        hits = [tuple(hit) for hit in theirs["hits"]]
        problems += [f"chunks: {problem}" for problem in self.ranking(ours["hits"], hits, cut=True)]
        own, others = ({chunk["passage"]: chunk for chunk in side["chunks"]} for side in (ours, theirs))
        if len(own) != len(others):
            problems.append(f"{len(own)} chunks, the reference has {len(others)}")
        for passage in own.keys() & others.keys():
            mine, other = own[passage], others[passage]
            for name in ("tag", "information"):
                if mine[name] != other[name]:
                    problems.append(f"{name} of {passage} is {mine[name]!r}, the reference's {other[name]!r}")
            problems += self.same_numbers(mine["logits"], other["logits"])
        told = [[chunk["information"] for chunk in side["chunks"] if chunk["tag"] == 0] for side in (ours, theirs)]
        alike = told[0] == told[1]
        if alike and ours["next"] != theirs["next"]:
            problems.append(f"next query is {ours['next']!r}, the reference's {theirs['next']!r}")
        return problems, alike

    def efficientrag(self, outcome, transcript, wanted):
        found, problems = iterations(transcript), []
        for number, (ours, theirs) in enumerate(zip(found, wanted["iterations"]), 1):
            wrong, alike = self.iteration(ours, theirs)
            problems += [f"iteration {number}: {problem}" for problem in wrong]
            if not alike and not wrong:
                return []
        if len(found) != len(wanted["iterations"]):
            problems.append(f"{len(found)} iterations, the reference has {len(wanted['iterations'])}")
        chunks = lambda side: [[hit[0] for hit in iteration["hits"]] for iteration in side]
        if chunks(found) == chunks(wanted["iterations"]) and outcome["ranked"] != wanted["ranked"]:
            problems.append(f"ranked {outcome['ranked']}, the reference {wanted['ranked']}")
        return problems


def iterations(transcript):
    """What a transcript says of each iteration of EfficientRAG, as the reference writes it."""
    found = []
    for step in transcript["rounds"]:
        asked = [request["ask"] for request in step["requests"]]
        answers = [response["result"].get("Ok") for response in step["responses"]]
        if "Retrieve" in asked[0]:
            hits = {hit["passage"]: hit["score"] for hit in answers[0]["Retrieve"]}
            found.append({"query": asked[0]["Retrieve"]["query"], "hits": [], "chunks": [], "next": None})
        elif "Label" in asked[0]:
            for ask, answer in zip(asked, answers):
                labels = answer["Label"]
                logits = labels["tag_logits"]
                tag = max(range(len(logits)), key=lambda at: (logits[at], -at))
                passage = ask["Label"]["chunk"]["Passage"]["passage"]
                chunk = {"passage": passage, "tag": tag, "logits": logits, "information": labels["information"]}
                found[-1]["chunks"].append(chunk)
                found[-1]["hits"].append((passage, hits[passage]))
        elif "Filter" in asked[0]:
            found[-1]["next"] = answers[0]["Filter"]
    return found


def compare(run, configuration, reference, transcripts=None, tolerance=1e-4):
    """The comparison of a run's configuration with the lines of the file `reference`."""
    outcomes = run.outcomes(configuration)
    method = run.configurations[configuration]["method"]
    by_question = {}
    if method == "efficientrag":
        if not transcripts:
            raise SystemExit("efficientrag is compared by its transcripts: --transcripts FILE")
        with open(transcripts, encoding="utf-8") as lines:
            by_question = {entry["question"]["id"]: entry for entry in map(json.loads, lines)}
    comparison = Comparison(tolerance)
    with open(reference, encoding="utf-8") as lines:
        for wanted in map(json.loads, lines):
            id = wanted["question"]
            outcome = outcomes[id]
            if outcome["status"] != "ok":
                problems = [f"the outcome is {outcome['status']}: {outcome['message']}"]
            elif method == "promptrank":
                problems = comparison.promptrank(outcome, wanted)
            else:
                problems = comparison.efficientrag(outcome, by_question[id], wanted)
            comparison.question(id, problems)
    return comparison


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", required=True)
    parser.add_argument("--configuration", required=True)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--transcripts")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    arguments = parser.parse_args()
    run = inputs.Run(arguments.run)
    found = compare(run, arguments.configuration, arguments.reference, arguments.transcripts, arguments.tolerance)
    print("\n".join(found.lines))
    print(f"{found.questions} questions, {found.differ} differ; {found.numbers} numbers, the largest difference is {found.largest:.1e}")
    return 1 if found.differ or not found.questions else 0


if __name__ == "__main__":
    sys.exit(main())
