"""What a reply of FSM's steps must be, and how far one that is not is read all the same.

`strict`: a JSON object of the form and nothing else. `tolerant`: repairs, each counted, where it can be made out what
was meant.
"""

import ast
import json
import re


class Unreadable(Exception):
    """Says what is wrong with a reply."""


def object_of(text, reading):
    """The object of a reply, and the repairs that it took."""
    try:
        value = json.loads(text)
        if isinstance(value, dict):
            return value, 0
        raise Unreadable("no JSON value")
    except ValueError:
        if reading == "strict":
            raise Unreadable("no JSON value") from None
    for match in re.finditer(r"\{", text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text[match.start():])
            return value, 1
        except ValueError:
            pass
    for match in re.finditer(r"\{.*\}", text, re.DOTALL):
        try:
            value = ast.literal_eval(match.group())
            if isinstance(value, dict):
                return value, 1
        except (ValueError, SyntaxError):
            pass
    raise Unreadable("no JSON value")


class Form:
    shape = ""

    def read(self, text, reading):
        value, repairs = object_of(text, reading)
        return self.made(value), repairs

    @staticmethod
    def text(value, key):
        if isinstance(value.get(key), str) and not value[key].strip():
            raise Unreadable(f'"{key}" is empty')
        if not isinstance(value.get(key), str):
            raise Unreadable(f"it has no {key}")
        return value[key].strip()

    @staticmethod
    def truth(value, key):
        if not isinstance(value.get(key), bool):
            raise Unreadable(f"{key} is neither true nor false")
        return value[key]


class Decompose(Form):
    shape = 'a JSON object with the keys "simple" (true or false) and "subquestion"'

    def made(self, value):
        simple = self.truth(value, "simple")
        return {"simple": simple, "subquestion": None if simple else self.text(value, "subquestion")}


class Judge(Form):
    def made(self, value):
        return {"identical": self.truth(value, "identical")}


class Check(Form):
    def made(self, value):
        return {"simple": self.truth(value, "simple"), "answer": self.text(value, "answer")}


class Revise(Form):
    def made(self, value):
        return {"question": self.text(value, "question"), "relation": self.text(value, "relation")}


def support_of(value):
    facts = [(title, sentence) for title, sentence in value.get("supporting-facts", [])]
    evidences = [tuple(triple) for triple in value.get("evidences", [])]
    return {"support": facts, "evidences": evidences}


class Search(Form):
    def __init__(self, titles, words, support):
        self.titles, self.words, self.support = titles, words, support
        self.shape = ('a JSON object with the keys "question", "paragraph title" (the title of one of the paragraphs)'
                      + (', "answer" (a few words), "supporting-facts" (pairs of a title and an index) and "evidences" '
                         '(triples)' if support else ' and "answer" (a few words)'))

    def made(self, value):
        title, answer = self.text(value, "paragraph title"), self.text(value, "answer")
        if title not in self.titles:
            raise Unreadable(f'no paragraph has the title "{title}"')
        if self.words is not None and len(answer.split()) > self.words:
            raise Unreadable(f"the answer has {len(answer.split())} words, not at most {self.words}")
        return {"title": title, "answer": answer} | (support_of(value) if self.support else {})


class Answer(Form):
    def __init__(self, support, explain):
        self.support, self.explain = support, explain

    def made(self, value):
        return {"answer": self.text(value, "answer")} | (support_of(value) if self.support else {})
