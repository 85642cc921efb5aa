"""Spoils a fifth of a run's calls in every way that the simulated server knows, and compares with a faultless run.

The job has `--questions` times `--configurations` calls with different bodies (1,000 x 20). Cases:

| case      | kinds of faults                                                                               |
| --------- | --------------------------------------------------------------------------------------------- |
| passing   | those after which a careful client asks again, and answers under another model's name         |
| streamed  | the same, with `stream = true`                                                                |
| all       | also cut and filtered answers, and overflows in the words of four servers: 28 kinds           |

each with 1 and with 3 processes. Faults begin behind the first answers: before them, a 404 says that the model never
was.

Checked of each case:

* no question is lost: as many outcomes as without faults;
* tables: `outcomes`, `scores`, `measures` have the faultless run's bytes (passing, streamed); of `all`, rows of the CSV
  export differ from the faultless ones for at most as many calls as the server's log has bodies that were cut, filtered
  or refused for their length, and as many calls failed as were refused for their length;
* the server's log: every body has one end, none is answered twice, the calls that callers left were stalls;
* the client's own account (its last log line) is the server's: calls = bodies, and attempts, answers and causes agree
  kind by kind. Attempts that never reached the server, because its port was closed, are in the client's account alone
  (`unseen`); they can only be refused or reset connections.

A case is a line of `--results`; `--resume` leaves out those that are there.

    python3 ops/endpoint/faults.py --binary target/debug/hopeval --folder DIR --results FILE [--resume]
"""

import argparse
import collections
import json
import pathlib
import sys
import time

from simulated_runs import RunFolder, SimulatedServer, end_session, job_text, load, told_usage

PASSING = ["limit_seconds", "limit_date", "limit_bare", "internal_error", "bad_gateway", "unavailable", "overloaded",
           "refused", "reset_before_headers", "reset_after_headers", "cut_body", "bad_json", "html_page",
           "error_object", "no_choices", "null_content", "fewer_choices", "stall_before_headers", "stall_in_body",
           "drip", "not_found", "wrong_model"]
ENDING = ["content_filter", "length", "overflow_openai", "overflow_vllm", "overflow_llama_cpp", "overflow_tgi"]
# What a client may call a fault. Where a body ends is known to the client alone, so some names stand for several kinds.
CAUSES = {
    "limit_seconds": {"limit_seconds"},
    "limit_date": {"limit_date"},
    "limit_unknown": {"limit_bare"},
    "status_500": {"internal_error"},
    "status_502": {"bad_gateway"},
    "status_503": {"unavailable"},
    "overloaded": {"overloaded"},
    "cut_body": {"reset_after_headers", "cut_body"},
    "not_json": {"bad_json", "html_page"},
    "error_in_answer": {"error_object"},
    "no_choices": {"no_choices", "fewer_choices"},
    "null_content": {"null_content"},
    "stall_before_headers": {"stall_before_headers"},
    "stall_in_body": {"stall_in_body"},
    "model_gone": {"not_found"},
    "context_overflow": {"overflow_openai", "overflow_vllm", "overflow_llama_cpp", "overflow_tgi"},
}
# Half a stream may end as a cut body, without a choice, or as no JSON.
UNCLEAR_IN_STREAMS = ["cut_body", "not_json", "no_choices"]
# Connections that were refused or reset: the server's faults of the connection, and attempts that it never saw.
CONNECTION = {"connection_refused", "reset_before_headers", "unreachable"}
CONNECTION_FAULTS = {"refused", "reset_before_headers"}
ANSWERED_FAULTS = {"drip", "wrong_model", "content_filter", "length"}
# Answers that the client has surely read when the faults begin.
FIRST_ANSWERS = 80
ENDPOINT = """concurrency = 64
stall_s = 5.0
patience_s = 300
first_pause_s = 0.02
longest_pause_s = 0.5
"""


def fault_settings(kinds, rate):
    return {"rate": rate, "kinds": kinds, "stall_ms": 60000, "refused_ms": 50, "drip_bytes": 64, "drip_ms": 5,
            "retry_after_s": 1}


