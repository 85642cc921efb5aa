"""Makes documents from known values, in the ways in which language models depart from JSON.

A document is written by `Writer` in a style (a set of departures within the value), wrapped (fences, prose, further
values), and perhaps cut. The writer keeps what each byte belongs to, so that the value of a cut text is known too.

A document is recoverable if a careful reader has one reading of it. These are not, and are only looked at for values
that are wrong without a note: numbers, literals and escapes that are cut; quotes without a backslash that stand where
the closing quote could (before a colon, a bracket, or a comma and the beginning of a value).
"""

import json
import math
import random
import re
from dataclasses import dataclass, field

WORDS = """Paris the film director born 1947 sister's O'Neill river naïve Zürich 東京 "Heroes" 5" (US) [1] {x} a,b c:d
e; https://en.org/w/A_(b)?c=1#d rock'n'roll dogs' said: "yes" and/or 50% C++ \\alpha tab\there line\nbreak true None
-- … “curly” ‘single’ <b> & | 🙂 It's don't no. Yes, Mr. who's "who" #1 // null""".split(" ")
KEYS = """answer reason simple question supporting_facts evidences title sentence_id sub_question next type compound
is_simple final paragraph_titles id name value notes confidence step relation""".split()
PROSE_BEFORE = [
    "Sure! Here is the JSON:\n", "Here's what I found [1]: ", "Thought: it's a compound question.\n\n", "**Answer**\n",
    "Let me think (step by step). The film's director isn't named.\n", "json\n", "Output: ", "A {placeholder} first.\n",
]
PROSE_AFTER = [
    "\n\nI hope this helps!",
    "\nLet me know if it's wrong.", " (see [2])", "\nNote: the answer isn't certain.", "\n---",
]
SEPARATORS = ["\n", "\n\n", " ", "\nor\n", "\n\nQuestion: Who's next?\n"]
COMMENTS = ["// the answer\n", "/* it's a note */", "# why: \"because\"\n", "/* { [ */"]
# A quote within a text that could close it.
COULD_CLOSE = re.compile(r"""["]\s*([:=}\])`]|,\s*(["'\[{(.,}\]]|[-+.]?\d|\w+\s*:|true|false|null)|/[/*]|\#|,\s*$)""")


class Nan:
    """The mark of a number that is none."""


def text(rng):
    shape = rng.random()
    if shape < 0.08:
        return ""
    if shape < 0.2:
        return rng.choice(WORDS)
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 9)))


def scalar(rng):
    shape = rng.random()
    if shape < 0.62:
        return text(rng)
    if shape < 0.78:
        return rng.choice([0, 1, 2, 7, -3, 12, 1947, 10**12, 2**63 - 1, 2**64 - 1])
    if shape < 0.84:
        return rng.choice([0.5, -1.25, 3.0, 1e-7, 6.02e23, 0.1])
    return rng.choice([True, False, None])


def value(rng, depth=0):
    shape = rng.random()
    if depth < 3 and (shape < 0.25 or depth == 0):
        keys = rng.sample(KEYS, rng.randint(0 if depth else 1, 5))
        return {key: value(rng, depth + 1) for key in keys}
    if depth < 3 and shape < 0.5:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return scalar(rng)


@dataclass
class Piece:
    """A token: its text, and its part in the value."""

    text: str
    event: str
    data: object = None


