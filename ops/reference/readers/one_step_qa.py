"""A reader over the passages of one retrieval: OneR QA of IRCoT (section 4.1), Direct-R@k.

Retrieve with the question, show the passages behind the demonstrations, answer as `no_retrieval.py` does. `as =
"code"` has the rules of IRCoT's code about words and passages.
"""

import shared
import title_scope

DEFAULTS = {
    "retriever": "bm25", "k": 10, "style": "cot", "demonstrations": "hopeval:multihop", "demonstration_ids": None,
    "distractors": 2, "instruction": "", "title_label": "Wikipedia Title: ", "title_retriever": None, "titles": 3,
    "title_prompt": None, "query_words": "all", "shown_words": None, "longest_passage": None, "near_duplicates": None,
    "context_tokens": None, "max_tokens": 300, "packing": "whole",
}
CODE = {
    "query_words": "without_question_words", "shown_words": 350, "longest_passage": 600, "near_duplicates": 90,
    "packing": "each_and_one_more",
}


def answer(question, tools, parameters):
    collected = shared.Collection(tools.corpus, parameters)
    if question.context:
        collected.pin(question.context)
    within = title_scope.pages(question, tools, parameters)
    query = shared.query_text(question.text, parameters["query_words"])
    if shared.has_word(query):
        collected.add(tools.search(parameters["retriever"], query, parameters["k"], within))
    prompts = shared.FewShot(parameters, parameters["style"])
    prompt = prompts.prompt(question.text, collected.texts, pinned=1 if question.context else 0)
    text = tools.server.write(prompt, parameters["max_tokens"], stop=["\n"])
    return shared.Outcome(answer=shared.read_answer(text), ranked=collected.ranked())
