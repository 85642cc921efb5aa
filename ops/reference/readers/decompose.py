"""Decompose-R (EfficientRAG, section 4 and table 11), and least-to-most prompting (Zhou et al., 2023, section 2).

The model lists single-hop questions. Parallel: each is retrieved with, and a reader answers over all passages.
Sequential: they are retrieved with and answered one after the other; `#1` and `<1>` stand for the first answer, and
so on; the question itself is answered last, over all passages and behind all answers.
"""

import json
import re

import shared

DEFAULTS = {
    "retriever": "bm25", "mode": "parallel", "k": 10, "most_questions": 10, "chunk": "title+text",
    "title_separator": ": ", "context_tokens": None, "system": None, "decomposition_prompt": None, "prompt": None,
    "max_tokens": 256, "temperature": 0, "attempts": 3, "answer_json": "object",
}
CODE = {"system": "You are a helpful assistant.", "temperature": "server", "answer_json": "braces"}


def questions_of(value):
    """A list with at least one question and nothing but texts. Blank ones are no questions."""
    listed = value.get("decomposed_questions")
    if not isinstance(listed, list) or not all(isinstance(question, str) for question in listed):
        return None
    return [question.strip() for question in listed if question.strip()] or None


def answer_of(value):
    return shared.short_text(value.get("answer"))


def resolved(question, answers):
    """References to answers that are there are replaced by them."""
    def answer(match):
        number = int(match.group(1) or match.group(2))
        return answers[number - 1] if 1 <= number <= len(answers) else match.group()
    return re.sub(r"#(\d+)|<(\d+)>", answer, question)


def answer(question, tools, parameters):
    sequential = parameters["mode"] == "sequential"
    listing = shared.template(parameters, "decomposition_prompt",
                              "decompose/sequential.txt" if sequential else "decompose/parallel.txt")
    listed = shared.drawn_object(tools, parameters, questions_of, user=shared.filled(listing, question=question.text),
                                 system=parameters["system"], max_tokens=parameters["max_tokens"])
    if listed is None:
        return shared.Outcome(status="parse_failure")
    listed = listed[:parameters["most_questions"]]
    if sequential:
        return in_order(question, listed, tools, parameters)
    paths = [tools.search(parameters["retriever"], single, parameters["k"]) for single in listed]
    ranked = shared.union(paths)
    reader = shared.template(parameters, "prompt", "efficientrag/reader.txt")
    final = read(tools, parameters, reader, ranked, question.text)
    if final is None:
        return shared.Outcome(status="parse_failure")
    return shared.Outcome(final, ranked, paths)


def read(tools, parameters, reader, passages, question, **more):
    knowledge = shared.passage_lines(tools.corpus, passages, parameters)
    prompt = shared.filled(reader, knowledge=knowledge, question=question, **more)
    return shared.drawn_object(tools, parameters, answer_of, user=prompt, system=parameters["system"],
                               max_tokens=parameters["max_tokens"])


def in_order(question, listed, tools, parameters):
    reader = shared.template(parameters, "prompt", "decompose/step.txt")
    answers, asked, paths = [], "", []
    for single in listed:
        single = resolved(single, answers)
        paths.append(tools.search(parameters["retriever"], single, parameters["k"]))
        found = read(tools, parameters, reader, paths[-1], single, answered=asked)
        if found is None:
            return shared.Outcome(status="parse_failure")
        answers.append(found)
        shown = json.dumps({"answer": found}, ensure_ascii=False)
        asked += f"Question: {single}\nAnswer: {shown}\n"
    ranked = shared.union(paths)
    final = read(tools, parameters, reader, ranked, question.text, answered=asked)
    if final is None:
        return shared.Outcome(status="parse_failure")
    return shared.Outcome(final, ranked, paths)