@dataclass
class Writer:
    """Writes one value in a style."""

    rng: random.Random
    style: set
    pieces: list = field(default_factory=list)
    ambiguous: bool = False

    def add(self, text, event="space", data=None):
        self.pieces.append(Piece(text, event, data))

    def space(self):
        if "comments" in self.style and self.rng.random() < 0.3:
            self.add(" " + self.rng.choice(COMMENTS))
        if "spaced" in self.style:
            self.add(self.rng.choice([" ", "\n", "\n  ", "\t"]))

    def quoted(self, text):
        style = self.style
        if "single_quotes" in style or "python" in style:
            body = repr(text) if "python" in style else "'" + json.dumps(text, ensure_ascii=False)[1:-1].replace(
                '\\"', '"').replace("'", "\\'") + "'"
            return body
        body = json.dumps(text, ensure_ascii="ascii" in style)[1:-1]
        if "smart_quotes" in style:
            self.ambiguous |= any(q in text for q in "“”") and bool(COULD_CLOSE.search(re.sub("[“”]", '"', text)))
            return "“" + body.replace('\\"', "'") + "”" if '"' not in text else "“" + body + "”"
        if "unescaped_quotes" in style:
            self.ambiguous |= bool(COULD_CLOSE.search(text)) or '""' in text
            body = body.replace('\\"', '"')
        if "raw_lines" in style:
            body = body.replace("\\n", "\n").replace("\\t", "\t")
        if "bad_escapes" in style:
            body = body.replace("'", "\\'")
        return '"' + body + '"'

    def key(self, key):
        bare = "bare_keys" in self.style
        return key if bare else self.quoted(key)

    def literal(self, value):
        python = "python" in self.style or "literals" in self.style
        if isinstance(value, Nan):
            return self.rng.choice(["NaN", "Infinity", "-Infinity"])
        if python:
            return {True: "True", False: "False", None: "None"}[value]
        return json.dumps(value)

    def number(self, value):
        if "numbers" in self.style and isinstance(value, int) and value > 0:
            return self.rng.choice([f"+{value}", f"0{value}", f"{value:_}"])
        return json.dumps(value)

    def comma(self, last):
        if last:
            if "trailing_commas" in self.style:
                self.add(",")
            return
        if "missing_commas" in self.style and self.rng.random() < 0.5:
            self.add("\n")
        elif "full_width" in self.style:
            self.add("，")
        else:
            self.add(",")

    def write(self, value):
        self.space()
        if isinstance(value, dict):
            self.write_object(value)
        elif isinstance(value, list):
            self.write_array(value)
        elif isinstance(value, str):
            self.add(self.quoted(value), "string", value)
        elif value is None or isinstance(value, (bool, Nan)):
            self.add(self.literal(value), "scalar", None if isinstance(value, Nan) else value)
        else:
            self.add(self.number(value), "scalar", value)
        self.space()

    def write_object(self, value):
        self.add("{", "open_object")
        members = list(value.items())
        if "repeated_keys" in self.style and members:
            members.insert(0, (self.rng.choice(members)[0], scalar(self.rng)))
        for number, (key, member) in enumerate(members):
            self.space()
            self.add(self.key(key), "key", key)
            self.space()
            self.add("：" if "full_width" in self.style else ":")
            self.write(member)
            self.comma(number + 1 == len(members))
        self.add("}", "close")

    def write_array(self, value):
        is_tuple = "tuples" in self.style or ("python" in self.style and self.rng.random() < 0.3)
        self.add("(" if is_tuple else "[", "open_array")
        for number, item in enumerate(value):
            self.write(item)
            self.comma(number + 1 == len(value) and not (is_tuple and len(value) == 1))
        self.add(")" if is_tuple else "]", "close")


def replay(pieces):
    """The value of a run of tokens that may stop anywhere."""
    root, stack, key = None, [], None

    def attach(item):
        nonlocal root, key
        if not stack:
            root = item
        elif isinstance(stack[-1], dict):
            stack[-1][key] = item
        else:
            stack[-1].append(item)

    for piece in pieces:
        if piece.event in ("open_object", "open_array"):
            item = {} if piece.event == "open_object" else []
            attach(item)
            stack.append(item)
        elif piece.event == "close":
            stack.pop()
        elif piece.event == "key":
            key = piece.data
        elif piece.event in ("string", "scalar"):
            attach(piece.data)
    return root


def cut(rng, pieces):
    """The pieces up to a place; whether what is left has one reading."""
    length = sum(len(piece.text) for piece in pieces)
    place = rng.randint(1, max(1, length - 1))
    kept = []
    for piece in pieces:
        if place >= len(piece.text):
            kept.append(piece)
            place -= len(piece.text)
            continue
        if place == 0:
            return kept, True
        part = piece.text[:place]
        if piece.event == "string":
            try:
                data = json.loads(part + '"')
            except ValueError:
                return kept + [Piece(part, "space")], False
            return kept + [Piece(part, "string", data)], not any("\ud800" <= c <= "\udfff" for c in data)
        return kept + [Piece(part, "space")], piece.event != "scalar"
    return kept, True


@dataclass
class Document:
    """A text and the value that a reader must find in it."""

    mutations: tuple
    text: str
    expected: object
    recoverable: bool
    choice: str = "largest"


STYLES = ["single_quotes", "python", "literals", "tuples", "trailing_commas", "missing_commas", "smart_quotes",
          "comments", "unescaped_quotes", "repeated_keys", "bare_keys", "raw_lines", "bad_escapes", "numbers", "nan",
          "full_width"]