class Case:
    """A run against a faulty server, and what was found."""

    def __init__(self, context, name, kinds, processes, stream=False):
        self.context, self.kinds, self.processes = context, kinds, processes
        self.name = f"{name}, {processes} process{'es' if processes > 1 else ''}"
        self.folder = context.folder / f"{name}-{processes}"
        self.endpoint = ENDPOINT + ("stream = true\n" if stream else "")

    def run(self):
        context = self.context
        server = SimulatedServer(context.binary, context.folder, {}, name=f"{self.folder.name}-{time.time_ns():x}")
        job = job_text(server.url, context.questions, context.configurations, self.endpoint)
        place = RunFolder(context.binary, self.folder, job, context.cache, store=f"store-{time.time_ns():x}")
        begun = time.monotonic()
        child = place.start(processes=self.processes)
        try:
            while self.kinds and child.poll() is None:
                if server.summary()["answered"] >= FIRST_ANSWERS:
                    server.change(faults=fault_settings(self.kinds, context.rate))
                    break
                time.sleep(0.002)
            code = child.wait()
        finally:
            end_session(child)
        seconds = time.monotonic() - begun
        summary = server.summary()
        server.stop()
        if code != 0:
            sys.exit(f"{self.name}: exit code {code}\n{place.said()[-4000:]}")
        place.verify()
        return {"case": self.name, "seconds": round(seconds, 1), "load": load(), "summary": summary,
                "told": told_usage(place.said()), "figures": place.figures()} | read_log(server.entries()), place


def read_log(entries):
    """The server's log in figures: bodies by their ends, faults by kind."""
    ends, stalls, left = collections.defaultdict(list), 0, 0
    for entry in entries:
        fault, outcome = entry.get("fault"), entry["outcome"]
        if outcome == "answered":
            ends[entry["body"]].append(fault if fault in ENDING else "answered")
        elif fault in ENDING:
            ends[entry["body"]].append(fault)
        elif outcome == "caller_gone":
            stalls, left = stalls + (fault in ("stall_before_headers", "stall_in_body")), left + 1
    bodies = {entry["body"] for entry in entries}
    return {
        "calls": len(entries), "bodies": len(bodies), "lost": len(bodies - ends.keys()),
        "twice": sum(len(found) > 1 for found in ends.values()),
        "spoilt": sum(found != ["answered"] for found in ends.values()),
        "overflows": sum(found[0].startswith("overflow") for found in ends.values()),
        "callers_gone": left, "stalls_left": stalls,
        "faults": dict(collections.Counter(entry["fault"] for entry in entries if entry.get("fault"))),
        "limited_without_fault": sum(entry["outcome"] == "limited" for entry in entries),
    }


def compare_accounts(row):
    """Differences between the client's own account and the server's log."""
    told, faults = row["told"], row["faults"]
    if told is None:
        return ["the client gives no account"]
    wrong, causes, known = [], dict(told["causes"]), dict(CAUSES)
    if row["case"].startswith("streamed"):
        causes["cut_body"] = sum(causes.pop(cause, 0) for cause in UNCLEAR_IN_STREAMS)
        known["cut_body"] = set().union(*(known.pop(cause) for cause in UNCLEAR_IN_STREAMS))
    for cause, kinds in known.items():
        mine, theirs = causes.pop(cause, 0), sum(faults.get(kind, 0) for kind in kinds)
        if mine != theirs:
            wrong.append(f"{cause}: client {mine}, server {theirs}")
    broken = sum(causes.pop(cause, 0) for cause in CONNECTION)
    unseen = broken - sum(faults.get(kind, 0) for kind in CONNECTION_FAULTS)
    answered = row["calls"] - sum(count for kind, count in faults.items() if kind not in ANSWERED_FAULTS)
    if causes.pop("answered", 0) != answered:
        wrong.append(f"answers: client {told['causes'].get('answered')}, server {answered}")
    if causes:
        wrong.append(f"causes that the server did not make: {causes}")
    if unseen < 0 or told["attempts"] != row["calls"] + unseen:
        wrong.append(f"attempts: client {told['attempts']}, server {row['calls']}, unseen {unseen}")
    if told["calls"] != row["bodies"]:
        wrong.append(f"calls: client {told['calls']}, bodies {row['bodies']}")
    row["unseen"] = unseen
    return wrong


