"""What `babbler.py` writes to the prompts of FSM, MIGRES and ALCE's readers: replies in their form, and broken ones."""

import json
import random
import re


def text(draw, prompt):
    """A reply to one of these prompts; none to any other."""
    if "JSON object and nothing else" in prompt or "Finish[{" in prompt or "was meant to be" in prompt[:60]:
        return of_fsm(draw, prompt)
    if prompt.rstrip().endswith(("Your response:", "New queries:", "Information:")):
        return of_migres(draw, prompt)
    if prompt.rstrip().endswith(("Copied parts:", "Summary:")):
        return draw.one("irrelevant", "Irrelevant.", "This is irrelevant here.", " irrelevant, I think",
                        draw.sentence(), draw.sentence(), draw.sentence() + "\n" + draw.sentence(), "",
                        "It is not relevant.")
    if "square brackets, such as [1]" in prompt:
        return of_alce(draw)
    return None


# FSM.

def of_fsm(draw, prompt):
    # A prompt to write a reply again has the form in its first line.
    asked = prompt.split("\n\n")[0] if prompt.startswith("The text below was meant to be") else prompt
    title = lambda: shown_title(draw, prompt)  # noqa: E731
    if draw.chance(0.7):
        return json.dumps(sane(draw, prompt, asked), ensure_ascii=False)
    if '"subquestion"' in asked:
        value = draw.one({"simple": True, "subquestion": None}, *[{"simple": False, "subquestion": question(draw)}] * 6,
                         {"simple": "false", "subquestion": question(draw)}, {"simple": False, "subquestion": ""},
                         {"simple": False}, {"subquestion": question(draw)}, {"Simple": True, "Subquestion": "none"})
    elif '"identical"' in asked:
        value = draw.one(*[{"identical": False}] * 5, {"identical": True}, {"identical": "False"}, {"identical": "no"},
                         {"identical": 0}, {"same": True}, {"identical": None})
    elif '"paragraph title"' in asked:
        value = {"question": question(draw), "paragraph title": title(), "answer": answer(draw)}
        if draw.chance(0.1):
            value["paragraph_title"] = value.pop("paragraph title")
        value |= support(draw, title) if '"evidences"' in asked else {}
    elif '"relation": "composition"' in asked:
        value = {"question": question(draw), "relation": draw.one("composition", "comparison", "Composition", "bridge",
                                                                  "comparison", "composition", None)}
    elif '"simple"' in asked:
        value = {"simple": draw.one(True, True, False, "true", None), "answer": answer(draw)}
    else:
        value = {"explain": draw.sentence(), "answer": answer(draw)}
        value |= support(draw, title) if '"evidences"' in asked else {}
        if "Finish[" in asked:
            inside = written(draw, value)
            return draw.one(f"Thought: {draw.sentence()}\nAction: Search[{title()}]\nObservation: {draw.sentence()}\n",
                            "") + draw.one(f"Action: Finish[{inside}]", f"Finish[{inside}]", f"Finish[{inside}] done.",
                                           f"Finish[{answer(draw)}]", f"Finish[{inside}", inside, draw.sentence())
    if draw.chance(0.05):
        value.pop(draw.random.choice(list(value)))
    return written(draw, value)


def sane(draw, prompt, asked):
    """A reply in its form, so that questions come to their end."""
    short = draw.one("yes", "no", "Paris", "12 May 1870", draw.title())
    title = draw.random.choice(titles_in(prompt) or [draw.title()])
    if '"subquestion"' in asked:
        simple = draw.chance(0.25)
        return {"simple": simple, "subquestion": None if simple else question(draw)}
    if '"identical"' in asked:
        return {"identical": draw.chance(0.1)}
    value = {"answer": short}
    if '"paragraph title"' in asked:
        value = {"question": "Who?", "paragraph title": title, "answer": short}
    elif '"relation": "composition"' in asked:
        return {"question": question(draw), "relation": draw.one("composition", "comparison")}
    elif '"simple"' in asked:
        return {"simple": draw.chance(0.8), "answer": short}
    if '"evidences"' in asked:
        value |= {"supporting-facts": [[title, 0], [title, 1]][:draw.random.randrange(3)],
                  "evidences": [[title, "is", short]]}
    return value


def written(draw, value):
    """The object as it should be, for the most part."""
    text = json.dumps(value, ensure_ascii=draw.chance(0.3))
    if draw.chance(0.6):
        return text
    single = str(value) if "'" not in text and '\\"' not in text else text
    return draw.one(text, f" {text}\n", f"```json\n{text}\n```", f"Here it is: {text}", f"{text} I hope that it helps.",
                    single, text[:-1], "I do not know.", f"[{text}]", text.replace("}", ",}"), f"{text}\n{text}", "",
                    "{}", text.replace(": true", ": True").replace(": false", ": False"), draw.sentence())


def question(draw):
    return draw.one(f"Who is {draw.title()}?", draw.sentence(), f"When was {draw.title()} born?", "Where?")


def answer(draw):
    return draw.one(draw.short(), draw.title(), draw.title(), "yes", "one two three", "one two three four five six",
                    draw.sentence(), 12, True, None, ["a", "b"], " the Tower ", "Unknown", {"x": 1})


