"""Makes training rows from a generated world, in the Parquet files that the training scripts read.

    rows.py --world DIR [--world DIR ...] --out DIR [--seed N] [--keep subject-and-answer|answer]

| file | columns |
| --- | --- |
| scorer.parquet | question_id, question, path (texts), relevance: 2 all gold, 1 gold but not all, 0 neither; rows of a question stand together |
| labeler.parquet | question, chunk, matched, chunk_tokens, labels, tag (<CONTINUE>, <FINISH>, <TERMINATE>), question_id, passage, hop |
| filter.parquet | query_info_tokens, query_info_labels, question_id, hop |
| reader.parquet | question_id, question, passages (`title text`), answer, relevance: 1 if the passages hold the answer |
| encoder.parquet | question_id, query, positive, negatives (texts), hop |
| reranker.parquet | question_id, query, text (`title text`, or a sentence), relevance: 1 if it holds a fact asked for |

The rows follow the papers where a generated world can: hop queries, tags and negatives as EfficientRAG's data construction
makes them (section 3.2), from the world's gold annotations in place of a language model's. The words kept of a gold chunk are
its subject's name (unless `--keep answer`) and the answer of its sub-question; the next query is the query without the subject,
with the answer behind it. `hopeval train-data` writes the same columns, from MuSiQue and 2WikiMultihopQA too. Negatives are what BM25 and TF-IDF put high that is not gold, and what gold passages link to besides.
"""

import argparse
import random
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import released
from retrieval import Bm25, TfIdf, rank_links
from worlds import World, words

NOUNS = frozenset(
    "film novel album company band director actor writer musician entrepreneur politician scientist".split()
)


def find(sequence, part):
    """Where `part` begins in `sequence`, letters of either case; None where it does not occur."""
    lowered, wanted = [w.lower() for w in sequence], [w.lower() for w in part]
    for start in range(len(lowered) - len(wanted) + 1):
        if wanted and lowered[start : start + len(wanted)] == wanted:
            return start
    return None


def mention(query, title):
    """The words of `query` that speak of the entity: its name with article, noun and year around it."""
    name = title.split(" (")[0]
    start = find(query, words(name))
    if start is None:
        name = name.split(", ")[0]
        start = find(query, words(name))
    if start is None:
        return None
    end = start + len(words(name))
    if query[end : end + 2] == ["(", "born"]:
        end += 4
    if start and query[start - 1].lower() in NOUNS:
        start -= 1
        if start and re.fullmatch(r"\d{4}", query[start - 1]):
            start -= 1
        if start and query[start - 1].lower() == "the":
            start -= 1
    elif start and query[start - 1].lower() == "the" and title.endswith(("River",)):
        start -= 1
    return start, end


def answered(fact, text):
    """The object of an evidence as the text has it: words, or None."""
    _, _, target = fact
    for form in (target, target.split(" (")[0], target.split(", ")[0]):
        found = find(words(text), words(form))
        if found is not None:
            return words(text)[found : found + len(words(form))]
    # A person may stand there with an initial only.
    return None


class Steps:
    """A question's facts as hops: which passage states which, and what of it the next query needs."""

    def __init__(self, world, question, keep):
        self.question, self.world, self.keep = question, world, keep
        self.facts = question["evidences"]
        self.passages = [world.by_title[f[0]] for f in self.facts]
        kind = question["kind"]
        if kind == "bridge":
            self.rounds = [[n] for n in range(len(self.facts))]
        elif kind == "comparison":
            self.rounds = [[0, 1]]
        else:
            self.rounds = [[0, 2], [1, 3]]

    def kept(self, fact):
        """Words that the labeler keeps of a fact's passage: name, then answer; and the passage's words and labels."""
        passage = self.world.passages[self.passages[fact]]
        text = words(passage.chunk)
        labels = [False] * len(text)
        for n in range(len(words(passage.name)) if self.keep == "subject-and-answer" else 0):
            labels[n] = True
        answer = answered(self.facts[fact], passage.text)
        if answer is None:
            return None
        # The first place after the title; the fact's own sentence may not be the first that names the object.
        offset = len(words(passage.title + ":"))
        start = find(text[offset:], answer)
        for n in range(offset + start, offset + start + len(answer)):
            labels[n] = True
        return text, labels, answer

    def next_query(self, query, facts):
        """Filter row for the query and the infos of `facts`, and the next query; None where a subject is not found."""
        infos, drops, answers = [], [False] * len(query), []
        for fact in facts:
            kept = self.kept(fact)
            if kept is None:
                return None
            text, labels, answer = kept
            infos.append([w for w, keep in zip(text, labels) if keep])
            span = mention(query, self.facts[fact][0])
            if span is None:
                return None
            for n in range(*span):
                drops[n] = True
            answers.append((len(infos[-1]) - len(answer), answer))
        tokens = ["Query", ":"] + query
        labels = [False, False] + [not d for d in drops]
        for n, (info, (_, answer)) in enumerate(zip(infos, answers)):
            tokens += ([";"] if n else []) + ["Info", ":"] + info
            labels += ([False] if n else []) + [False, False]
            # Where name and answer stand in the text decides which comes first; the answer is what is kept.
            at = find(info[::-1], answer[::-1])
            first = len(info) - at - len(answer)
            labels += [first <= m < first + len(answer) for m in range(len(info))]
        following = [w for w, keep in zip(tokens, labels) if keep]
        return tokens, labels, following