def judge(row, reference, place, context):
    """What is wrong with a case."""
    wrong = compare_accounts(row)
    if row["bodies"] != reference["bodies"]:
        wrong.append(f"{row['bodies']} bodies, {reference['bodies']} without faults")
    for what in ["lost", "twice"]:
        if row[what]:
            wrong.append(f"{row[what]} bodies {what}")
    if row["callers_gone"] != row["stalls_left"]:
        wrong.append(f"{row['callers_gone']} calls left, {row['stalls_left']} of them stalls")
    if row["spoilt"] == 0:
        if row["figures"] != reference["figures"]:
            wrong.append("tables differ")
    else:
        rows, other = place.rows(context.configurations), context.reference_rows
        # Questions of one text are one call.
        call = lambda name: (name[0], context.texts[name[1]])  # noqa: E731
        differing = {call(name) for name in other if rows.get(name) != other[name]}
        failed = len({call(name) for name, found in rows.items() if found["status"] == "context_overflow"})
        row |= {"differing": len(differing), "failed": failed, "outcomes": len(rows)}
        if rows.keys() != other.keys():
            wrong.append("outcomes are missing")
        if len(differing) > row["spoilt"]:
            wrong.append(f"outcomes of {len(differing)} calls differ, {row['spoilt']} bodies were spoilt")
        if failed != row["overflows"]:
            wrong.append(f"outcomes of {failed} calls failed, {row['overflows']} bodies were too long")
    share = sum(row["faults"].values()) / row["calls"]
    row["share"] = round(share, 4)
    if abs(share - context.rate) > 0.02:
        wrong.append(f"{share:.1%} of the calls were faulty")
    missing = [kind for kind in context.kinds_of[row["case"]] if not row["faults"].get(kind)]
    if missing:
        wrong.append(f"kinds that did not come: {missing}")
    return wrong


def report(rows):
    print("| case | kinds | calls | faulty | attempts of the client | unseen | lost | twice | tables | seconds | "
          "load |")
    print("| --- |" + " ---: |" * 9 + " --- |")
    for row in rows:
        tables = "the same" if not row["spoilt"] else f"{row['differing']} differ, {row['spoilt']} spoilt"
        cells = [row["case"], len(row["faults"]), row["calls"], f"{row.get('share', 0):.1%}", row["told"]["attempts"],
                 row.get("unseen", 0), row["lost"], row["twice"], tables, row["seconds"], row["load"]]
        print(f"| {' | '.join(map(str, cells))} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("faults.jsonl"))
    parser.add_argument("--resume", action="store_true", help="leave out the cases of the results")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--configurations", type=int, default=20)
    parser.add_argument("--rate", type=float, default=0.2)
    parser.add_argument("--cases", default="passing,streamed,all")
    parser.add_argument("--processes", default="1,3")
    arguments = parser.parse_args()
    there = arguments.results.exists()
    if there and not arguments.resume:
        parser.error(f"{arguments.results} is there: --resume goes on with it")
    rows = [json.loads(line) for line in arguments.results.read_text().splitlines()] if there else []
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    context = argparse.Namespace(binary=arguments.binary.resolve(), folder=folder, cache=folder / "cache",
                                 questions=arguments.questions, configurations=arguments.configurations,
                                 rate=arguments.rate, kinds_of={})
    kinds = {"passing": PASSING, "streamed": PASSING, "all": PASSING + ENDING}
    with arguments.results.open("a") as out:
        reference, place = Case(context, "faultless", [], 1).run()
        context.reference_rows, context.texts = place.rows(context.configurations), place.question_texts()
        wrong = compare_accounts(reference)
        if wrong or reference["lost"] or reference["twice"] or reference["faults"]:
            sys.exit(f"without faults: {wrong}, {reference}")
        print(f"faultless: {reference['calls']} calls in {reference['seconds']} s", flush=True)
        for name in arguments.cases.split(","):
            for processes in map(int, arguments.processes.split(",")):
                case = Case(context, name, kinds[name], processes, stream=name == "streamed")
                context.kinds_of[case.name] = case.kinds
                if any(row["case"] == case.name for row in rows):
                    continue
                row, place = case.run()
                row["wrong"] = judge(row, reference, place, context)
                rows.append(row)
                print(json.dumps(row), file=out, flush=True)
                print(f"{case.name}: {row['wrong'] or 'good'}, {row['seconds']} s", flush=True)
    report(rows)
    sys.exit(1 if any(row["wrong"] for row in rows) else 0)


if __name__ == "__main__":
    main()
