"""What a reply of FSM's steps must be, and how far one that is not is read all the same.

`tolerant`: the last object with the step's key is read with its repairs, each counted; so is another spelling of a key,
and a value of another type where it can be made out what was meant. `strict`: what takes any repair is broken. Which
spellings and types, and the words about what is wrong, are hopeval's; no source has them.
"""

import collections
import json

import loose_json

KEYS = {
    "simple": ("simple", "is_simple", "Simple"),
    "subquestion": ("subquestion", "sub_question", "sub-question", "Subquestion", "subQuestion"),
    "identical": ("identical", "is_identical", "Identical"),
    "question": ("question", "Question"),
    "relation": ("relation", "relationship", "Relation"),
    "paragraph title": ("paragraph title", "paragraph_title", "title", "paragraph", "Title"),
    "answer": ("answer", "Answer", "final_answer", "final answer"),
    "explain": ("explain", "explanation", "reasoning", "Explain"),
    "supporting-facts": ("supporting-facts", "supporting_facts", "supporting facts", "supportin_facts",
                         "supportingFacts"),
    "evidences": ("evidences", "evidence", "Evidences"),
}


class Unreadable(Exception):
    """Says what is wrong with a reply."""


def written(value):
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def folded_alike(own, named):
    """Whether titles are the same whatever the case, underscores and runs of spaces."""
    fold = lambda title: " ".join(title.replace("_", " ").lower().split())  # noqa: E731
    return fold(own) == fold(named)


class Reply:
    def __init__(self, text, key):
        found, problem = loose_json.last_object(text, KEYS[key])
        if problem:
            raise Unreadable(problem)
        self.members, self.repairs = found[0], collections.Counter(found[1])

    def take(self, key):
        """The value of a key, and whether it is there."""
        for number, name in enumerate(KEYS[key]):
            if name in self.members:
                self.repairs["other_key"] += number > 0
                return self.members.pop(name), True
        return None, False

    def needed(self, key):
        value, there = self.take(key)
        if not there:
            raise Unreadable(f'the key "{key}" is missing')
        return value

    def truth(self, key):
        value = self.needed(key)
        if isinstance(value, bool):
            return value
        word = written(value).strip().lower()
        if word not in ("true", "yes", "false", "no"):
            raise Unreadable(f'"{key}" is neither true nor false')
        self.repairs["quoted_truth"] += 1
        return word in ("true", "yes")

    def text(self, key):
        value = self.needed(key)
        plain = lambda item: isinstance(item, (str, int, float)) and not isinstance(item, bool)  # noqa: E731
        if isinstance(value, list) and all(map(plain, value)):
            self.repairs["other_type"] += 1
            value = ", ".join(map(written, value))
        elif isinstance(value, (bool, int, float)):
            self.repairs["other_type"] += 1
            value = written(value)
        elif not isinstance(value, str):
            raise Unreadable(f'"{key}" is no text')
        if not value.strip():
            raise Unreadable(f'"{key}" is empty')
        return value.strip()

    def list(self, key):
        value, _ = self.take(key)
        if value is None:
            self.repairs["missing_list"] += 1
            return []
        if isinstance(value, list):
            if len(value) >= 2 and not any(isinstance(item, (list, dict)) for item in value):
                self.repairs["other_type"] += 1
                return [value]
            return value
        self.repairs["other_type"] += 1
        return [value]

    def triples(self, key):
        made = []
        for entry in self.list(key):
            if isinstance(entry, list) and len(entry) == 3:
                made.append(tuple(map(written, entry)))
            else:
                self.repairs["no_triple"] += 1
        return made


class Form:
    shape = key = ""

    def read(self, text, reading):
        """What the reply says, and its repairs."""
        reply = Reply(text, self.key)
        made = self.made(reply)
        repairs = +reply.repairs
        if reading == "strict" and repairs:
            raise Unreadable("it is no JSON of that form")
        return made, sum(repairs.values())


class Decompose(Form):
    shape, key = 'a JSON object with the keys "simple" (true or false) and "subquestion"', "simple"

    def made(self, reply):
        simple = reply.truth("simple")
        return {"simple": simple, "subquestion": None if simple else reply.text("subquestion")}


class Judge(Form):
    shape, key = 'a JSON object with the key "identical" (true or false)', "identical"

    def made(self, reply):
        return {"identical": reply.truth("identical")}


class Check(Form):
    shape, key = 'a JSON object with the keys "simple" (true or false) and "answer"', "simple"

    def made(self, reply):
        simple = reply.truth("simple")
        return {"simple": simple, "answer": None if simple else reply.text("answer")}


class Revise(Form):
    shape, key = 'a JSON object with the keys "question" and "relation"', "question"

    def made(self, reply):
        question = reply.text("question")
        try:
            reply.text("relation")
        except Unreadable:
            # It is noted and never asked for again.
            pass
        return {"question": question}


def support_of(reply):
    return {"support": reply.list("supporting-facts"), "evidences": reply.triples("evidences")}


class Search(Form):
    key = "answer"

    def __init__(self, titles, words, support):
        self.titles, self.words, self.support = titles, words, support
        self.shape = ('a JSON object with the keys "question", "paragraph title" (the title of one of the paragraphs)'
                      + (', "answer" (a few words), "supporting-facts" (pairs of a title and an index) and "evidences" '
                         '(triples)' if support else ' and "answer" (a few words)'))

    def made(self, reply):
        title, answer = reply.text("paragraph title"), reply.text("answer")
        found = [own for own in self.titles if own == title] or \
            [own for own in self.titles if folded_alike(own, title)]
        if not found:
            raise Unreadable(f'no paragraph has the title "{title}"')
        if self.words is not None and len(answer.split()) > self.words:
            raise Unreadable(f"the answer has {len(answer.split())} words, not at most {self.words}")
        return {"title": found[0], "answer": answer} | (support_of(reply) if self.support else {})


class Answer(Form):
    key = "answer"

    def __init__(self, support):
        self.support = support
        self.shape = ('a JSON object with the keys "explain"'
                      + (', "supporting-facts" (pairs of a title and an index), "evidences" (triples) and "answer"'
                         if support else ' and "answer"'))

    def made(self, reply):
        return {"answer": reply.text("answer")} | (support_of(reply) if self.support else {})
