"""Iter-RetGen (Shao et al., 2023, section 3.2), and as a baseline of EfficientRAG (tables 17 to 19).

Each iteration retrieves with the question and the last generation, shows these passages alone, and generates again.
The answer is that of the last generation.
"""

import shared

DEFAULTS = {
    "retriever": "bm25", "k": 5, "iterations": 2, "form": "text", "query_part": "generation",
    "query_order": "question+generation", "chunk": "title+text", "title_separator": ": ", "context_tokens": None,
    "system": None, "prompt": None, "max_tokens": 256, "temperature": 0, "attempts": 3, "answer_json": "object",
}
CODE = {
    "k": 10, "iterations": 3, "form": "json", "query_part": "thought", "answer_json": "braces", "temperature": "server",
}


def text_answer(text):
    """What stands behind the last `answer is`, else all of it; the paper does not say where an answer ends."""
    _, marker, behind = text.rpartition("answer is")
    short = (behind.removeprefix(":") if marker else text).strip()
    return short.removesuffix(".")


def parts_of(value):
    thought, short = shared.short_text(value.get("thought")), shared.short_text(value.get("answer"))
    return None if thought is None or short is None else (thought, short)


def generation(tools, parameters, prompt):
    """The text for the next query, and the answer."""
    request = {"user": prompt, "system": parameters["system"], "max_tokens": parameters["max_tokens"]}
    if parameters["form"] == "text":
        text = tools.server.write(temperature=parameters["temperature"], **request).strip()
        short = text_answer(text)
        return {"generation": text, "thought": text, "answer": short}[parameters["query_part"]], short
    found = shared.drawn_object(tools, parameters, parts_of, **request)
    if found is None:
        return None
    thought, short = found
    return {"generation": f"{thought} {short}", "thought": thought, "answer": short}[parameters["query_part"]], short


def answer(question, tools, parameters):
    reader = shared.template(parameters, "prompt", f"iter_retgen/{parameters['form']}.txt")
    paths, query = [], question.text
    for _ in range(parameters["iterations"]):
        paths.append(tools.search(parameters["retriever"], query, parameters["k"]))
        knowledge = shared.passage_lines(tools.corpus, paths[-1], parameters)
        prompt = shared.filled(reader, knowledge=knowledge, question=question.text)
        made = generation(tools, parameters, prompt)
        if made is None:
            return shared.Outcome(status="parse_failure")
        written, short = made
        pair = [question.text, written]
        query = " ".join(pair if parameters["query_order"] == "question+generation" else pair[::-1])
    return shared.Outcome(short, shared.union(paths), paths)