def efficientrag(world, bm25, rng, labeler, filters, encoder, keep, negatives=2):
    for question in world.questions:
        steps = Steps(world, question, keep)
        gold = set(steps.passages)
        queries = [(words(question["text"]), question["text"], 0)]
        for number, facts in enumerate(steps.rounds):
            last = number + 1 == len(steps.rounds)
            following = []
            for query, text, hop in queries:
                wanted = [f for f in facts if mention(query, steps.facts[f][0])]
                for fact in wanted:
                    kept = steps.kept(fact)
                    if kept is None:
                        continue
                    tokens, labels, _ = kept
                    tag = "FINISH" if last else "CONTINUE"
                    passage = world.passages[steps.passages[fact]]
                    labeler.append((text, passage.chunk, tokens, labels, tag, question["id"], passage.id, hop))
                    found = [n for n in bm25.search(text, 12) if n not in gold]
                    encoder.append((question["id"], text, passage.chunk, [world.passages[n].chunk for n in found[:4]], hop))
                found = [n for n in bm25.search(text, 10) if n not in gold]
                linked = [n for n in world.linked(steps.passages[facts[0]]) if n not in gold]
                wrong = found[:1] + rng.sample(found[1:], min(len(found) - 1, negatives - 1)) if found else []
                if linked and rng.random() < 0.3:
                    wrong.append(rng.choice(linked))
                # Gold of an earlier hop, which this query no longer needs.
                done = {steps.passages[f] for earlier in steps.rounds[:number] for f in earlier}
                if done and rng.random() < 0.5:
                    wrong.append(rng.choice(sorted(done)))
                for n in wrong:
                    passage = world.passages[n]
                    tokens = words(passage.chunk)
                    row = (text, passage.chunk, tokens, [False] * len(tokens), "TERMINATE", question["id"], passage.id, hop)
                    labeler.append(row)
                subsets = [wanted] if len(wanted) < 2 else [wanted, [rng.choice(wanted)]]
                for subset in subsets:
                    if not subset:
                        continue
                    # As found: in no particular order.
                    made = steps.next_query(query, rng.sample(subset, len(subset)))
                    if made is None:
                        continue
                    tokens, labels, after = made
                    filters.append((tokens, labels, question["id"], hop))
                    if subset != wanted and len(wanted) > 1:
                        # One side is still to be found.
                        rest = [f for f in wanted if f not in subset]
                        for fact in rest:
                            kept = steps.kept(fact)
                            if kept:
                                passage = world.passages[steps.passages[fact]]
                                tag = "FINISH" if last else "CONTINUE"
                                row = (" ".join(after), passage.chunk, kept[0], kept[1], tag, question["id"], passage.id, hop + 1)
                                labeler.append(row)
                                encoder.append((question["id"], " ".join(after), passage.chunk, [], hop + 1))
                        continue
                    if last:
                        # Nothing is left to find: whatever comes now is of no use.
                        found = bm25.search(" ".join(after), 5)
                        for n in rng.sample(found, min(len(found), 2)):
                            passage = world.passages[n]
                            chunk = words(passage.chunk)
                            row = (" ".join(after), passage.chunk, chunk, [False] * len(chunk), "TERMINATE", question["id"], passage.id, hop + 1)
                            labeler.append(row)
                    else:
                        following.append((after, " ".join(after), hop + 1))
            queries = following


