"""How the replies of MIGRES's modules are read: as far as can be made out, or as the authors' code does.

The code evaluates a reply as a Python literal; where that fails it cuts the text at the places of four keys, or the
statements at `}, {`. What `tolerant` makes of odd types is hopeval's; no source has it.
"""

import ast
import dataclasses
import json
import re

import loose_json

KEYS = ['"missing_information":', '"answer":', '"useful_information":', '"explanation":']
# The code's four words of kinship with their meanings, in hopeval's words.
KINSHIP = {f"{side} {word}": f"The {side} {word} of a person is the {parent} of the person's {of}."
           for side, of in (("maternal", "mother"), ("paternal", "father"))
           for word, parent in (("grandmother", "mother"), ("grandfather", "father"))}


@dataclasses.dataclass
class Verdict:
    answer: str
    confidence: int = 1
    explanation: str = ""
    missing: str = ""


def kinship(question):
    return [meaning for word, meaning in KINSHIP.items() if word in question.lower()]


def first_object(text, key):
    """The first object of a text with the key; none if there is none."""
    found = [value for value, _ in loose_json.values(text) if isinstance(value, dict) and key in value]
    return found[0] if found else None


def literal(text):
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    return value if isinstance(value, dict) else None


def plain(value):
    """A value as text: nothing for null, lists joined by spaces."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, (list, tuple)):
        return " ".join(map(plain, value))
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def number(value):
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return int(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+\s*", value) else None


def verdict(text, parser):
    """What a reply of the main or final module says; none if it cannot be read."""
    value = first_object(text, "answer") if parser == "tolerant" else literal(text)
    made = value and verdict_of(value)
    if made or parser == "tolerant":
        return made or None
    return cut_verdict(text)


def verdict_of(value):
    if "answer" not in value:
        return None
    given, holder = value["answer"], value
    if isinstance(given, dict):
        if "text" not in given:
            return None
        given, holder = given["text"], given
    confidence = number(holder.get("confidence"))
    return Verdict(plain(given), 1 if confidence is None else confidence, plain(value.get("explanation")),
                   plain(value.get("missing_information")))


def section(text, key):
    """What stands behind a key, up to the next of the four; none without it."""
    if key not in text:
        return None
    behind = text.split(key, 1)[1]
    return behind[:min((behind.find(other) for other in KEYS if other in behind), default=len(behind))]


def cut_verdict(text):
    bare = lambda part: (part or "").strip(" \t\r\n{}\",")  # noqa: E731
    answer = section(text, '"answer":')
    if answer is None:
        return None
    value = literal(answer.strip().rstrip(","))
    if value and "text" in value:
        confidence = number(value.get("confidence"))
        made = Verdict(plain(value["text"]), 1 if confidence is None else confidence)
    else:
        made = Verdict(bare(answer), -1)
    made.explanation, made.missing = bare(section(text, '"explanation":')), bare(section(text, KEYS[0]))
    return made


def statements(text, parser):
    """Pairs of statement and cited numbers; those without a citation are left out. Nothing if it cannot be read."""
    value = first_object(text, "useful_information") if parser == "tolerant" else literal(text)
    made = value and statements_of(value)
    if made is not None or parser == "tolerant":
        return made or []
    return cut_statements(text)


def statements_of(value):
    rows = value.get("useful_information", "missing")
    if isinstance(rows, dict):
        rows = [rows]
    if rows is None:
        rows = []
    if not isinstance(rows, (list, tuple)):
        return None
    found = []
    for row in rows:
        if isinstance(row, dict):
            info, cited = plain(row.get("info")), row.get("support_passages", [])
            numbers = [cited_number(one) for one in (cited if isinstance(cited, (list, tuple)) else [cited])]
            numbers = [one for one in dict.fromkeys(numbers) if one is not None]
            if info and numbers:
                found.append((info, numbers))
    return found


def cited_number(value):
    if isinstance(value, str):
        digits = re.search(r"[0-9]+", value)
        return int(digits.group()) if digits else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def cut_statements(text):
    found = []
    for piece in text.split("}, {"):
        if '"info":' not in piece or '"support_passages":' not in piece.split('"info":', 1)[1]:
            continue
        info, cited = piece.split('"info":', 1)[1].split('"support_passages":', 1)
        info = info.strip(" \t\r\n\",")
        digits = [int(sign) for sign in dict.fromkeys(re.findall(r"[0-9]", cited))]
        if info and digits:
            found.append((info, digits))
    return found


def queries(text, parser, shortest, asked):
    """The new queries of a reply, one a line; a list's marks are no part of them unless it is read as in the code."""
    found = []
    for line in text.split("\n"):
        query = line
        if parser == "tolerant":
            query = re.sub(r"^([0-9]+[.)]|[-*•]) +", "", line.strip())
        if len(query) > shortest and query not in asked and query not in found:
            found.append(query)
    return found
