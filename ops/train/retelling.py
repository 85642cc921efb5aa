"""Retells an example: its relations become others, the same ones in its passages, its question and its chain.

A world of the `train` split has 18 relations, each said in two ways; one of `eval` has nine more and a third way. A
writer that knows 36 patterns by heart fails at what training never said. So most of its examples tell of relations of
`relations.toml` in place of the world's own, each time others, and in words that differ between question and passage:
what is left to learn is which sentence means what a question asks.

A sentence or question is matched against the wordings of the `train` split, taken from the world's source. What does
not match stays as it is; a relation that a question names in a way that is not known here is not exchanged.
"""

import random
import re
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from chains import Lesson, Reading

HERE = Path(__file__).parent
RELATIONS = HERE / "relations.toml"
SCHEMA = HERE.parents[1] / "jobs/world/src/schema/relations.rs"
KNOWN_WORDINGS = 2  # of three; the last is that of `eval`
RETOLD = 0.75  # of examples
EXCHANGED = 0.85  # of the relations of such an example
UNLIKE = 0.5  # of those are said without a word of their question
STEM = 4  # letters, by which `sang` is unlike `singer`, and `directed` like `director`
GRAMMAR = frozenset(
    """a about against an and are as at by can comes did do does done for from given had has have how in into is it its
    much many of on or people person that the their there they to was were what when where which who whom whose with
    year day city country name number""".split()
)
VALUES = ("time", "date", "number")  # kinds of objects that no noun phrase stands for
PRONOUNS = {"It": "it", "He": "him", "She": "her", "They": "them"}
CLAUSE = re.compile(r"(.+?)((?:, known for [^,]+| \(known for [^()]+\))?)")
QUALITIES = r"(?:(?P<how>[a-z-]+(?:,? (?:and )?[a-z-]+)?) )?"  # the stark and rustic director of ..


@dataclass
class Wordings:
    says: list
    phrase: list
    asks: list
    same: list  # comparisons of two objects

    def unlike(self, rng):
        """One statement, with the phrases and questions that share no word with it, if there are any; else all."""
        says = rng.choice(self.says)
        stems = meant(says)
        parts = (self.phrase, self.asks, self.same)
        phrase, asks, same = ([p for p in part if not stems & meant(p)] for part in parts)
        known = asks and (phrase or not self.phrase) and (same or not self.same)
        return Wordings([says], phrase, asks, same) if known else self

    def asked_alike(self, rng):
        """The same with one way to ask: a question's parts are said in its words."""
        return Wordings(
            self.says, *(rng.sample(part, min(1, len(part))) for part in (self.phrase, self.asks, self.same))
        )


@dataclass
class Pattern:
    """One of the world's own wordings, and what recognises it."""

    relation: str
    text: str
    matcher: re.Pattern


def meant(pattern):
    """The begins of the words that say what a wording means."""
    words = re.findall(r"[a-z]+", re.sub(r"\{.\}", "", pattern.lower()))
    return {word[:STEM] for word in words if word not in GRAMMAR}


def invented(knows):
    """By kind of object the relations of `relations.toml`, as far as `knows` has all the words of a wording."""
    read = tomllib.loads(RELATIONS.read_text())
    frames, found = read.pop("frames"), defaultdict(list)
    for kind, rows in read.items():
        for row in rows:
            made = {part: [*row.get(part, [])] for part in ("says", "phrase", "asks", "same")}
            for form, frame in frames[kind].items():
                for words in filter(None, row.get(form, "").split(", ")):
                    a, _, b = words.partition("/")
                    filled = {"{n}": words, "{a}": a, "{b}": b}
                    for part, patterns in frame.items():
                        made[part] += [re.sub(r"\{[nab]\}", lambda slot: filled[slot[0]], p) for p in patterns]
            if not (made["says"] and made["asks"] and (made["phrase"] or kind in VALUES)):
                raise SystemExit(f"{RELATIONS}: a relation of {kind} lacks says, phrase or asks: {row}")
            for part in made.values():
                part[:] = [p for p in part if all(map(knows, re.findall(r"[^\W\d_]+", re.sub(r"\{.\}", "", p))))]
            if made["says"] and made["asks"] and (made["phrase"] or kind in VALUES):
                found[kind].append(Wordings(**made))
    # What has a year may have a day.
    for row in found["time"]:
        dated = {part: [on_a_day(p) for p in patterns] for part, patterns in vars(row).items()}
        found["date"].append(Wordings(**dated))
    return dict(found)


def on_a_day(pattern):
    changed = [(" in {o}", " on {o}"), ("In what year", "On what day"), ("the year of", "the day of")]
    for year, day in [*changed, ("in the same year", "on the same day")]:
        pattern = pattern.replace(year, day)
    return pattern


