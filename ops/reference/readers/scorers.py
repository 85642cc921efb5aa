"""A server without a model that ranks texts and says what entails what, by shared words and a hash.

It stands behind the services that MIGRES and ALCE's readers need beside a language model: a cross-encoder, whose
relevances look like raw logits and are the same once in a while, and TRUE's entailment, which writes `1` or `0`. All
that it says is a function of the texts. It keeps every body that it was sent.
"""

import collections
import functools
import http.server
import json
import re
import threading

import blake3


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


class Scorers:
    def __init__(self):
        self.sent, self.lock = collections.Counter(), threading.Lock()
        scorers = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # An answer is two writes: the second one would wait for the acknowledgement of the first, 40 ms.
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                with scorers.lock:
                    scorers.sent[body] += 1
                answer = json.dumps(answer_of(json.loads(body), self.path)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()

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