WRAPS = ["fence", "open_fence", "prose", "several", "byte_order_mark", "escaped", "missing_close", "double_braces"]
MUTATIONS = STYLES + WRAPS + ["cut"]
# Two departures that together have no single reading, or that a writer cannot have both.
CONFLICTS = [
    {"single_quotes", "python"}, {"single_quotes", "smart_quotes"}, {"python", "smart_quotes"},
    {"unescaped_quotes", "smart_quotes"}, {"unescaped_quotes", "missing_commas"}, {"unescaped_quotes", "cut"},
    {"unescaped_quotes", "bare_keys"}, {"unescaped_quotes", "comments"}, {"unescaped_quotes", "single_quotes"},
    {"unescaped_quotes", "python"}, {"smart_quotes", "missing_commas"}, {"missing_close", "cut"}, {"escaped", "cut"},
    {"several", "cut"}, {"several", "missing_close"}, {"missing_close", "prose"}, {"double_braces", "cut"},
    {"double_braces", "missing_close"}, {"escaped", "comments"}, {"escaped", "single_quotes"}, {"escaped", "python"},
    {"escaped", "smart_quotes"}, {"escaped", "unescaped_quotes"}, {"escaped", "bare_keys"}, {"escaped", "raw_lines"},
    {"escaped", "bad_escapes"}, {"escaped", "several"}, {"escaped", "prose"}, {"escaped", "fence"},
    {"escaped", "open_fence"}, {"cut", "python"}, {"cut", "single_quotes"}, {"cut", "smart_quotes"},
    {"cut", "bad_escapes"}, {"cut", "raw_lines"}, {"cut", "tuples"}, {"cut", "comments"}, {"fence", "open_fence"},
    {"smart_quotes", "cut"}, {"missing_close", "double_braces"}, {"several", "open_fence"}, {"cut", "fence"},
    {"cut", "full_width"}, {"cut", "missing_commas"}, {"escaped", "full_width"}, {"smart_quotes", "bare_keys"},
    {"smart_quotes", "comments"}, {"cut", "bare_keys"}, {"cut", "repeated_keys"},
]


def with_nan(rng, value):
    """The value with some of its scalars replaced by the mark."""
    if isinstance(value, dict):
        return {key: with_nan(rng, member) for key, member in value.items()}
    if isinstance(value, list):
        return [with_nan(rng, item) for item in value]
    return Nan() if rng.random() < 0.4 else value


def choose_mutations(rng):
    while True:
        chosen = {rng.choice(MUTATIONS) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))}
        if not any(conflict <= chosen for conflict in CONFLICTS):
            return chosen


def wrap(rng, chosen, body, expected):
    """The document around the body, and the value that is chosen of several."""
    choice = "largest"
    if "double_braces" in chosen:
        body = "{" + body + "}"
    if "several" in chosen:
        other = json.dumps(value(rng), ensure_ascii=False)
        choice = rng.choice(["first", "last"])
        parts = [body, other] if choice == "first" else [other, body]
        body = rng.choice(SEPARATORS).join(parts)
    if "fence" in chosen:
        begin = rng.choice(["```json\n", "```\n", "```JSON\n", "```python\n"])
        body = begin + body + rng.choice(["\n```", "```", "\n```\n"])
    if "open_fence" in chosen:
        body = "```json\n" + body
    if "prose" in chosen:
        before = rng.choice(PROSE_BEFORE + [""])
        after = rng.choice(PROSE_AFTER + [""]) if "cut" not in chosen else ""
        body = before + body + after
    if "byte_order_mark" in chosen:
        body = "\ufeff" + body
    return body, choice


def document(rng):
    """One document."""
    chosen = choose_mutations(rng)
    known = value(rng)
    if "nan" in chosen:
        known = with_nan(rng, known)
    style = {name for name in chosen if name in STYLES}
    style |= {name for name in ("spaced", "ascii") if rng.random() < 0.3}
    writer = Writer(rng, style)
    writer.write(known)
    pieces, recoverable = writer.pieces, not writer.ambiguous
    while pieces and pieces[-1].event == "space":
        pieces.pop()
    if "missing_close" in chosen:
        for _ in range(rng.randint(1, 3)):
            if pieces[-1].event == "close":
                pieces.pop()
    if "cut" in chosen:
        pieces, whole = cut(rng, pieces)
        # A reader cannot choose between what is left and a word in brackets before it.
        recoverable &= whole and sum(piece.event != "space" for piece in pieces) > 2
    expected = replay(pieces)
    body = "".join(piece.text for piece in pieces)
    if "escaped" in chosen:
        body = json.dumps(body, ensure_ascii=False)[1:-1]
        recoverable &= '\\"' in body[:40]
    body, choice = wrap(rng, chosen, body, expected)
    return Document(tuple(sorted(chosen)), body, expected, recoverable, choice)


def documents(seed, count):
    """So many documents; equal seeds make equal ones."""
    rng = random.Random(seed)
    for _ in range(count):
        made = document(rng)
        made = strict_reading(made)
        yield made


def strict_reading(made):
    """A text that is JSON has the reading of JSON, whatever it was made from."""
    try:
        made.expected = json.loads(made.text, parse_constant=refuse, object_pairs_hook=unique)
        made.recoverable = True
    except ValueError:
        pass
    return made


def refuse(word):
    raise ValueError(word)


def unique(pairs):
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("repeated key")
    return dict(pairs)


def same(a, b):
    """Equality of values and types; a number that is none equals null."""
    if isinstance(a, float) and not math.isfinite(a):
        a = None
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return type(a) is type(b) and a == b