def matcher(pattern, loose=False):
    """A regular expression for a wording, whose begin may be in capitals, with words before the noun if `loose`."""
    made = re.escape(pattern).replace(r"\ ", " ")
    for slot in "soxab":
        made = made.replace(rf"\{{{slot}\}}", f"(?P<{slot}>.+)")
    if not made.startswith("(?P"):
        made = f"[{made[0].lower()}{made[0].upper()}]{made[1:]}"
        if loose and pattern.startswith("the "):
            made = made.replace("[tT]he ", f"[tT]he {QUALITIES}", 1)
    return re.compile(made)


@dataclass
class Schema:
    """The world's relations, in the wordings that `train` has: patterns by where they stand."""

    objects: dict  # kind and noun of a relation's object
    subjects: dict  # noun of its subject, `person` for all persons
    says: list
    back: list
    phrase: list
    asks: list
    same: list
    compared: list

    @classmethod
    def read(cls):
        made = cls({}, {}, [], [], [], [], [], [])
        text = SCHEMA.read_text()
        for row in re.split(r"\n    Relation \{\n", text)[1:]:
            if "held_out: true" in row:
                continue
            name = re.search(r'name: "([^"]+)"', row)[1]
            made.objects[name] = object_of(re.search(r"range: ObjectRange::(.+),\n", row)[1])
            subject = re.search(r"subject: EntityClass::(\w+)", row)[1].lower()
            made.subjects[name] = {"book": "novel"}.get(subject, subject)
            for field, where in (
                ("says", made.says),
                ("says_back", made.back),
                ("phrase", made.phrase),
                ("asks", made.asks),
                ("same", made.same),
                ("first", made.compared),
                ("last", made.compared),
            ):
                given = re.search(rf"\n        {field}: (?:Some\()?\[(.*?)\]\)?,\n", row, re.DOTALL)
                for pattern in re.findall(r'"([^"]+)"', given[1])[:KNOWN_WORDINGS] if given else ():
                    where.append(Pattern(name, pattern, matcher(pattern, loose=field == "phrase")))
        if not all((made.says, made.back, made.phrase, made.asks, made.same, made.compared)):
            raise SystemExit(f"{SCHEMA} has no wordings in the form that is known here")
        return made


def object_of(range):
    """Kind and noun of a relation's objects, from the schema's source."""
    if "Role" in range or range == "Spouse":
        return "person", "person"
    if "City" in range and "Country" not in range or range == "CityOfCountry":
        return "city", "city"
    if range == "CountryOfCity":
        return "country", "country"
    if "BirthDate" in range:
        return "date", "day"
    if "Literal" in range:
        return ("number", "number") if "Population" in range or "Length" in range else ("time", "year")
    return "body", re.search(r"EntityClass::(\w+)", range)[1].lower()


