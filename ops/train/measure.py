"""Measures a scorer and an EfficientRAG pair on a world, by slow and obvious versions of the methods.

hopeval's own machines are what is reported; this is for watching a training run.
"""

from retrieval import Bm25, TfIdf, rank_links
from worlds import words


def share(hits, of):
    return round(hits / max(1, of), 4)


def promptrank(world, score, questions, pool=100, first=5, links=3):
    """`recall_all@2` of PromptRank, of single-hop re-ranking with the same scorer, and of TF-IDF with BM25; `@10` too.

    `score(question, paths)` gives a number for each path, a list of texts.
    """
    texts = [f"{p.title} {p.text}" for p in world.passages]
    tfidf, bm25 = TfIdf(texts), Bm25(texts)
    counts, kinds = {}, {}

    def note(name, order, gold, kind):
        for k in (2, 10):
            hit = set(gold) <= set(order[:k])
            counts[f"{name}@{k}"] = counts.get(f"{name}@{k}", 0) + hit
            if name == "promptrank" and k == 2:
                done, of = kinds.get(kind, (0, 0))
                kinds[kind] = (done + hit, of + 1)

    asked = world.questions[:questions]
    for question in asked:
        gold, text = world.gold(question), question["text"]
        candidates = tfidf.search(text, pool)
        found = bm25.scores(text)
        expanded = dict.fromkeys(candidates)
        for n in candidates:
            expanded.update(dict.fromkeys(world.linked(n)))
        note("tfidf_bm25_links", sorted(expanded, key=lambda n: (-found[n], n)), gold, question["kind"])
        note("tfidf_bm25", sorted(candidates, key=lambda n: (-found[n], n)), gold, question["kind"])
        scores = dict(zip(candidates, score(text, [[world.passages[n].text] for n in candidates])))
        ranked = sorted(candidates, key=lambda n: (-scores[n], n))
        note("single_hop", ranked, gold, question["kind"])
        paths = []
        for n in ranked[:first]:
            linked = world.linked(n)
            order = rank_links(text, [world.passages[m].text for m in linked])[:links]
            paths += [(n, linked[m]) for m in order]
        found = score(text, [[world.passages[n].text for n in path] for path in paths]) if paths else []
        for path, value in zip(paths, found):
            for n in path:
                scores[n] = max(scores.get(n, value), value)
        note("promptrank", sorted(scores, key=lambda n: (-scores[n], n)), gold, question["kind"])
        reach = set(gold) <= {n for path in paths for n in path} | set(candidates)
        counts["within_reach"] = counts.get("within_reach", 0) + reach
        counts["first_in_5"] = counts.get("first_in_5", 0) + (gold[0] in ranked[:first])
    result = {name: share(hits, len(asked)) for name, hits in counts.items()}
    return result | {f"promptrank@2 {kind}": share(*pair) for kind, pair in sorted(kinds.items())}


def dense(world, embed, label, refine, questions, k=10, iterations=4):
    """EfficientRAG beside one-step dense retrieval over the same encoder: recall, and chunks counted.

    `embed(texts)` gives vectors; `label(query, chunks)` a (words kept, terminates) for each chunk; `refine(query, infos)` the
    next query as words.
    """
    import numpy as np

    matrix = embed([p.chunk for p in world.passages])
    counts, chunks, rounds, curve = {}, 0, 0, {}
    asked = world.questions[:questions]
    for question in asked:
        gold = set(world.gold(question))
        one = np.argsort(-(matrix @ embed([question["text"]])[0]), kind="stable")
        for n in (2, 3, 4, 5, 10, 20):
            curve[f"one_step@{n}"] = curve.get(f"one_step@{n}", 0) + len(gold & set(one[:n].tolist())) / len(gold)
        query, kept = words(question["text"]), []
        for _ in range(iterations):
            rounds += 1
            order = np.argsort(-(matrix @ embed([" ".join(query)])[0]), kind="stable")[:k].tolist()
            answers = label(query, [words(world.passages[n].chunk) for n in order])
            going = [(n, info) for n, (info, stop) in zip(order, answers) if not stop]
            kept += [n for n, _ in going]
            if not going:
                break
            query = refine(query, [info for _, info in going if info])
        chunks += len(kept)
        counts["efficientrag"] = counts.get("efficientrag", 0) + len(gold & set(kept)) / len(gold)
        counts["efficientrag_all"] = counts.get("efficientrag_all", 0) + (gold <= set(kept))
    size = len(asked)
    result = {name: round(total / size, 4) for name, total in {**curve, **counts}.items()}
    return result | {"chunks": round(chunks / size, 2), "rounds": round(rounds / size, 2)}
