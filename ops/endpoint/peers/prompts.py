"""Prompts of the peers: the texts that the job of `throughput.py` sends, from a generated world's files."""

import json
import pathlib


def read_prompts(folder, calls, words):
    """`calls` different prompts: a few-shot text of its own number, four passages, a question."""
    folder = pathlib.Path(folder)
    lines = lambda name: [json.loads(line) for line in (folder / name).read_text().splitlines()]  # noqa: E731
    passages, questions = lines("corpus.jsonl"), lines("questions.jsonl")
    found = []
    for call in range(calls):
        number, place = divmod(call, len(questions))
        four = [passages[(4 * place + step) % len(passages)] for step in range(4)]
        knowledge = "\n".join(f"{passage['title']}: {passage['text']}" for passage in four)
        found.append(f"You are reader number {number}. {words}\n{knowledge}\nQuestion: {questions[place]['text']}")
    return found