class Retelling:
    def __init__(self, known):
        """`known` has the words that invented relations may be told in."""
        self.schema, self.invented = Schema.read(), invented(known.__contains__)
        self.sentences, self.questions = {}, {}

    def __call__(self, reading, state, rng):
        """A reading and a state of it, retold for one example."""
        if rng.random() >= RETOLD:
            return reading, state
        lesson = state.lesson
        asked = [self.parsed(text) for text in (lesson.question, *(fact.asked for fact in lesson.facts))]
        fixed = self.fixed(reading, lesson, asked[0])
        compared = asked[0][1].relation if asked[0][0] == "same" else None
        drawn = {kind: iter(rng.sample(rows, len(rows))) for kind, rows in self.invented.items()}
        table = {}
        for name, (kind, _) in self.schema.objects.items():
            if name not in fixed and rng.random() < EXCHANGED:
                made = next(drawn[kind], None)
                if made and (made.same or name != compared):
                    table[name] = (made.unlike(rng) if rng.random() < UNLIKE else made).asked_alike(rng)
        retold = Retold(reading, self, table, rng)
        return retold, replace(state, lesson=self.lesson(retold, lesson, asked, table, rng))

    def lesson(self, retold, lesson, asked, table, rng):
        made = object.__new__(Lesson)
        vars(made).update(vars(lesson))
        made.question = self.told(asked[0], table, rng)
        made.facts, made.steps = [], []
        for fact, tree, step in zip(lesson.facts, asked[1:], lesson.steps):
            made.steps.append(self.told(self.parsed(step), table, rng))
            sentence = retold.sentences[fact.passage][fact.place]
            made.facts.append(replace(fact, sentence=sentence, asked=self.told(tree, table, rng)))
        if lesson.quotes:
            made.quotes = self.quote(made, asked[0], table, rng)
        return made

    def quoting(self, lesson):
        """Has a lesson's questions quote the whole one where that can be parted: of `Who leads the city where A was
        born?` the first asks `What is the city where A was born?`, and of `Are A and B in the same city?` it asks
        `What about A: Are A and B in the same city?`. So they are copied: to word a question for a relation that
        training never said cannot be learned."""
        tree, own = self.parsed(lesson.question), ({}, random.Random(1))  # one wording each, so nothing is drawn
        lesson.quotes = self.told(tree, *own) == lesson.question and self.quote(lesson, tree, *own)
        return lesson

    def quote(self, lesson, tree, table, rng):
        """Words the questions of a lesson anew; whether it could."""
        facts, found, sides = lesson.facts, phrases(tree), sides_of(tree)
        inner = [n for n in range(len(facts)) if any(n in fact.needs for fact in facts)]
        outer = [n for n in range(len(facts)) if n not in inner]
        whole = {n: self.told(node, table, rng) for n, node in zip(inner, found)}
        known = len(found) == len(inner) and all(text in lesson.question for text in whole.values())
        if not known or lesson.kind != "bridge" and len(sides) != len(outer):
            return False
        for n, node in zip(inner, found):
            phrase = whole[n]
            for need in facts[n].needs:
                phrase = instead(phrase, whole[need], facts[need].answer)
            who = self.schema.objects[relation_of(node)][0] == "person"
            facts[n] = replace(facts[n], phrase=phrase, asked=f"{'Who' if who else 'What'} is {phrase}?")

        def after(n):
            """The question with the answers of what comes before a fact."""
            question = lesson.question
            for earlier in inner[-1:] if lesson.kind == "bridge" else (m for m in inner if m < n):
                question = instead(question, whole[earlier], facts[earlier].answer)
            return question

        if lesson.kind == "bridge":
            facts[-1] = replace(facts[-1], asked=after(len(facts) - 1))
            return True
        for n, side in zip(outer, sides):
            name = facts[facts[n].needs[0]].answer if facts[n].needs else self.told(side, table, rng)
            facts[n] = replace(facts[n], side=name, asked=f"What about {name}: {after(n)}")
        return True

    def fixed(self, reading, lesson, asked):
        """Relations that this lesson cannot tell otherwise: those that its question names less often than its facts say
        them."""
        said = Counter(self.relation(reading, fact.passage, fact.place) for fact in lesson.facts)
        return set(said - Counter(names(asked)))

    def relation(self, reading, passage, place):
        found = self.sentence(reading, passage, place)
        return found[0] if found else None

    def sentence(self, reading, passage, place):
        """The relation that a sentence says, its subject, its object and whether it stands in the object's passage."""
        key = id(reading.world), passage, place
        if key not in self.sentences:
            lead, text = reading.sentences[passage][0], reading.sentences[passage][place]
            self.sentences[key] = self.match(lead, text.removesuffix(".")) if place else None
        return self.sentences[key]

    def match(self, lead, text):
        noun = re.search(r" is an? ([a-z]+)", lead)
        noun = noun[1] if noun else ""
        for pattern in self.schema.says:
            if (found := pattern.matcher.fullmatch(text)) and self.fits(noun, self.schema.subjects[pattern.relation]):
                return pattern.relation, found["s"], found["o"], False
        for pattern in self.schema.back:
            kind, wanted = self.schema.objects[pattern.relation]
            if (found := pattern.matcher.fullmatch(text)) and self.fits(noun, wanted):
                return pattern.relation, found["o"], found["s"], True
        return None

    def fits(self, noun, wanted):
        """Whether a passage that introduces its subject by `noun` can be about such an entity."""
        things = {"country", "city", "river", "university", "company", "award", "band", "film", "novel", "album"}
        return noun == wanted or wanted == "person" and noun not in things

    def parsed(self, text):
        """A question as a tree: text, or one of the wordings with what it is asked of."""
        if text not in self.questions:
            self.questions[text] = self.parse(text)
        return self.questions[text]

    def parse(self, text):
        for pattern in self.schema.asks:
            if found := pattern.matcher.fullmatch(text):
                return "asks", pattern, None, self.phrase(found["x"])
        for pattern in (*self.schema.same, *self.schema.compared):
            before, between, behind = re.split(r"\{[ab]\}", pattern.text)
            inner = text.removeprefix(before).removesuffix(behind)
            if len(before) + len(inner) + len(behind) != len(text):
                continue
            # A phrase may have an `and` of its own: of all ways to part the two, the one with most phrases.
            ways = [(inner[: at.start()], inner[at.end() :]) for at in re.finditer(re.escape(between), inner)]
            ways = [list(map(self.phrase, way)) for way in ways]
            if ways:
                first, second = max(ways, key=lambda way: sum(not isinstance(part, str) for part in way))
                if pattern in self.schema.same:
                    return "same", pattern, first, second
                return "list", [before, first, between, second, behind]
        if found := re.fullmatch(r"(What about .+?: )(.+)", text):  # as `quote` asks
            return "list", [found[1], self.parse(found[2])]
        for begin in ("Who is ", "What is "):
            if text.startswith(begin) and not isinstance(asked := self.phrase(text[len(begin) : -1]), str):
                return "list", [begin, asked, text[-1]]
        return text

    def phrase(self, text):
        """A noun phrase as a tree; what it is known for stays at its end."""
        said, clause = CLAUSE.fullmatch(text.removesuffix(",")).groups()
        for pattern in self.schema.phrase:
            if found := pattern.matcher.fullmatch(said):
                tree = "phrase", pattern, found.groupdict().get("how"), self.phrase(found["x"])
                return ("list", [tree, clause]) if clause else tree
        return text

    def told(self, tree, table, rng):
        """A tree as a text, in the wordings of `table`."""
        if isinstance(tree, str):
            return tree
        if tree[0] == "list":
            return "".join(self.told(part, table, rng) for part in tree[1])
        if tree[0] == "same":
            _, own, *both = tree
            first, second = (self.told(part, table, rng) for part in both)
            patterns = own.relation in table and table[own.relation].same or [own.text]
            pattern = rng.choice(patterns).replace("{k}", self.schema.objects[own.relation][1])
            before, between, behind = re.split(r"\{[abyz]\}", pattern)
            return before + first + between + second + behind
        part, own, how, inner = tree
        patterns = getattr(table[own.relation], part) if own.relation in table else [own.text]
        inner = self.told(inner, table, rng)
        pattern = rng.choice(patterns).replace("{k}", self.schema.objects[own.relation][1])
        if how and pattern.startswith("the "):
            pattern = f"the {how} {pattern[4:]}"
        before, behind = pattern.split("{x}")
        inner = inner.removesuffix(",")
        comma = "," if ", " in inner and behind[:1] == " " else ""
        return before + inner + comma + behind