def titles_in(prompt):
    return re.findall(r"(?m)^Title: (.+)$", prompt)


def shown_title(draw, prompt):
    """A title of the prompt for the most part."""
    found = titles_in(prompt)
    own = draw.random.choice(found) if found else draw.title()
    return draw.one(own, own, own, own, draw.title(), own.lower(), own + " ", own.replace(" ", "_"), 7, None)


def support(draw, title):
    index = lambda: draw.one(0, 0, 1, 2, 40, "1", -1, 1.0, None, "first", True)  # noqa: E731
    facts = [draw.one([title(), index()], [title(), index()], [title(), index()], [title()], title(), [title(), 0, 1])
             for _ in range(draw.random.randrange(0, 4))]
    triple = lambda: draw.one([draw.title(), "is", draw.short()], [draw.title(), "is", draw.short()],  # noqa: E731
                              [draw.title(), "has", 3], [draw.title(), "is"], "one two three", [])
    triples = [triple() for _ in range(draw.random.randrange(0, 3))]
    key = draw.one("supporting-facts", "supporting-facts", "supporting-facts", "supporting_facts", "supportin_facts")
    value = {key: facts, "evidences": triples}
    return draw.one(value, value, value, value, {key: facts}, {key: None, "evidences": {}}, {"evidences": triples}, {})


# MIGRES.

def of_migres(draw, prompt):
    if prompt.rstrip().endswith("New queries:"):
        lines = [draw.one(question(draw), question(draw), f"1. {question(draw)}", f"- {question(draw)}", "", "Who?",
                          f"  {question(draw)} ") for _ in range(draw.random.randrange(0, 6))]
        return "\n".join(lines)
    if prompt.rstrip().endswith("\nInformation:"):
        return draw.one(draw.sentence(), draw.sentence(), "I am sorry.", "In 2022 it was.", "", " ")
    if draw.chance(0.6):
        return json.dumps(sane_module(draw, prompt), ensure_ascii=False)
    if '"useful_information"' in prompt:
        rows = [draw.one({"info": draw.sentence(), "support_passages": cited(draw)},
                         {"info": draw.sentence(), "support_passages": cited(draw)},
                         {"info": "The same.", "support_passages": cited(draw)},
                         {"info": draw.sentence()}, {"info": "", "support_passages": [0]}, draw.sentence(),
                         {"info": 5, "support_passages": [1]}) for _ in range(draw.random.randrange(0, 5))]
        return written(draw, {"useful_information": draw.one(rows, rows, rows, rows, None, "none", {})})
    value = {"answer": draw.one({"text": short(draw), "confidence": draw.one(1, 5, "5", None, 3.5)},
                                {"text": short(draw), "confidence": 4}, {"text": short(draw)}, short(draw)),
             "explanation": draw.one(draw.sentence(), draw.sentence(), "", None, 3)}
    if '"missing_information"' in prompt:
        if draw.chance(0.6):
            value["answer"] = draw.one({"text": "unanswerable", "confidence": 1},
                                       {"text": "Unanswerable.", "confidence": 1}, "unanswerable")
        value["missing_information"] = draw.one(draw.sentence(), draw.sentence(), "", "None", None, "The date.", ["a"])
    if '"support_passages"' in prompt:
        value["support_passages"] = cited(draw)
    if draw.chance(0.05):
        value.pop(draw.random.choice(list(value)))
    return written(draw, value)


def sane_module(draw, prompt):
    """A reply in its form, so that questions come to their end."""
    if '"useful_information"' in prompt:
        # Other draws of the prompt say the same for the most part, or votes were ties.
        texts = random.Random(prompt).sample(draw.from_.texts, 3)
        said = [re.split(r"(?<=[.!?]) +", text)[-1] for text in texts]
        rows = [{"info": draw.one(*said, *said, draw.sentence()),
                 "support_passages": draw.one([0], [1], [0, 1], [3, 2])} for _ in range(draw.random.randrange(4))]
        return {"useful_information": rows}
    known = draw.one(True, False, False) if '"missing_information"' in prompt else True
    value = {"answer": {"text": draw.title() if known else "unanswerable", "confidence": draw.one(1, 4, 5)},
             "explanation": draw.sentence()}
    if '"missing_information"' in prompt:
        value["missing_information"] = "" if known else draw.sentence()
    return value


def cited(draw):
    return draw.one([0], [0], [1], [0, 1], [0, 0], [2, 7], [], [-1], ["0"], 0, "1", None, ["Passage 1"], [1.0], [True])


def short(draw):
    return draw.one(draw.short(), draw.title(), "yes", "no", 12, None, True, ["a"], " x ")


# ALCE.

def of_alce(draw):
    parts = []
    for _ in range(draw.random.randrange(0, 4)):
        marks = "".join(draw.one("", "[1]", "[2]", "[1][3]", " [4]", "[9]", "[0]", "[1, 2]", "[a]") for _ in range(2))
        said = draw.one(draw.sentence(), draw.short(), draw.title())
        parts.append(draw.one(said.rstrip(".") + marks + ".", said + marks, said.rstrip(".") + " " + marks + "."))
    return draw.one("", " ", "\n") + draw.one(" ", " ", "\n").join(parts)
