"""Direct and chain-of-thought answers without passages: NoR QA of IRCoT (section 4.1 and appendix E).

One prompt: demonstrations, the text that belongs to the question if there is one (IIRC), the question. The answer
stands behind the last `answer is`, else it is the whole text.
"""

import shared

DEFAULTS = {
    "style": "cot", "demonstrations": "hopeval:multihop", "demonstration_ids": None, "instruction": "",
    "title_label": "Wikipedia Title: ", "context_tokens": None, "max_tokens": 300,
}


def answer(question, tools, parameters):
    prompts = shared.FewShot(parameters, parameters["style"], passages=False)
    own = [(question.context["title"], question.context["text"])] if question.context else []
    prompt = prompts.prompt(question.text, own, pinned=len(own))
    text = tools.server.write(prompt, parameters["max_tokens"], stop=["\n"])
    return shared.Outcome(answer=shared.read_answer(text))
