"""FSM's baselines (arXiv 2407.02964, appendix B.3): one prompt over the paragraphs that are given with the question."""

import fsm
import replies
import shared

DEFAULTS = {
    "prompt": None, "setting": 1, "final_words": 10, "titles": "exact", "sentence_numbers": True, "text": None,
    "reading": "tolerant", "unreadable": "fail", "temperature": 0.8, "top_p": 0.8, "repetition_penalty": 1.1,
    "max_tokens": 500, "json": False, "draw": 0,
}
CODE = {"reading": "strict", "unreadable": "answer"}


def answer(question, tools, parameters):
    passages = list(dict.fromkeys(question.candidates))
    name = parameters["prompt"] + ("_support" if parameters["setting"] == 2 else "")
    text = parameters["text"] or shared.template({}, "", f"fsm/{name}.txt")
    prompt = shared.filled(text, paragraphs=fsm.paragraphs_text(tools.corpus, passages, parameters),
                           question=question.text, words=str(parameters["final_words"]))
    text = tools.server.drawn([("user", prompt)], parameters["max_tokens"], fsm.sampling(parameters),
                              first=parameters["draw"], json_object=parameters["json"])[0]
    form = replies.Answer(parameters["setting"] == 2)
    try:
        made, repairs = form.read(finished(text) if parameters["prompt"] == "react" else text, parameters["reading"])
    except replies.Unreadable:
        if parameters["unreadable"] == "fail":
            return shared.Outcome(status="parse_failure", format=False)
        # The text itself, as it is (figure 4).
        return shared.Outcome(text, format=False)
    made_of = shared.Outcome(made["answer"], format=not repairs, repairs=repairs)
    if parameters["setting"] == 2:
        made_of.supporting, made_of.named = fsm.resolved(made["support"], tools.corpus, passages, parameters)
        made_of.evidences = made["evidences"]
    return made_of


def finished(text):
    """What the last `Finish[...]` of a text of ReAct holds, with all that stands behind it."""
    _, marker, behind = text.rpartition("Finish[")
    return behind.strip().removesuffix("]") if marker else text
