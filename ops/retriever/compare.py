#!/usr/bin/env python3
"""Shows that a retriever over HTTP has the outcomes of the same rankings brought in as a file.

Why: what a server ranks must be measured as what a file ranks, or a comparison says something about the way there.

What: `bm25s-server.py`, a process of its own, indexes the corpus of a generated world. hopeval asks it for each
question (`one_step` over `kind = "http_retriever"`), beside the same rankings as a file (`kind = "rankings"`), made
by the same index without HTTP. The measures of both are compared, all strata, digit by digit. Then a run at 20
requests a second is killed after five seconds and resumed, and the server's requests are counted.

    compare.py --hopeval target/debug/hopeval [--questions 300] [--passages 5000] [--folder DIR]

Needs bm25s 0.3.16. Exits with 1 if a figure differs.
"""

import argparse
import importlib.util
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
DEPTH = 20

JOB = """name = "http"
[dataset]
questions = "world/questions.jsonl"
[corpus]
source = "world/corpus.jsonl"
[run]
chunk = 8
[service.theirs]
kind = "http_retriever"
url = "http://127.0.0.1:{port}/search"
index = "bm25s 0.3.16, world 7"
[method.http]
kind = "one_step"
retriever = "theirs"
k = {depth}
[method.file]
kind = "rankings"
file = "theirs.jsonl"
"""


def served(options, folder):
    """Starts the server, and waits until it takes requests."""
    command = [sys.executable, HERE / "bm25s-server.py", folder / "world/corpus.jsonl", "--port", str(options.port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    print(server.stdout.readline().strip())
    return server


def stopped(server):
    """Ends the server; the number of requests that it answered."""
    server.send_signal(signal.SIGINT)
    said = server.communicate(timeout=30)[0].strip()
    print(said)
    return int(said.split()[0])


def write_rankings(folder):
    """The rankings of the same index as a file. The number of different questions."""
    spec = importlib.util.spec_from_file_location("bm25s_server", HERE / "bm25s-server.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    index, texts = module.Index(folder / "world/corpus.jsonl"), set()
    with open(folder / "theirs.jsonl", "w", encoding="utf-8") as out:
        for line in open(folder / "world/questions.jsonl", encoding="utf-8"):
            question = json.loads(line)
            texts.add(question["text"])
            ranked = [[row["id"], row["score"]] for row in index.rank(question["text"], DEPTH)]
            out.write(json.dumps({"id": question["id"], "ranked": ranked}) + "\n")
    return len(texts)


def figures(document, configuration):
    rows = (row for row in document["measures"] if row["configuration"] == configuration)
    return {(row["stratum"], row["measure"]): (row["value"], row["stderr"], row["n"]) for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hopeval", required=True, type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--questions", default="300")
    parser.add_argument("--passages", default="5000")
    parser.add_argument("--port", type=int, default=8093)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    folder = options.folder or pathlib.Path(tempfile.mkdtemp())

    def hopeval(*arguments):
        command = [options.hopeval, *arguments]
        return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout

    size = ["--questions", options.questions, "--passages", options.passages]
    hopeval("world", *size, "--seed", "7", "--out", "world")
    distinct = write_rankings(folder)
    (folder / "job.toml").write_text(JOB.format(port=options.port, depth=DEPTH))
    places = ["--cache", "cache", "--json", "--store"]

    server = served(options, folder)
    document = json.loads(hopeval("run", "job.toml", *places, "whole"))
    asked = stopped(server)
    over_http, of_file = figures(document, "http"), figures(document, "file")
    compared = [key for key in over_http if over_http[key][0] is not None]
    differ = [key for key in compared if over_http[key] != of_file.get(key)]
    print(f"{len(compared)} figures compared, {len(differ)} differ; {asked} requests for {distinct} queries")
    for name in ["recall_frac@5", "recall_all@5", "map"]:
        print(f"{name}: http {over_http['all', name][0]}, file {of_file['all', name][0]}")

    server = served(options, folder)
    slowly = ["--set", "service.theirs.requests_per_minute=1200"]
    arguments = [options.hopeval, "run", "job.toml", *places, "killed", *slowly]
    child = subprocess.Popen(arguments, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(5)
    child.kill()
    child.wait()
    resumed = json.loads(hopeval("resume", "latest", *places, "killed"))
    again = stopped(server)
    same = figures(resumed, "http") == over_http
    print(f"killed and resumed: {'equal' if same else 'DIFFERENT'} figures, {again} requests for {distinct} queries")
    return 0 if not differ and same and compared else 1


if __name__ == "__main__":
    sys.exit(main())
