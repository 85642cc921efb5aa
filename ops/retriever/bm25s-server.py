#!/usr/bin/env python3
"""Serves bm25s over HTTP, as a retriever of `kind = "http_retriever"`.

Why: hopeval can ask any retriever. This is the whole of a server, to be copied for another index: FAISS, Pyserini and
Elasticsearch need another `rank` alone.

What: `POST /search {"query": text, "k": n}` is answered with `{"results": [{"id": .., "score": ..}, ..]}`, best first.
The corpus is JSON lines of `id`, `title` and `text`. Words and formula are those of hopeval's default BM25.

    bm25s-server.py CORPUS.jsonl [--port 8093]

Needs bm25s 0.3.16 from PyPI. Prints a line when it takes requests.
"""

import argparse
import http.server
import json
import re

import bm25s
import numpy


def words(text):
    return re.findall(r"\w+", text.lower())


class Index:
    def __init__(self, path):
        with open(path, encoding="utf-8") as lines:
            passages = [json.loads(line) for line in lines]
        self.ids = [passage["id"] for passage in passages]
        self.index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
        self.index.index([words(f"{p['title']} {p['text']}") for p in passages], show_progress=False)

    def rank(self, query, k):
        known = [word for word in words(query) if word in self.index.vocab_dict]
        if not known:
            return []
        scores = self.index.get_scores(known)
        best = numpy.argsort(-scores, kind="stable")[:k]
        return [{"id": self.ids[n], "score": float(scores[n])} for n in best if scores[n] > 0]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = json.dumps({"results": self.server.index.rank(asked["query"], asked["k"])}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_):
        self.server.asked += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus")
    parser.add_argument("--port", type=int, default=8093)
    options = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
    server.index, server.asked = Index(options.corpus), 0
    print(f"{len(server.index.ids)} passages at http://127.0.0.1:{options.port}/search", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print(f"{server.asked} requests answered", flush=True)


if __name__ == "__main__":
    main()
