"""How the replies of MIGRES's modules are read: as far as can be made out, or as the authors' code does."""

import ast
import dataclasses
import json
import re

KEYS = ['"missing_information":', '"answer":', '"useful_information":', '"explanation":']
KINSHIP = {}


@dataclasses.dataclass
class Verdict:
    answer: str
    confidence: float = 1
    explanation: str = ""
    missing: str = ""


def kinship(question):
    return [meaning for word, meaning in KINSHIP.items() if word in question.lower()]


def objects(text):
    """The JSON objects in a text, in order."""
    for match in re.finditer(r"\{", text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text[match.start():])
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def tolerant(text):
    found = next(objects(text), None)
    if found is not None:
        return found
    try:
        value = ast.literal_eval(text.strip())
        return value if isinstance(value, dict) else None
    except (ValueError, SyntaxError):
        return None


def literal(text):
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def sections(text):
    """What stands behind each of the four keys, up to the next key (the authors' code)."""
    places = sorted((text.find(key), key) for key in KEYS if key in text)
    ends = [place for place, _ in places[1:]] + [len(text)]
    return {key: text[place + len(key):end].strip().rstrip(",").strip() for (place, key), end in zip(places, ends)}


def text_of(value):
    return value.strip() if isinstance(value, str) else "" if value is None else json.dumps(value)


def verdict(text, parser):
    value = tolerant(text) if parser == "tolerant" else literal(text)
    if not isinstance(value, dict):
        parts = sections(text)
        if '"answer":' not in parts:
            return Verdict("unanswerable", -1)
        return Verdict(parts['"answer":'].strip('"'), -1, parts.get('"explanation":', "").strip('"'),
                       parts.get('"missing_information":', "").strip('"'))
    given = value.get("answer")
    confidence = 1
    if isinstance(given, dict):
        confidence = given.get("confidence", 1)
        given = given.get("text")
    return Verdict(text_of(given), confidence, text_of(value.get("explanation")),
                   text_of(value.get("missing_information")))


def statements(text, parser):
    """Pairs of statement and cited numbers; those without a citation are left out."""
    value = tolerant(text) if parser == "tolerant" else literal(text)
    rows = value.get("useful_information") if isinstance(value, dict) else None
    if not isinstance(rows, list):
        return []
    found = []
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("info"), str):
            numbers = [number for number in row.get("support_passages") or [] if isinstance(number, int)]
            if numbers:
                found.append((row["info"].strip(), numbers))
    return found
