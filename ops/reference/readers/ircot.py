"""IRCoT (Trivedi et al., 2023, section 3): retrieval with each sentence of a chain of thought, then a reader.

Retrieve with the question; then, in turns, the first sentence that the model writes over the passages so far, and a
retrieval with it. The chain ends with a sentence that has `answer is:`, with an empty sentence, or after `max_steps`.
A reader answers from all passages, without the chain; with `read = "none"` the chain's own answer is taken (appendix
F).
"""

import re

import shared
import title_scope

DEFAULTS = {
    "retriever": "bm25", "k": 4, "read": "cot", "max_steps": 8, "max_passages": 15, "query": "last_sentence",
    "end": "words",
    "demonstrations": "hopeval:multihop", "demonstration_ids": None, "distractors": 2, "instruction": "",
    "reading_instruction": "", "title_label": "Wikipedia Title: ", "title_retriever": None, "titles": 3,
    "title_prompt": None, "query_words": "all", "shown_words": None, "longest_passage": None, "near_duplicates": None,
    "context_tokens": None, "max_tokens": 300, "packing": "whole",
}
CODE = {
    "max_steps": 10, "query": "last_fact", "end": "pattern", "query_words": "without_question_words",
    "shown_words": 350, "longest_passage": 600, "near_duplicates": 90, "packing": "each_and_one_more",
}
SUM = re.compile(r"\d+(\.\d+)? [+-] \d+(\.\d+)? = \d+(\.\d+)?")


def concludes(sentence):
    """Whether a sentence only concludes from others (IRCoT's code)."""
    openings = ("thus", "so ", "so,", "that is,", "therefore", "hence")
    return sentence.lower().startswith(openings) or bool(SUM.search(sentence))


def ends(sentence, parameters):
    """Whether the chain ends. Section 3.1: a sentence with the words `answer is:` (`end = "words"`). The authors' code:
    the pattern that finds the answer, which wants a space behind (`end = "pattern"`)."""
    if parameters["end"] == "words":
        return "answer is:" in sentence
    return shared.stated_answer(" " + sentence) is not None


def next_query(question, chain, parameters):
    if parameters["query"] == "last_sentence":
        return chain[-1]
    facts = [sentence for sentence in chain if not concludes(sentence)]
    return facts[-1] if facts else question.text


def answer(question, tools, parameters):
    collected = shared.Collection(tools.corpus, parameters, parameters["max_passages"])
    if question.context:
        collected.pin(question.context)
    within = title_scope.pages(question, tools, parameters)
    pinned = 1 if question.context else 0
    reason = shared.FewShot(parameters, "cot")
    chain, text = [], question.text
    while True:
        query = shared.query_text(text, parameters["query_words"])
        if shared.has_word(query) and not collected.full():
            collected.add(tools.search(parameters["retriever"], query, parameters["k"], within))
        prompt = reason.prompt(question.text, collected.texts, chain, pinned)
        written = tools.server.write(prompt, parameters["max_tokens"], stop=["\n"])
        sentence = (shared.sentences(written) or [""])[0]
        # The authors' code keeps an empty sentence, too.
        chain += [sentence] if sentence or parameters["end"] == "pattern" else []
        if not sentence or ends(sentence, parameters) or len(chain) == parameters["max_steps"]:
            break
        text = next_query(question, chain, parameters)
    if parameters["read"] == "none":
        return shared.Outcome(shared.read_answer(" ".join(chain)), collected.ranked())
    reader = shared.FewShot(parameters, parameters["read"], instruction=parameters["reading_instruction"])
    prompt = reader.prompt(question.text, collected.texts, pinned=pinned)
    text = tools.server.write(prompt, parameters["max_tokens"], stop=["\n"])
    return shared.Outcome(shared.read_answer(text), collected.ranked())