def promptrank(world, tfidf, rng, scorer, singles=4, wrong=3):
    """Candidates as the method meets them: single passages of the pool, and paths over links of gold and of other passages."""
    text = lambda n: world.passages[n].text  # noqa: E731
    for question in world.questions:
        gold = world.gold(question)
        asked = question["text"]
        pool = tfidf.search(asked, 100)
        others = [n for n in pool if n not in gold]
        if len(others) < singles:
            continue
        near = others[: 2 * singles]
        chosen = rng.sample(near, singles - 1) + rng.sample(others, 1)
        rows = []

        def add(path, relevance):
            rows.append((question["id"], asked, [text(n) for n in path], relevance))

        def best_links(first, most, skip):
            linked = world.linked(first)
            order = rank_links(asked, [text(n) for n in linked])
            return [linked[n] for n in order if linked[n] not in skip][:most]

        if question["kind"] == "bridge":
            add(gold[:2], 2)
            add(gold[:1], 1)
            add(gold[1:2], 1)
            starts = gold[:1]
        elif question["kind"] == "comparison":
            for n in gold:
                add([n], 2)
            starts = gold
        else:
            add(gold[:2], 2)
            add(gold[2:], 2)
            add(gold[:1], 1)
            add(gold[2:3], 1)
            starts = [gold[0], gold[2]]
        for n in dict.fromkeys(chosen):
            add([n], 0)
        for start in starts:
            for n in best_links(start, wrong if len(starts) == 1 else wrong - 1, set(gold)):
                add([start, n], 0)
        first = near[0]
        for n in best_links(first, 1, set(gold)):
            add([first, n], 0)
        scorer.extend(rows)


def reading(world, tfidf, rng, reader):
    for question in world.questions:
        gold = world.gold(question)
        answer = question["answers"][0]
        shown = lambda n: f"{world.passages[n].title} {world.passages[n].text}"  # noqa: E731
        texts = [shown(n) for n in gold]
        held = answer in ("yes", "no") or any(answer in t for t in texts)
        if held:
            reader.append((question["id"], question["text"], texts, answer, 1))
        others = [n for n in tfidf.search(question["text"], 30) if n not in gold]
        linked = [n for n in world.linked(gold[0]) if n not in gold]
        if not others:
            continue
        wrong = [gold[0], rng.choice(linked)] if linked and rng.random() < 0.6 else [rng.choice(others), rng.choice(others)]
        texts = [shown(n) for n in dict.fromkeys(wrong)]
        reader.append((question["id"], question["text"], texts, "", 0))


def subquestion(question, number):
    """A step's question, with the answers of earlier steps in the place of its references."""
    steps = question["decomposition"]
    return re.sub(r"#(\d+)", lambda found: steps[int(found[1]) - 1]["answer"], steps[number]["question"])


def names_both(passage, fact):
    """Whether a passage names both ends of a fact: it may then state the fact from the other side."""
    shown = f"{passage.title} {passage.text}"
    return all(end.split(" (")[0].split(", ")[0] in shown for end in (fact[0], fact[2]))


def reranking(world, bm25, rng, reranker, near=5, wrong=2, sentences=0.5):
    """Pairs of a query and a text for a cross-encoder. The queries are each question and one of its sub-questions."""
    for question in world.questions:
        facts, gold, asked = question["evidences"], world.gold(question), question["text"]
        of_facts = [world.by_id[step["evidence"][0]] for step in question["decomposition"]]
        supporting = {}
        for title, sentence in question["supporting_facts"]:
            supporting.setdefault(world.by_title[title], set()).add(sentence)
        number = rng.randrange(len(of_facts))
        for query, wanted, asks in (
            (asked, gold, facts),
            (subquestion(question, number), [of_facts[number]], [facts[number]]),
        ):
            # A passage that names both ends of a fact is neither: it is no gold, and may state the fact all the same.
            no_use = lambda n: n not in wanted and not any(names_both(world.passages[n], f) for f in asks)  # noqa: E731
            found = list(filter(no_use, bm25.search(query, 20)))
            linked = list(filter(no_use, dict.fromkeys(m for n in wanted for m in world.linked(n))))
            # Gold of another step, which this query does not ask for.
            others = list(filter(no_use, gold))
            chosen = rng.sample(found[:near], min(1, len(found)))
            chosen += rng.sample(found[near:], min(wrong, len(found[near:])))
            chosen += rng.sample(linked, min(1, len(linked))) + rng.sample(others, min(1, len(others)))
            for n in dict.fromkeys([*wanted, *chosen]):
                passage = world.passages[n]
                reranker.append((question["id"], query, f"{passage.title} {passage.text}", int(n in wanted)))
            # Methods put single sentences of a passage to the same model.
            if rng.random() < sentences:
                n = rng.choice(wanted)
                told, holding = world.passages[n].sentences, sorted(supporting[n])
                rest = [m for m in range(len(told)) if m not in supporting[n]]
                for m in [rng.choice(holding), *rng.sample(rest, min(1, len(rest)))]:
                    reranker.append((question["id"], query, told[m], int(m in supporting[n])))


