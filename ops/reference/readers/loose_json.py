"""JSON as models write it, with every repair counted: the part of `engine/loosejson` that `module_babble.py` tries.

Names and counts of repairs are those of that crate's documentation: fences, words around a value, several values,
single quotes, literals of Python, commas too many, brackets of the wrong shape, and what is open at the end of the
text, where a number may be cut.
"""

import collections
import re

LITERALS = {"true": True, "false": False, "null": None}
PYTHON = {"True": True, "False": False, "None": None}
# `Search[None]` holds an array, `Search[None of them]` does not.
LITERAL_ITEM = re.compile(rf"({'|'.join([*LITERALS, *PYTHON])})\s*([,\]]|$)")
NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


class Unread(ValueError):
    """Nothing that this reader knows."""


class Reader:
    """Reads one value from a place in a text on."""

    def __init__(self, text, at):
        self.text, self.at, self.repairs = text, at, collections.Counter()
        self.closings = []  # brackets that close the open containers

    def space(self):
        self.at = re.compile(r"[ \t\r\n]*").match(self.text, self.at).end()

    def peek(self):
        self.space()
        return self.text[self.at:self.at + 1]

    def value(self):
        sign = self.peek()
        if sign in ("{", "["):
            self.closings.append({"{": "}", "[": "]"}[sign])
            made = self.container(sign)
            self.closings.pop()
            return made
        if sign in ('"', "'"):
            return self.string(sign)
        number = NUMBER.match(self.text, self.at)
        if number:
            self.at = number.end()
            if self.at == len(self.text) and self.closings:
                self.repairs["cut_scalar"] += 1
            return float(number.group()) if number.group(2) or number.group(3) else int(number.group())
        word = re.compile(r"[A-Za-z]+").match(self.text, self.at)
        if word and word.group() in LITERALS:
            self.at = word.end()
            return LITERALS[word.group()]
        if word and word.group() in PYTHON:
            self.at = word.end()
            self.repairs["literal"] += 1
            return PYTHON[word.group()]
        raise Unread(self.text[self.at:self.at + 20])

    def string(self, quote):
        escapes = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"'}
        if quote == "'":
            self.repairs["single_quotes"] += 1
        self.at += 1
        made = []
        while True:
            sign = self.text[self.at:self.at + 1]
            self.at += 1
            if sign == "":
                self.repairs["cut_string"] += 1
                return "".join(made)
            if sign == quote:
                return "".join(made)
            if sign == "\\" and self.text[self.at] == "u":
                made.append(chr(int(self.text[self.at + 1:self.at + 5], 16)))
                self.at += 5
            elif sign == "\\":
                made.append(escapes[self.text[self.at]])
                self.at += 1
            else:
                made.append(sign)

    def container(self, opening):
        closing = self.closings[-1]
        made = {} if opening == "{" else []
        self.at += 1
        while True:
            sign = self.peek()
            if sign == closing:
                self.at += 1
                return made
            if sign == "":
                self.repairs["unclosed"] += 1
                return made
            if sign in ("}", "]"):
                if sign in self.closings:
                    # An outer one's, which it closes, too.
                    self.repairs["missing_close"] += 1
                    return made
                self.at += 1
                self.repairs["wrong_close"] += 1
                return made
            if sign == ",":
                self.at += 1
                self.repairs["trailing_comma"] += 1
                continue
            if opening == "{":
                if sign not in ('"', "'"):
                    raise Unread("a key without quotes")
                key = self.string(sign)
                if self.peek() == "":
                    # A key at the end of the text has no value.
                    self.repairs["dropped_key"] += 1
                    continue
                if self.peek() != ":":
                    raise Unread("a key without a value")
                self.at += 1
                if self.peek() == "":
                    self.repairs["dropped_key"] += 1
                    continue
                made[key] = self.value()
            else:
                made.append(self.value())
            if self.peek() == ",":
                self.at += 1
                if self.peek() in ("}", "]"):
                    self.repairs["trailing_comma"] += 1
            elif self.peek() not in ("}", "]", ""):
                raise Unread("no comma")


def values(text):
    """Objects and arrays of a text with their repairs, in order, or its single scalar; none if there is no value."""
    found, at, end, gaps = [], 0, 0, []
    while True:
        start = min((place for place in (text.find("{", at), text.find("[", at)) if place >= 0), default=-1)
        if start < 0:
            break
        inner = text[start + 1:].lstrip()
        sign = inner[:1]
        if not (sign in ("}", '"', "'", "") if text[start] == "{" else
                sign in '"\'[{]-' or sign.isdigit() or LITERAL_ITEM.match(inner)):
            # No value begins here, so the bracket is a part of the words.
            at = start + 1
            continue
        reader = Reader(text, start)
        value = reader.value()
        gaps.append(text[end:start])
        found.append((value, reader.repairs))
        at = end = reader.at
    gaps.append(text[end:])
    if not found:
        if text.lstrip()[:1] in ("{", "["):
            return []
        try:
            reader = Reader(text, 0)
            value = reader.value()
        except Unread:
            return []
        # The crate reads a quote that words follow as one within a string: that it is no object is what counts here.
        return [(value, reader.repairs)] if reader.peek() == "" or text.startswith('"') else []
    around = collections.Counter()
    for gap in gaps:
        around.update(repairs_of(gap))
    return [(value, repairs + around) for value, repairs in found]


def repairs_of(gap):
    """Of a text between values: its fences, and whether there are words. A fence may name a language behind it."""
    lines = gap.split("\n")
    fences = [line for line in lines if "```" in line]
    words = any(line.strip(" \t\r") for line in lines if "```" not in line)
    counts = collections.Counter(fence=len(fences)) if fences else collections.Counter()
    if words or any(not re.fullmatch(r"\s*```\s*[A-Za-z0-9]*\s*", line) for line in fences):
        counts["surrounding_text"] += 1
    return counts


def last_object(text, keys):
    """The last object with one of the keys, and its repairs; other values are counted. None, and why."""
    found = values(text)
    if not found:
        return None, "no JSON value"
    fitting = [pair for pair in found if isinstance(pair[0], dict) and any(key in pair[0] for key in keys)]
    if not fitting:
        return None, "no JSON object with an expected key"
    value, repairs = fitting[-1]
    if len(found) > 1:
        repairs = repairs + collections.Counter(several_values=len(found) - 1)
    return (dict(value), repairs), None