def phrases(tree):
    """The phrases of a tree that stand for an answer, an inner one before what it stands in. A phrase has at its end
    what its answer is known for."""
    if isinstance(tree, str):
        return []
    if tree[0] == "list":
        parts = tree[1]
        if len(parts) == 2 and parts[0][0] == "phrase":
            return [*phrases(parts[0][3]), tree]
        return [found for part in parts for found in phrases(part)]
    if tree[0] == "same":
        return phrases(tree[2]) + phrases(tree[3])
    return phrases(tree[3]) + ([tree] if tree[0] == "phrase" else [])


def sides_of(tree):
    """What a question compares: its two trees."""
    if tree[0] == "same":
        return [tree[2], tree[3]]
    return [tree[1][1], tree[1][3]] if tree[0] == "list" and len(tree[1]) == 5 else []


def relation_of(tree):
    """The relation whose object a phrase stands for."""
    return tree[1].relation if tree[0] == "phrase" else relation_of(tree[1][0])


def instead(text, phrase, answer):
    """A text with an answer in a phrase's place; the comma behind a phrase with one belongs to it."""
    closed = f"{phrase}," if ", " in phrase else phrase
    return text.replace(closed if closed in text else phrase, answer, 1)


def names(tree):
    """The relations that a question names, each as often as it does."""
    if isinstance(tree, str):
        return []
    if tree[0] == "list":
        return [name for part in tree[1] for name in names(part)]
    if tree[0] == "same":  # of both sides
        return [tree[1].relation] * 2 + names(tree[2]) + names(tree[3])
    return [tree[1].relation, *names(tree[3])]


class Retold(Reading):
    """A reading whose sentences are retold as they are read."""

    def __init__(self, reading, retelling, table, rng):
        self.world, self.index = reading.world, None
        self.sentences = Sentences(reading, retelling, table, rng)


class Sentences(dict):
    def __init__(self, reading, retelling, table, rng):
        super().__init__()
        self.reading, self.retelling, self.table, self.rng = reading, retelling, table, rng

    def __missing__(self, passage):
        self[passage] = [self.told(passage, place) for place in range(len(self.reading.sentences[passage]))]
        return self[passage]

    def told(self, passage, place):
        text, found = self.reading.sentences[passage][place], self.retelling.sentence(self.reading, passage, place)
        made = self.table.get(found[0]) if found else None
        if not made:
            return text
        _, subject, thing, back = found
        patterns, first = made.says, "{o}" if back else "{s}"
        if (thing if back else subject) in PRONOUNS:
            patterns = [pattern for pattern in patterns if pattern.startswith(first)] or patterns
        pattern = self.rng.choice(patterns)
        said = pattern.replace("{s}", inside(subject, pattern.startswith("{s}")))
        said = said.replace("{o}", inside(thing, pattern.startswith("{o}")))
        return said[0].upper() + said[1:] + "."


def inside(name, first):
    """A name or pronoun where it stands, which may be the sentence's begin."""
    if first:
        return name
    return PRONOUNS.get(name, "the " + name[4:] if name.startswith("The ") and name[4:5].islower() else name)
