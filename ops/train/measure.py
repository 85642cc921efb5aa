"""Measures a scorer, an EfficientRAG pair and a reranker on a world, by slow and obvious versions of the methods.

hopeval's own machines are what is reported; this is for watching a training run.
"""

from retrieval import Bm25, TfIdf, rank_links
from rows import subquestion
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


def reranked(world, score, questions, pool=20, k=5, thresholds=(-4, -3, -2, -1, 0, 1, 2, 3, 4)):
    """BM25's first `pool` in the order of a cross-encoder: of questions, and of their sub-questions with the answers of
    earlier steps filled in, apart. `bm25` and `recall` are the mean share of a query's gold among the first `k`, before
    and after, and `within` that among the whole pool. For each threshold: the shares of the pools' gold, and of the
    rest, whose logit is above it.

    `score(query, texts)` gives a logit for each text.
    """
    texts = [f"{p.title} {p.text}" for p in world.passages]
    bm25, result = Bm25(texts), {}
    for kind in ("questions", "subquestions"):
        queries = []
        for question in world.questions[:questions]:
            if kind == "questions":
                queries.append((question["text"], set(world.gold(question))))
            else:
                steps = enumerate(question["decomposition"])
                queries += [(subquestion(question, n), {world.by_id[i] for i in step["evidence"]}) for n, step in steps]
        recalls, logits = {"within": 0.0, "bm25": 0.0, "recall": 0.0}, {True: [], False: []}
        for query, gold in queries:
            found = bm25.search(query, pool)
            given = dict(zip(found, score(query, [texts[n] for n in found])))
            orders = {"within": found, "bm25": found[:k], "recall": sorted(found, key=lambda n: -given[n])[:k]}
            for name, order in orders.items():
                recalls[name] += len(gold & set(order)) / len(gold)
            for n, logit in given.items():
                logits[n in gold].append(logit)
        of_kind = {name: share(total, len(queries)) for name, total in recalls.items()}
        of_kind |= {"queries": len(queries), "gold": len(logits[True]), "others": len(logits[False])}
        for threshold in thresholds:
            above = [share(sum(v > threshold for v in logits[of]), len(logits[of])) for of in (True, False)]
            of_kind[f"above {threshold}"] = above
        result[kind] = of_kind
    return result
