#!/usr/bin/env python3
"""PromptRank as a straightforward loop over transformers, in a process that keeps models and indexes open.

Why: hopeval's throughput is measured beside what one would write without it. What: question by question, the pool from a sparse
matrix of TF-IDF weights; its passages scored by T5 in padded batches of 16, in the order in which they arise, instruction by
instruction; the links of the best ones ranked by scikit-learn; the paths scored the same way; passages ranked. Parameters,
prompts and rules are those of `ops/reference/promptrank.py`, with what costs nothing to do better: a passage is cut and a path is
scored once for a question.

Reads lines of standard input, `{"configuration": NAME, "questions": N}`, and answers each with the seconds that it took and what
was ranked. Opening models and indexes is not counted.

    loop.py --run STORE/runs/RUN --corpus DIR --threads N [--model SERVICE=DIR]
"""

import argparse
import json
import math
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "reference"))

import inputs
import numpy as np
import promptrank
import scipy.sparse
import sparse
import torch

BATCH = 16


class Matrix:
    """DrQA's TF-IDF as one sparse matrix, passages by hashed n-grams."""

    def __init__(self, retriever):
        self.grams = retriever.grams
        self.columns = {bucket: column for column, bucket in enumerate(retriever.postings)}
        rows, columns, weights, self.idf = [], [], [], np.zeros(len(self.columns))
        for bucket, column in self.columns.items():
            postings = retriever.postings[bucket]
            idf = max(0.0, math.log((retriever.count - len(postings) + 0.5) / (len(postings) + 0.5)))
            self.idf[column] = idf
            for passage, tf in postings:
                rows.append(passage)
                columns.append(column)
                weights.append(math.log1p(tf) * idf)
        shape = (retriever.count, len(self.columns))
        self.matrix = scipy.sparse.csc_matrix((weights, (rows, columns)), shape)

    def search(self, query, k):
        asked = [(self.columns[bucket], count) for bucket, count in sorted(self.grams(query).items()) if bucket in self.columns]
        columns = [column for column, _ in asked]
        weights = np.array([math.log1p(count) for _, count in asked]) * self.idf[columns]
        scores = self.matrix[:, columns] @ weights
        found = np.flatnonzero(scores)
        best = found[np.lexsort((found, -scores[found]))][:k]
        return list(zip(best.tolist(), scores[best].tolist()))


class Loop(promptrank.PromptRank):
    """PromptRank whose paths are scored in padded batches."""

    def __init__(self, scorer, retriever, *given):
        super().__init__(*given, scorer=scorer, retriever=retriever)
        if not scorer.encodes:
            raise SystemExit("the loop is written for encoder-decoders")
        self.texts = {}

    def document(self, passage, hop):
        if (passage, hop) not in self.texts:
            self.texts[passage, hop] = super().document(passage, hop)
        return self.texts[passage, hop]

    def rank(self, question):
        self.texts.clear()
        return super().rank(question)

    def scored(self, question, paths, known, hop, unscored):
        together = self.parameters["rerank"] == "path"
        new = dict.fromkeys(path if together else path[-1:] for path in paths)
        new = [path for path in new if path not in known]
        rows = [[] for _ in new]
        for context in self.contexts:
            for first in range(0, len(new), BATCH):
                batch = new[first : first + BATCH]
                for at, row in enumerate(self.batch(question, [self.prompt(context, path) for path in batch]), first):
                    rows[at].append(row)
        known.update((path, self.combined(of, hop)) for path, of in zip(new, rows))
        return super().scored(question, paths, known, hop, unscored)

    def batch(self, question, prompts):
        """The log-probabilities of the question's tokens after each prompt."""
        scorer, target = self.scorer, self.target(question)
        ids = [encoding.ids for encoding in scorer.tokenizer.encode_batch(prompts)]
        longest = max(map(len, ids))
        pad = scorer.model.config.pad_token_id
        padded = torch.tensor([row + [pad] * (longest - len(row)) for row in ids])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
        wanted = torch.tensor([target] * len(prompts))
        logits = scorer.model(input_ids=padded, attention_mask=mask, labels=wanted, use_cache=False).logits
        logs = torch.log_softmax(logits / self.parameters["temperature"], dim=-1)
        return logs.gather(2, wanted.unsqueeze(2)).squeeze(2).tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", required=True)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--model", action="append", metavar="SERVICE=DIR")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_grad_enabled(False)
    run, corpus, folders = inputs.Run(arguments.run), inputs.Corpus(arguments.corpus), inputs.pairs(arguments.model)
    scorers, retrievers = {}, {}
    print(json.dumps({"open": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        parameters = run.parameters(asked["configuration"], "promptrank")
        scorer, retriever = parameters["scorer"], parameters["retriever"]
        if scorer not in scorers:
            settings = run.services[scorer]
            scorers[scorer] = promptrank.Scorer(inputs.model_folder((scorer, settings), folders), settings)
        if retriever not in retrievers:
            made = sparse.retriever(run.services[retriever], corpus.titles, corpus.texts)
            retrievers[retriever] = Matrix(made) if isinstance(made, sparse.DrqaTfidf) else made
        loop = Loop(scorers[scorer], retrievers[retriever], run, corpus, parameters, folders)
        loop.rank(run.questions[0][1])
        wall, cpu = time.perf_counter(), time.process_time()
        ranked = {id: loop.rank(text)["ranked"] for id, text in run.questions[: asked["questions"]]}
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps({"wall_s": wall, "cpu_s": cpu, "ranked": ranked}), flush=True)


if __name__ == "__main__":
    main()
