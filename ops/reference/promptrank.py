#!/usr/bin/env python3
"""PromptRank, slowly and obviously: every path is scored alone by transformers, as the paper says (sections 2 and 3).

Why: hopeval's machine asks in rounds, its engine packs, shares and batches; what comes out must be this. What: for each
question of a run, the pool, the links, the paths with their scores and the ranked documents, by the parameters that the run
recorded, as one JSON line. `compare.py` holds both side by side.

    promptrank.py --run STORE/runs/RUN --configuration NAME --corpus DIR [--model SERVICE=DIR] --out FILE

Not here: the reader; prompts over their budget (`overflow`), which are reported and left out.

Needs torch, transformers, tokenizers, pyarrow, regex and scikit-learn.
"""

import math
import statistics

import command
import inputs
import sparse
import tokenizers
import torch
import transformers


class Scorer:
    """A language model that says how likely a text is after another, one pair at a time."""

    def __init__(self, folder, settings):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        config = transformers.AutoConfig.from_pretrained(folder)
        self.encodes = config.is_encoder_decoder
        self.ends = self.encodes and settings.get("target_eos", True)
        kind = transformers.AutoModelForSeq2SeqLM if self.encodes else transformers.AutoModelForCausalLM
        self.model = kind.from_pretrained(folder, dtype=torch.float32).eval()

    def ids(self, text, special=False):
        return self.tokenizer.encode(text, add_special_tokens=special).ids

    def shortened(self, text, most):
        """The first `most` tokens of a text, as text."""
        ids = self.ids(text)
        return text if most is None or len(ids) <= most else self.tokenizer.decode(ids[:most], skip_special_tokens=False)

    def log_probabilities(self, prompt, target, temperature):
        """Of the target's tokens after the prompt's."""
        with torch.no_grad():
            if self.encodes:
                read = [self.model.config.decoder_start_token_id] + target[:-1]
                logits = self.model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([read])).logits[0]
            else:
                logits = self.model(input_ids=torch.tensor([prompt + target[:-1]])).logits[0][len(prompt) - 1 :]
        rows = torch.log_softmax(logits.double() / temperature, dim=-1)
        return [float(row[token]) for row, token in zip(rows, target)]


def frames(parameters):
    """What stands before the first document and after the last one, for each instruction."""
    separator, cue = parameters["separator"], parameters["cue"]
    led = lambda text: separator + text if text else ""
    for instruction in parameters["instructions"]:
        position = parameters["position"]
        if isinstance(instruction, dict):
            instruction, position = instruction["text"], instruction["position"]
        if "{passages}" in instruction:
            yield tuple(instruction.split("{passages}"))
        elif position == "after":
            yield "", led(instruction) + led(cue)
        elif position == "before":
            yield instruction + separator, led(cue)
        else:
            yield "", ""


def contexts(parameters):
    """Each instruction with each set of demonstrations, what is alike once."""
    sets = parameters["demonstrations"] or [[]]
    found = []
    for frame in frames(parameters):
        for demonstrations in sets:
            if (frame, demonstrations) not in found:
                found.append((frame, demonstrations))
    return found