COLUMNS = {
    "scorer": [("question_id", pa.string()), ("question", pa.string()), ("path", pa.list_(pa.string())), ("relevance", pa.int8())],
    "labeler": [
        ("question", pa.string()),
        ("chunk", pa.string()),
        ("matched", pa.string()),
        ("chunk_tokens", pa.list_(pa.string())),
        ("labels", pa.list_(pa.bool_())),
        ("tag", pa.string()),
        ("question_id", pa.string()),
        ("passage", pa.string()),
        ("hop", pa.int32()),
    ],
    "filter": [
        ("query_info_tokens", pa.list_(pa.string())),
        ("query_info_labels", pa.list_(pa.bool_())),
        ("question_id", pa.string()),
        ("hop", pa.int32()),
    ],
    "reader": [
        ("question_id", pa.string()),
        ("question", pa.string()),
        ("passages", pa.list_(pa.string())),
        ("answer", pa.string()),
        ("relevance", pa.int8()),
    ],
    "encoder": [
        ("question_id", pa.string()),
        ("query", pa.string()),
        ("positive", pa.string()),
        ("negatives", pa.list_(pa.string())),
        ("hop", pa.int32()),
    ],
    "reranker": [
        ("question_id", pa.string()),
        ("query", pa.string()),
        ("text", pa.string()),
        ("relevance", pa.int8()),
    ],
}


def as_published(question, chunk, tokens, labels, tag, *rest):
    """A labeler's row with the columns and tags of the authors' files."""
    matched = " ".join(word for word, keep in zip(tokens, labels) if keep)
    return (question, chunk, matched, tokens, labels, f"<{tag}>", *rest)


def write(rows, name, out):
    schema = pa.schema(COLUMNS[name])
    columns = list(zip(*rows)) or [[] for _ in schema]
    table = pa.Table.from_arrays([pa.array(list(c), f.type) for c, f in zip(columns, schema)], schema=schema)
    parquet.write_table(table, out / f"{name}.parquet", compression="zstd")
    return len(rows)


def read(path, *columns):
    """Rows of a Parquet file as dictionaries, or of released rows in its place; a column that is missing is named."""
    if not path.is_file() and (instead := released.file_of(path)):
        return released.read(instead, columns)
    table = parquet.read_table(path)
    missing = [c for c in columns if c not in table.column_names]
    if missing:
        raise SystemExit(f"{path}: lacks the columns {', '.join(missing)}; it has {', '.join(table.column_names)}")
    return table.select(list(columns)).to_pylist()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", action="append", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--singles", type=int, default=4, help="wrong single passages among a question's candidates")
    made_together = "one file; labeler, filter and encoder are made together, reranker only by its name"
    parser.add_argument("--only", choices=COLUMNS, help=made_together)
    parser.add_argument("--keep", choices=("subject-and-answer", "answer"), default="subject-and-answer", help="words of a gold chunk")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(options.seed)
    rows = {name: [] for name in COLUMNS}
    for folder in options.world:
        world = World.read(folder)
        texts = [f"{p.title} {p.text}" for p in world.passages]
        tfidf, bm25 = TfIdf(texts), Bm25(texts)
        if options.only in (None, "scorer"):
            promptrank(world, tfidf, rng, rows["scorer"], options.singles)
        if options.only in (None, "labeler", "filter", "encoder"):
            efficientrag(world, bm25, rng, rows["labeler"], rows["filter"], rows["encoder"], options.keep)
        if options.only in (None, "reader"):
            reading(world, tfidf, rng, rows["reader"])
        if options.only == "reranker":
            reranking(world, bm25, rng, rows["reranker"])
    rows["labeler"] = [as_published(*row) for row in rows["labeler"]]
    for name, made in rows.items():
        if made:
            print(name, write(made, name, options.out))


if __name__ == "__main__":
    main()
