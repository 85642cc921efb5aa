#!/usr/bin/env python3
"""Holds a run of hopeval beside what `promptrank.py` or `efficientrag.py` wrote of it; exits with 1 if they differ.

Rankings must have the same passages, with scores within the tolerance, in the same order but where the reference's scores are
within the tolerance of each other. Of PromptRank also the paths are compared; of EfficientRAG each iteration's query, chunks,
tags, logits, information and next query, which hopeval's transcripts have.

    compare.py --run STORE/runs/RUN --configuration NAME --reference FILE [--transcripts FILE] [--tolerance 1e-4]

`--transcripts`: JSON Lines as `hopeval show RUN --question ID --configuration NAME --json` prints them, one for each question.
"""

import argparse
import json
import sys

import inputs


def rankings(found, wanted, tolerance):
    """What is wrong with a ranking `found`, pairs of key and score, beside `wanted`; and the largest difference of a score."""
    found_by, wanted_by = dict(found), dict(wanted)
    problems = []
    if found_by.keys() != wanted_by.keys():
        extra, missing = sorted(found_by.keys() - wanted_by.keys()), sorted(wanted_by.keys() - found_by.keys())
        problems.append(f"has {extra[:5]} that the reference lacks, lacks {missing[:5]}")
    both = [key for key, _ in found if key in wanted_by]
    off = max((abs(found_by[key] - wanted_by[key]) for key in both), default=0.0)
    if off > tolerance:
        problems.append(f"scores differ by up to {off:.2e}")
    for first, second in zip(both, both[1:]):
        if wanted_by[first] < wanted_by[second] - tolerance:
            problems.append(f"ranks {first} before {second}")
    return problems, off


def promptrank(outcome, wanted, tolerance):
    ranked = list(zip(outcome["ranked"], outcome["scores"]))
    # Passages without a score stand last, in the retriever's order.
    scored = [pair for pair in ranked if pair[0] in dict(wanted["ranked"]) or pair[0] not in wanted["pool"]]
    paths = [(tuple(path["passages"]), path["score"]) for path in outcome["paths"]]
    documents, off = rankings(scored, [tuple(pair) for pair in wanted["ranked"]], tolerance)
    whole, off_paths = rankings(paths, [(tuple(path), score) for path, score in wanted["paths"]], tolerance)
    return [f"documents: {p}" for p in documents] + [f"paths: {p}" for p in whole], max(off, off_paths)


def iterations(transcript):
    """What a transcript says of each iteration of EfficientRAG, as the reference writes it."""
    found = []
    for step in transcript["rounds"]:
        asked = [request["ask"] for request in step["requests"]]
        answers = [response["result"].get("Ok") for response in step["responses"]]
        if "Retrieve" in asked[0]:
            found.append({"query": asked[0]["Retrieve"]["query"], "chunks": [], "next": None})
        elif "Label" in asked[0]:
            for ask, answer in zip(asked, answers):
                labels = answer["Label"]
                logits = labels["tag_logits"]
                tag = max(range(len(logits)), key=lambda at: (logits[at], -at))
                passage = ask["Label"]["chunk"]["Passage"]["passage"]
                chunk = {"passage": passage, "tag": tag, "logits": logits, "information": labels["information"]}
                found[-1]["chunks"].append(chunk)
        elif "Filter" in asked[0]:
            found[-1]["next"] = answers[0]["Filter"]
    return found


def efficientrag(outcome, transcript, wanted, tolerance):
    problems, off = [], 0.0
    if outcome["ranked"] != wanted["ranked"]:
        problems.append(f"ranked {outcome['ranked']}, the reference {wanted['ranked']}")
    found = iterations(transcript)
    if len(found) != len(wanted["iterations"]):
        problems.append(f"{len(found)} iterations, the reference has {len(wanted['iterations'])}")
    for number, (ours, theirs) in enumerate(zip(found, wanted["iterations"]), 1):
        for name in ("query", "next"):
            if ours[name] != theirs[name]:
                problems.append(f"iteration {number}: {name} is {ours[name]!r}, the reference's {theirs[name]!r}")
        for name in ("passage", "tag", "information"):
            mine, others = ([chunk[name] for chunk in side["chunks"]] for side in (ours, theirs))
            if mine != others:
                problems.append(f"iteration {number}: {name} is {mine}, the reference's {others}")
        for mine, others in zip(ours["chunks"], theirs["chunks"]):
            off = max([off, *(abs(a - b) for a, b in zip(mine["logits"], others["logits"]))])
    if off > tolerance:
        problems.append(f"logits differ by up to {off:.2e}")
    return problems, off


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", required=True)
    parser.add_argument("--configuration", required=True)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--transcripts")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    arguments = parser.parse_args()
    run = inputs.Run(arguments.run)
    outcomes = run.outcomes(arguments.configuration)
    method = run.configurations[arguments.configuration]["method"]
    transcripts = {}
    if method == "efficientrag":
        if not arguments.transcripts:
            raise SystemExit("efficientrag is compared by its transcripts: --transcripts FILE")
        with open(arguments.transcripts, encoding="utf-8") as lines:
            transcripts = {entry["question"]["id"]: entry for entry in map(json.loads, lines)}
    compared, wrong, worst = 0, 0, 0.0
    with open(arguments.reference, encoding="utf-8") as lines:
        for wanted in map(json.loads, lines):
            id = wanted["question"]
            if outcomes[id]["status"] != "ok":
                problems, off = [f"the outcome is {outcomes[id]['status']}: {outcomes[id]['message']}"], 0.0
            elif method == "promptrank":
                problems, off = promptrank(outcomes[id], wanted, arguments.tolerance)
            else:
                problems, off = efficientrag(outcomes[id], transcripts[id], wanted, arguments.tolerance)
            compared, wrong, worst = compared + 1, wrong + bool(problems), max(worst, off)
            for problem in problems:
                print(f"{id}: {problem}")
    print(f"{compared} questions, {wrong} differ; the largest difference of a number is {worst:.1e}")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
