"""A server without a model that ranks texts and says what entails what, by shared words and a hash.

It stands behind the services that MIGRES and ALCE's readers need beside a language model: a cross-encoder, whose
relevances look like raw logits and are the same once in a while, and TRUE's entailment, which writes `1` or `0`. All
that it says is a function of the texts. It keeps every body that it was sent.
"""

import collections
import functools
import json
import pathlib
import re
import sys
import threading

import blake3

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))

from post_server import PostServer  # noqa: E402


@functools.lru_cache(200_000)
def words(text):
    return frozenset(re.findall(r"\w{3,}", text.lower()))


def share(small, large):
    """The share of the words of `small` that `large` has, and a number of their hash from 0 to 1."""
    wanted = words(small)
    drawn = int.from_bytes(blake3.blake3((small + "\n" + large).encode()).digest()[:4]) / 2**32
    return len(wanted & words(large)) / max(1, len(wanted)), drawn


def relevance(query, text):
    """Between -4 and 10, to one digit; a zero has no sign."""
    part, drawn = share(query, text)
    return round(11 * part - 4 + 3 * drawn, 1) + 0.0


def entails(premise, hypothesis):
    part, drawn = share(hypothesis, premise)
    return (part > 0.55) != (drawn < 0.1)


class Scorers(PostServer):
    def __init__(self):
        self.sent, self.lock = collections.Counter(), threading.Lock()
        super().__init__(self.reply)

    def reply(self, body, path, headers):
        with self.lock:
            self.sent[body] += 1
        return json.dumps(answer_of(json.loads(body), path)).encode()

    def bodies(self):
        return collections.Counter({blake3.blake3(body).hexdigest(): count for body, count in self.sent.items()})


def answer_of(fields, path):
    if path.endswith("/rerank"):
        scores = [relevance(fields["query"], text) for text in fields["documents"]]
        ranked = sorted(range(len(scores)), key=lambda at: -scores[at])
        return {"id": "rank", "model": fields["model"], "usage": {"prompt_tokens": 1, "total_tokens": 1},
                "results": [{"index": at, "relevance_score": scores[at]} for at in ranked]}
    chat = path.endswith("/chat/completions")
    prompt = fields["messages"][-1]["content"] if chat else fields["prompt"]
    premise, hypothesis = prompt.removeprefix("premise: ").split(" hypothesis: ", 1)
    text = "1" if entails(premise, hypothesis) else "0"
    choice = {"index": 0, "finish_reason": "stop"}
    choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return {"id": "entail", "object": "chat.completion" if chat else "text_completion", "created": 0,
            "model": fields["model"], "choices": [choice],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