class PromptRank:
    def __init__(self, run, corpus, parameters, folders, scorer=None, retriever=None):
        """`scorer` and `retriever` are those of the parameters' services, if they are open already."""
        self.corpus, self.parameters = corpus, parameters
        if parameters["ties"] != "smaller_id":
            raise SystemExit("the reference ranks the smaller id of equally good paths and documents first")
        services = run.services
        self.retriever = retriever or sparse.retriever(services[parameters["retriever"]], corpus.titles, corpus.texts)
        self.ranker = services[parameters["link_ranker"] or parameters["retriever"]]
        settings = services[parameters["scorer"]]
        self.scorer = scorer or Scorer(inputs.model_folder((parameters["scorer"], settings), folders), settings)
        self.contexts = contexts(parameters)
        usual = 1024 if any(parameters["demonstrations"] or []) else 600
        self.budget = parameters["prompt_tokens"] or usual

    def document(self, passage, hop):
        """A passage as it stands in the prompt; `hop` from 0."""
        titled = {"none": False, "first_hop": hop == 0, "all": True}[self.parameters["titles"]]
        text = self.corpus.texts[passage]
        if titled:
            text = f"Title: {self.corpus.titles[passage]}. {text}"
        return self.scorer.shortened(text, self.parameters["passage_tokens"])

    def worded(self, frame, documents):
        if self.parameters["path_order"] == "inverted":
            documents = documents[::-1]
        before, after = frame
        return before + self.parameters["separator"].join(self.parameters["label"] + text for text in documents) + after

    def prompt(self, context, path):
        frame, demonstrations = context
        separator, text = self.parameters["separator"], ""
        for demonstration in demonstrations:
            shown = [self.scorer.shortened(t, self.parameters["demonstration_tokens"]) for t in demonstration["texts"]]
            text += self.worded(frame, shown) + separator + demonstration["question"] + separator
        return text + self.worded(frame, [self.document(passage, hop) for hop, passage in enumerate(path)])

    def target(self, question):
        """What is scored, as tokens."""
        if self.parameters["question_mark"] and not question.endswith("?"):
            question += "?"
        ids = self.scorer.ids(self.parameters["question_prefix"] + question)
        return ids + ([self.scorer.model.config.eos_token_id] if self.scorer.ends else [])

    def score(self, question, path, hop):
        """The likelihood of the question after a path; None where a prompt is longer than its budget."""
        rows, target = [], self.target(question)
        for context in self.contexts:
            prompt = self.scorer.ids(self.prompt(context, path), special=True)
            if len(prompt) > self.budget:
                return None
            rows.append(self.scorer.log_probabilities(prompt, target, self.parameters["temperature"]))
        return self.combined(rows, hop)

    def combined(self, rows, hop):
        """The score of what was read, from the log-probabilities of the question's tokens in each context."""
        parameters = self.parameters
        if self.scorer.ends and not parameters["score_end"]:
            rows = [row[:-1] for row in rows]
        whole = {"mean": statistics.fmean, "sum": math.fsum}[parameters["normalise"]]
        ensemble = (hop > 1 and parameters["next_ensemble"]) or parameters["ensemble"]
        if ensemble in ("max", "mean"):
            return {"max": max, "mean": statistics.fmean}[ensemble]([whole(row) for row in rows])
        tokens = {"token_max": max, "token_mean": statistics.fmean, "token_median": statistics.median_low}[ensemble]
        return whole([tokens(column) for column in zip(*rows)])

    def links(self, question, passage):
        """The links of a passage, most similar to the question first."""
        linked = self.corpus.outgoing if self.parameters["link_direction"] == "outgoing" else self.corpus.incoming
        links = [link for link in linked[passage] if link != passage]
        if not links:
            return []
        members = sorted(set(links))
        titles, texts = [self.corpus.titles[m] for m in members], [self.corpus.texts[m] for m in members]
        found = sparse.retriever(self.ranker, titles, texts).search(question, len(members))
        later = self.parameters["link_ties"] == "later"
        tie = (lambda link: -links.index(link)) if later else (lambda link: link)
        ranked = [(members[position], score) for position, score in found]
        ordered = [link for link, _ in sorted(ranked, key=lambda pair: (-pair[1], tie(pair[0])))]
        unranked = [] if self.parameters["link_ranker"] else [link for link in members if link not in ordered]
        return ordered + sorted(unranked, key=tie)

    def per_hop(self, name, hop):
        value = self.parameters[name]
        return value[min(hop, len(value)) - 1] if isinstance(value, list) else value

    def expanded(self, hop):
        """How many paths of `hop` passages are expanded."""
        if hop > 1 and self.parameters["next_hops"] is not None:
            return self.per_hop("next_hops", hop - 1)
        return self.parameters["first_hops"]

    def scored(self, question, paths, known, hop, unscored):
        """The paths of a hop that have a score, best first."""
        together = self.parameters["rerank"] == "path"
        for path in paths:
            read = path if together else path[-1:]
            if read not in known:
                known[read] = self.score(question, read, hop)
                if known[read] is None:
                    unscored.append(read)
        if together:
            found = [(known[path], path) for path in paths]
        else:
            alone = lambda path: [known[(passage,)] for passage in path]
            found = [(None if None in alone(path) else statistics.fmean(alone(path)), path) for path in paths]
        return sorted(((score, path) for score, path in found if score is not None), key=lambda pair: (-pair[0], pair[1]))

    def rank(self, question):
        parameters = self.parameters
        pool = [passage for passage, _ in self.retriever.search(question, parameters["pool"])]
        known, links, unscored = {}, {}, []
        beam = self.scored(question, [(passage,) for passage in pool], known, 1, unscored)
        everything = list(beam)
        for hop in range(1, parameters["hops"]):
            longer = []
            for _, path in beam[: self.expanded(hop)]:
                last = path[-1]
                if last not in links:
                    links[last] = self.links(question, last)
                new = [link for link in links[last] if link not in path]
                longer += [path + (link,) for link in new[: self.per_hop("links_per_passage", hop)]]
            if not longer:
                break
            beam = self.scored(question, longer, known, hop + 1, unscored)
            everything += beam
        everything.sort(key=lambda pair: (-pair[0], pair[1]))
        if parameters["rerank"] == "path":
            judged = everything
        else:
            judged = [(score, path) for path, score in known.items() if score is not None]
        documents = sorted(self.documents(judged).items(), key=lambda pair: (-pair[1], pair[0]))
        return {
            "pool": pool,
            "paths": [[list(path), score] for score, path in everything],
            "ranked": [list(document) for document in documents],
            "unscored": [list(path) for path in unscored],
        }

    def documents(self, paths):
        """Of each document, what the paths that it is on make of it (appendix B)."""
        on = {}
        for score, path in paths:
            for passage in path:
                on.setdefault(passage, []).append((len(path), score))
        rule = self.parameters["document_score"]
        scores = lambda of: [score for _, score in of]
        if rule == "longest":
            return {passage: max(s for n, s in of if n == max(of)[0]) for passage, of in on.items()}
        combine = {"max": max, "min": min, "mean": statistics.fmean}[rule]
        return {passage: combine(scores(of)) for passage, of in on.items()}


if __name__ == "__main__":
    command.write_answers(__doc__, "promptrank", lambda *given: PromptRank(*given).rank)
