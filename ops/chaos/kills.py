"""Kills and stops processes of runs in every phase, resumes them, and compares their tables with undisturbed ones.

A round is one run. Each of its generations has 1 to 4 processes, and meets one fault:

| fault      | what is done                                                                                      |
| ---------- | ------------------------------------------------------------------------------------------------- |
| kill       | SIGKILL to one process or to the supervisor, in some phase                                        |
| stall      | SIGSTOP to one process of several; the others must notice within `--stall-bound`                  |
| zombie     | SIGSTOP to all; another `resume` runs, perhaps to the end; then SIGCONT, and all must end          |
| concurrent | two or three `resume` at once; in some, one of them is killed                                     |

Then the run is resumed to its end. It must have the outcomes, scores and measures of an undisturbed run to the byte,
`hopeval store verify` must find nothing, no process may be left, no generation may outlast `--deadline` seconds, and no
staging file or order of a writer older than the fence may be left. A process killed before the order was stored has
made no run, and what its folder holds is only counted (`orphans`).

The phase of a fault is what the store and the cache show when the process is dead or stopped, not what was aimed at:

| phase        | then                                                                              |
| ------------ | --------------------------------------------------------------------------------- |
| index        | the world, the corpus or an index of the cache was missing                        |
| making       | the order to make the run was stored, and its log had no fence                    |
| start        | a generation had no fence yet (before the order, or while its mesh formed)        |
| first commit | the generation had at most one commit                                             |
| middle       | it had more                                                                       |
| last commit  | at most two cohorts were missing, or none, and no table of the generation was there |
| tables       | a table of the generation was there, and no `Final` record                        |
| publishing   | the log had the `Final` record                                                    |

Jobs: `retrieval` (BM25, TF-IDF, hops over titles) and `models` (a dense index, PromptRank with the binary's small
models). Stores: a folder; a bucket of `ops/ci/faulty-s3.py` without faults (`memory`); one of moto, if it is installed.
Every round is a line of `--results`; `--resume` goes on until `--kills`, `--stops` and `--each` are reached.

    python3 ops/chaos/kills.py --binary target/release/hopeval --folder DIR --results FILE [--resume] [--minutes N]
"""

import argparse
import collections
import importlib.util
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import stored_runs
from stored_runs import BucketStore, FolderStore, RunState, ask, environment, figures

ROOT = pathlib.Path(__file__).resolve().parents[2]
PHASES = ["index", "making", "first commit", "middle", "last commit", "tables", "publishing"]
JOBS = {
    "retrieval": """
name = "kills"
[dataset.world]
questions = 160
passages = 1500
seed = 11
[service.bm25]
kind = "bm25"
[service.tfidf]
kind = "tfidf"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 20]
[method.tfidf_bm25]
kind = "tfidf_bm25"
retriever = "tfidf"
reranker = "bm25"
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[method.random]
kind = "random"
[run]
chunk = 4
in_flight = 2
""",
    "models": """
name = "kills"
[dataset.world]
questions = 20
passages = 500
seed = 12
[service.tfidf]
kind = "tfidf"
[service.links]
kind = "link_tfidf"
[service.encoder]
kind = "lm"
model = "hopeval:encoder"
threads = 1
[service.dense]
kind = "dense"
encoder = "encoder"
[service.scorer]
kind = "lm"
model = "hopeval:scorer"
threads = 1
[service.reader]
kind = "lm"
model = "hopeval:reader"
threads = 1
[method.dense]
kind = "one_step"
retriever = "dense"
[method.promptrank]
kind = "promptrank"
retriever = "tfidf"
link_ranker = "links"
scorer = "scorer"
pool = 4
first_hops = 2
reader = "reader"
read_paths = 2
[run]
chunk = 2
in_flight = 1
""",
}
# What a job needs in the cache before its first question.
INPUTS = ["worlds", "corpora", "indexes"]
RESUMABLE = 75
STALL_BOUND = "2"
# The bound, the supervisor's patience with the others, and an allowance for a busy machine. A process that is stopped
# before the mesh has formed is noticed at the mesh's deadline, which is added.
STALL_LIMIT = 25


class Server:
    """An S3 server on a loopback port, which ends with this process."""

    def __init__(self, script):
        self.process = subprocess.Popen([sys.executable, ROOT / script], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}"
        ask(f"{self.url}/bucket", "PUT").close()
        self.environment = {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}


class Generation:
    """One started command, with the processes that it starts."""

    def __init__(self, place, arguments, processes):
        self.place, self.processes, self.begun = place, processes, time.monotonic()
        command = [place.binary, *arguments, "--store", place.store.uri, "--cache", place.cache,
                   "--processes", str(processes), "--workers", str(place.choice.choice([1, 1, 2])),
                   "--mesh-deadline", str(place.mesh_deadline), "--json"]
        self.errors = place.folder / f"errors-{place.choice.getrandbits(40):x}"
        with self.errors.open("w") as errors:
            self.child = subprocess.Popen(command, cwd=place.folder, env=place.environment,
                                          stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        place.generations.append(self)

    def members(self):
        """Processes of the mesh by their index; with one process, the command itself."""
        if self.processes == 1:
            return {0: self.child.pid}
        found = {}
        try:
            for task in os.listdir(f"/proc/{self.child.pid}/task"):
                for child in pathlib.Path(f"/proc/{self.child.pid}/task/{task}/children").read_text().split():
                    line = pathlib.Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                    if b"--process" in line:
                        found[int(line[line.index(b"--process") + 1])] = int(child)
        except (FileNotFoundError, ProcessLookupError, ValueError):
            pass
        return found

    def everyone(self):
        return [self.child.pid, *(pid for pid in self.members().values() if pid != self.child.pid)]

    def send(self, victim, number):
        """Signals a process of the mesh, or with -1 the supervisor. Whether it was there."""
        pid = self.child.pid if victim == -1 or self.processes == 1 else self.members().get(victim)
        if pid is None or self.child.poll() is not None:
            return False
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait(self, limit):
        """The exit code, or `None` if it does not end in time; then it is killed."""
        try:
            return self.child.wait(limit)
        except subprocess.TimeoutExpired:
            self.end()
            return None

    def end(self):
        for pid in self.everyone():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.child.wait()

    def said(self):
        return self.errors.read_text()


class Place:
    """The folder, store and cache of a round."""

    def __init__(self, context, number, kind, where, cold):
        self.choice = random.Random(f"{context.seed} {number}")
        self.binary, self.kind, self.where, self.deadline = context.binary, kind, where, context.deadline
        self.mesh_deadline = context.mesh_deadline
        self.folder = context.folder / f"round-{number}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        (self.folder / "job.toml").write_text(JOBS[kind])
        self.environment, self.generations, self.records = environment(), [], {}
        if where == "local":
            self.store = FolderStore(self.folder / "store")
        else:
            server = context.servers[where]
            self.store = BucketStore(server.url, "bucket", f"round-{number}-{context.stamp}")
            self.environment = environment(**server.environment)
        self.cache = self.folder / "cache"
        self.reference, self.whole, self.inputs = context.references[kind]
        kept = [] if cold == "all" else ["worlds", "corpora", "models"] if cold == "indexes" else None
        warm = context.folder / f"reference-{kind}" / "cache"
        if kept is None:
            shutil.copytree(warm, self.cache, copy_function=os.link)
        for name in kept or []:
            if (warm / name).is_dir():
                shutil.copytree(warm / name, self.cache / name, copy_function=os.link)

    def inputs_missing(self):
        """Whether something is missing in the cache that the reference's has. Unfinished files have other names."""
        return not all((self.cache / name).exists() for name in self.inputs)

    def run(self):
        """The run's id, once it is ordered. A maker that is killed before leaves at most a folder without a run."""
        if isinstance(self.store, FolderStore):
            runs = self.store.root / "runs"
            try:
                found = [run for run in sorted(os.listdir(runs))
                         if (runs / run / "making.json").exists() or (runs / run / "run.json").exists()]
            except FileNotFoundError:
                found = []
        else:
            names = self.store.list("runs/")
            found = sorted({name.split("/")[1] for name in names if name.endswith(("/making.json", "/run.json"))})
        return found[0] if found else None

    def state(self):
        run = self.run()
        return run and RunState(self.store, run, records=self.records)

    def phase(self, state, before):
        """The phase that the store and the cache show; `before` is the state before the generation was started."""
        missing = self.inputs_missing()
        if state is None:
            return "index" if missing else "start"
        if state.generation == 0:
            return "making"
        if before is not None and state.generation == before.generation:
            return "start"
        if state.finished:
            return "publishing"
        if any(f"/tables/{state.generation:06}-" in name for name in state.tables):
            return "tables"
        if missing:
            return "index"
        chunks = [count for count in state.chunks.values()] or [self.whole]
        if self.whole - state.outcomes <= 2 * chunks[0] and state.commits:
            return "last commit"
        return "first commit" if state.commits_of.get(state.generation, 0) <= 1 else "middle"

    def reached(self, aim, state, before, generation, goal):
        """Whether the generation is at the beginning of the phase `aim`."""
        fenced = state is not None and state.generation > (before.generation if before else 0)
        if aim == "index":
            return self.inputs_missing() and (fenced or before is None)
        if aim == "making":
            return state is not None
        if not fenced:
            return False
        mine = state.commits_of.get(state.generation, 0)
        if aim == "first commit":
            return True
        if aim == "middle":
            return mine >= goal
        if aim == "last commit":
            return state.chunks and self.whole - state.outcomes <= 2 * next(iter(state.chunks.values()))
        if aim == "tables":
            return any(f"/tables/{state.generation:06}-" in name for name in state.tables)
        return state.finished and (before is None or not before.finished or
                                   any(f"/tables/{state.generation:06}-" in name for name in state.tables))

    def resume_arguments(self, state):
        return ["run", "job.toml"] if state is None else ["resume", self.choice.choice(["latest", state.run])]

    def leftovers(self):
        """Staging files, and the order, of writers older than the fence."""
        run = self.run()
        names = self.store.list()
        found = [name for name in names if "#" in name and (f"/{run}/" in name or name.startswith("journal/"))]
        return found + [name for name in names if name.endswith("/making.json")]

    def processes_left(self):
        marks = [str(self.folder).encode(), self.store.uri.encode()]
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(pid) != os.getpid() and marks[1] in line and b"--cache" in line:
                found.append(line.replace(b"\0", b" ").decode(errors="replace"))
        return found

    def clear(self):
        for generation in self.generations:
            if generation.child.poll() is None:
                generation.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def aim_at(place, generation, aim, before):
    """Waits for the phase and a little longer. Whether the generation still lives."""
    slow = 1 if place.where == "local" else 8
    pause = place.choice.random() * {"index": 0.25, "making": 0.008 * slow, "first commit": 0.03 * slow,
                                     "middle": 0.01, "last commit": 0.006 * slow, "tables": 0.006 * slow,
                                     "publishing": 0.006 * slow}[aim]
    goal = place.choice.randint(2, 12 if place.kind == "retrieval" else 5)
    limit = time.monotonic() + place.deadline
    while generation.child.poll() is None:
        if place.reached(aim, place.state(), before, generation, goal):
            time.sleep(pause)
            return generation.child.poll() is None
        if time.monotonic() > limit:
            return True
        time.sleep(0.0003 if place.where == "local" else 0.004)
    return False


def choose_victim(place, generation, aim, before):
    """A process of the mesh, or -1: the supervisor, which alone makes a run, and takes all others with it."""
    if generation.processes == 1:
        return 0
    if aim in ("index", "making") and before is None:
        return -1
    if aim in ("tables", "publishing"):
        return place.choice.choice([0, 0, 0, -1])
    return place.choice.choice([-1, *range(generation.processes)])


def fault_kill(place, aim):
    before = place.state()
    processes = place.choice.choice([1, 1, 2, 3, 4])
    generation = Generation(place, place.resume_arguments(before), processes)
    row = {"fault": "kill", "aim": aim, "processes": processes, "signals": 0}
    if aim_at(place, generation, aim, before):
        victim = choose_victim(place, generation, aim, before)
        row["victim"] = victim
        sent = generation.send(victim, signal.SIGKILL)
    else:
        sent, victim = False, None
    code = generation.wait(place.deadline)
    met = sent and (code == -signal.SIGKILL if victim == -1 or processes == 1
                    else f"process {victim} was ended by SIGKILL" in generation.said())
    row |= {"code": code, "signals": int(met), "phase": place.phase(place.state(), before) if met else None}
    return check_code(row, generation, code, [0, RESUMABLE, -signal.SIGKILL] if sent else [0])


def fault_stall(place, aim):
    """Stops one process of several. It must be noticed."""
    before = place.state()
    processes = place.choice.choice([2, 3])
    generation = Generation(place, [*place.resume_arguments(before), "--stall-bound", STALL_BOUND], processes)
    row = {"fault": "stall", "aim": aim, "processes": processes, "signals": 0}
    sent = False
    if aim_at(place, generation, aim, before):
        # Process 0 alone writes tables and publishes.
        victim = 0 if aim in ("tables", "publishing") else place.choice.randrange(processes)
        row["victim"] = victim
        sent = generation.send(victim, signal.SIGSTOP)
        row["phase"] = place.phase(place.state(), before)
    begun = time.monotonic()
    code = generation.wait(STALL_LIMIT + place.mesh_deadline)
    met = sent and code != 0
    row |= {"code": code, "signals": int(met), "noticed_s": round(time.monotonic() - begun, 1)}
    return check_code(row, generation, code, [0, RESUMABLE])


def fault_zombie(place, aim):
    """Stops a whole generation, resumes elsewhere, perhaps to the end, and wakes the stopped processes."""
    before = place.state()
    processes = place.choice.choice([1, 1, 2, 3])
    zombie = Generation(place, place.resume_arguments(before), processes)
    row = {"fault": "zombie", "aim": aim, "processes": processes, "signals": 0}
    if not aim_at(place, zombie, aim, before):
        row["code"] = zombie.wait(place.deadline)
        return check_code(row, zombie, row["code"], [0])
    stopped = zombie.everyone()
    for pid in stopped:
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            pass
    # Children that were started meanwhile.
    for pid in set(zombie.everyone()) - set(stopped):
        os.kill(pid, signal.SIGSTOP)
    state = place.state()
    met = zombie.child.poll() is None
    row |= {"signals": int(met), "phase": place.phase(state, before)}
    killed = None
    if state is not None:
        other = Generation(place, ["resume", state.run], place.choice.choice([1, 2]))
        if place.choice.random() < 0.3 and aim_at(place, other, "middle", state):
            killed = other.send(-1, signal.SIGKILL)
        code = other.wait(place.deadline)
        row["other"] = code
        row = check_code(row, other, code, [0, -signal.SIGKILL] if killed else [0])
    ended = state is not None and row["other"] == 0
    finished = figures(place.store, state.run) if ended else None
    for pid in zombie.everyone():
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass
    row["code"] = zombie.wait(place.deadline)
    if ended and figures(place.store, state.run) != finished:
        row["wrong"] = row.get("wrong", []) + ["the awakened process changed the tables of a finished run"]
    return check_code(row, zombie, row["code"], [0, RESUMABLE])


def fault_concurrent(place, aim):
    """Two or three `resume` at once. One of them is killed in every third case."""
    before = place.state()
    several = [Generation(place, ["resume", before.run], place.choice.choice([1, 1, 2]))
               for _ in range(place.choice.choice([2, 2, 3]))]
    row = {"fault": "concurrent", "aim": aim, "processes": sum(g.processes for g in several), "signals": 0}
    if place.choice.random() < 0.33:
        victim = place.choice.choice(several)
        if aim_at(place, victim, "first commit", before) and victim.send(-1, signal.SIGKILL):
            code = victim.wait(place.deadline)
            if code == -signal.SIGKILL:
                row |= {"signals": 1, "phase": place.phase(place.state(), before)}
    codes = [generation.wait(place.deadline) for generation in several]
    row["codes"] = codes
    for generation, code in zip(several, codes):
        row = check_code(row, generation, code, [0, RESUMABLE, -signal.SIGKILL] if row["signals"] else [0, RESUMABLE])
    if not row["signals"] and 0 not in codes and None not in codes:
        row["none_ended"] = True
    return row


def check_code(row, generation, code, allowed):
    """Notes what is wrong with the end of a generation."""
    if code is None:
        row["stuck"] = row.get("stuck", 0) + 1
        row["said"] = generation.said()[-1000:]
    elif code not in allowed or "panicked at" in generation.said():
        row["wrong"] = row.get("wrong", []) + [f"exit {code}, allowed {allowed}: {generation.said()[-800:]}"]
    return row


FAULTS = {"kill": fault_kill, "stall": fault_stall, "zombie": fault_zombie, "concurrent": fault_concurrent}


def run_round(context, number, kind, where, plan):
    """One run with the planned faults [(fault, aim)], resumed to its end and checked."""
    cold = None if plan[0][1] != "index" else "all" if number % 3 == 0 else "indexes"
    place = Place(context, number, kind, where, cold)
    begun = time.monotonic()
    row = {"round": number, "kind": kind, "store": where, "faults": []}
    try:
        for fault, aim in plan:
            if fault == "concurrent" and place.state() is None:
                continue
            row["faults"].append(FAULTS[fault](place, aim))
            if row["faults"][-1].get("wrong") or row["faults"][-1].get("stuck"):
                break
        code, tries = None, 0
        while code != 0 and tries < 4:
            last = Generation(place, place.resume_arguments(place.state()), place.choice.choice([1, 2, 3, 4]))
            code, tries = last.wait(place.deadline), tries + 1
            if code is None:
                break
        run = place.run()
        state = place.state()
        row |= {"code": code, "stuck": sum(fault.get("stuck", 0) for fault in row["faults"]) + (code is None),
                "generations": state.generation if state else 0}
        row["identical"] = code == 0 and state.finished and figures(place.store, run) == place.reference
        row["leftovers"] = place.leftovers()
        row["orphans"] = sorted(name for name in place.store.list("runs/") if not name.startswith(f"runs/{run}/"))
        row["left"] = place.processes_left()
        verified = subprocess.run([context.binary, "store", "verify", "--json", "--store", place.store.uri],
                                  env=place.environment, cwd=place.folder, capture_output=True, text=True)
        row["verified"] = verified.returncode == 0
        if not (row["identical"] and row["verified"]):
            row["said"] = [last.said()[-1500:], verified.stderr[-1500:]]
    finally:
        place.clear()
    row["seconds"] = round(time.monotonic() - begun, 1)
    return row


def is_good(row):
    return (row["identical"] and row["verified"] and not row["stuck"] and not row["leftovers"] and not row["left"]
            and not any(fault.get("wrong") for fault in row["faults"]))


class Tally:
    """Signals that met a living process."""

    def __init__(self, rows):
        self.kills, self.stops, self.cells = collections.Counter(), collections.Counter(), collections.Counter()
        for row in rows:
            for fault in row["faults"]:
                if fault["signals"]:
                    table = self.kills if fault["fault"] in ("kill", "concurrent") else self.stops
                    table[fault["phase"]] += 1
                    self.cells[row["kind"], row["store"], fault["phase"]] += 1

    def is_enough(self, arguments):
        return (sum(self.kills.values()) >= arguments.kills and sum(self.stops.values()) >= arguments.stops
                and all(self.kills[phase] >= arguments.each for phase in PHASES))


def plan_round(choice, tally, kind, where, arguments):
    """Faults in the order of phases; phases with few kills of this kind and store come more often."""
    weights = [1 / (1 + tally.cells[kind, where, phase]) + 0.2 / (1 + tally.kills[phase]) for phase in PHASES]
    aims = sorted(choice.choices(PHASES, weights, k=choice.randint(3, 6)), key=PHASES.index)
    if kind == "retrieval" or choice.random() < 0.5:
        # A run is made once, and its indexes are built once.
        aims = [aim for place, aim in enumerate(aims) if aim not in ("index", "making") or aim not in aims[:place]]
    plan = []
    for aim in aims:
        fault = "kill"
        if choice.random() < 0.22:
            fault = choice.choice(["zombie", "zombie", "stall", "concurrent", "concurrent"])
        # moto serves one request at a time, and would wait for a stopped client for ever.
        if where == "moto" and fault in ("zombie", "stall"):
            fault = "kill"
        if fault == "stall" and aim in ("index", "making") or fault == "concurrent" and aim in ("index", "making"):
            fault = "zombie"
        plan.append((fault, aim))
        if fault == "zombie":
            # The run has probably ended, so phases before its tables do not come again.
            break
    return plan


def report(rows):
    """Markdown: phases by kind and store, processes, faults, and what was wrong."""
    columns = sorted({(row["kind"], row["store"]) for row in rows})
    kills, stops, processes = (collections.defaultdict(collections.Counter) for _ in range(3))
    for row in rows:
        for fault in row["faults"]:
            if fault["signals"]:
                table = kills if fault["fault"] in ("kill", "concurrent") else stops
                table[fault["phase"]][row["kind"], row["store"]] += 1
                processes[fault["phase"]][min(fault["processes"], 4) if fault["fault"] != "concurrent" else "two"] += 1
    heads = [f"{kind}, {store}" for kind, store in columns]
    print(f"| phase | SIGKILL | {' | '.join(heads)} | SIGSTOP | processes 1 / 2 / 3 / 4 |")
    print("| --- |" + " ---: |" * (len(heads) + 3))
    phases = [*PHASES, "start"]
    for phase in phases + ["all"]:
        names = phases if phase == "all" else [phase]
        cells = [str(sum(kills[name][column] for name in names)) for column in columns]
        total = sum(sum(kills[name].values()) for name in names)
        stopped = sum(sum(stops[name].values()) for name in names)
        of = [str(sum(processes[name][number] for name in names)) for number in (1, 2, 3, 4)]
        print(f"| {phase} | {total} | {' | '.join(cells)} | {stopped} | {' / '.join(of)} |")
    print("\n| kind | store | runs | generations | SIGKILL | SIGSTOP | identical | stuck | leftovers | wrong ends |")
    print("| --- | --- |" + " ---: |" * 8)
    for kind, store in [*columns, ("all", "")]:
        chosen = [row for row in rows if kind == "all" or (row["kind"], row["store"]) == (kind, store)]
        faults = [fault for row in chosen for fault in row["faults"]]
        killed = sum(fault["signals"] for fault in faults if fault["fault"] in ("kill", "concurrent"))
        stopped = sum(fault["signals"] for fault in faults if fault["fault"] not in ("kill", "concurrent"))
        cells = [kind, store, len(chosen), sum(row["generations"] for row in chosen), killed, stopped,
                 sum(row["identical"] and row["verified"] for row in chosen), sum(row["stuck"] for row in chosen),
                 sum(len(row["leftovers"]) for row in chosen),
                 sum(bool(fault.get("wrong")) for fault in faults) + sum(bool(row["left"]) for row in chosen)]
        print(f"| {' | '.join(map(str, cells))} |")
    faults = [fault for row in rows for fault in row["faults"]]
    zombies = [fault for fault in faults if fault["fault"] == "zombie" and fault["signals"]]
    together = [fault for fault in faults if fault["fault"] == "concurrent"]
    stalls = [fault for fault in faults if fault["fault"] == "stall" and fault["signals"]]
    slowest = max((fault["noticed_s"] for fault in stalls), default=0)
    print(f"\n{len(zombies)} zombies awakened, {sum(fault['code'] == RESUMABLE for fault in zombies)} ended with 75; "
          f"{len(together)} times several `resume` at once; {len(stalls)} stalls noticed, the last after {slowest} s; "
          f"{sum(len(row['orphans']) for row in rows)} files in folders without a run")


def refer(context, kind):
    """Runs a job undisturbed: its figures, the number of its outcomes, and the inputs in its cache."""
    folder = context.folder / f"reference-{kind}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "job.toml").write_text(JOBS[kind])
        done = subprocess.run([context.binary, "run", "job.toml", "--store", "store", "--cache", "cache", "--json"],
                              cwd=folder, env=environment(), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        (folder / "ready").write_text("")
    store = FolderStore(folder / "store")
    run = stored_runs.runs(store)[-1]
    state = RunState(store, run)
    if not state.finished:
        sys.exit(f"the reference in {folder} is not finished")
    cache = folder / "cache"
    inputs = [path.relative_to(cache) for name in INPUTS for path in (cache / name).iterdir()
              if not path.name.startswith(".")]
    return figures(store, run), state.outcomes, inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("kills.jsonl"))
    parser.add_argument("--resume", action="store_true", help="go on with the rounds of the results")
    parser.add_argument("--report", action="store_true", help="only print the tables of the results")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--stops", type=int, default=100)
    parser.add_argument("--each", type=int, default=30, help="kills in each phase")
    parser.add_argument("--minutes", type=float, help="end after the round that is under way then")
    parser.add_argument("--rounds", type=int, help="so many rounds in this session")
    parser.add_argument("--kinds", default="retrieval,models")
    parser.add_argument("--stores", default="local,local,memory,memory,moto", help="one of these each time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deadline", type=float, default=60, help="seconds that a generation may take after its fault")
    parser.add_argument("--mesh-deadline", type=int, default=5,
                        help="seconds for a mesh to form; more on a machine with other work")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failed round")
    arguments = parser.parse_args()
    there = arguments.results.exists()
    rows = [json.loads(line) for line in arguments.results.read_text().splitlines()] if there else []
    if not arguments.report:
        if not arguments.binary or not arguments.folder:
            parser.error("--binary and --folder are needed")
        if there and not arguments.resume:
            parser.error(f"{arguments.results} is there: --resume goes on with it")
        session(arguments, rows)
    report(rows)
    sys.exit(0 if all(map(is_good, rows)) else 1)


def session(arguments, rows):
    context = argparse.Namespace(binary=arguments.binary.resolve(), folder=arguments.folder.resolve(),
                                 seed=arguments.seed, deadline=arguments.deadline,
                                 mesh_deadline=arguments.mesh_deadline, servers={}, references={},
                                 stamp=f"{time.time_ns():x}")
    stores = arguments.stores.split(",")
    if "moto" in stores and importlib.util.find_spec("moto") is None:
        print("moto is not installed: no rounds with it", flush=True)
        stores = [store for store in stores if store != "moto"]
    for store, script in [("memory", "ops/ci/faulty-s3.py"), ("moto", "ops/ci/s3-server.py")]:
        if store in stores:
            context.servers[store] = Server(script)
    kinds = arguments.kinds.split(",")
    for kind in kinds:
        context.references[kind] = refer(context, kind)
    begun, first = time.monotonic(), max((row["round"] for row in rows), default=0) + 1
    with arguments.results.open("a") as out:
        number = first
        while not Tally(rows).is_enough(arguments):
            if arguments.minutes and time.monotonic() - begun > 60 * arguments.minutes:
                break
            if arguments.rounds and number - first >= arguments.rounds:
                break
            choice = random.Random(f"{arguments.seed} plan {number}")
            kind, where = choice.choice(kinds), choice.choice(stores)
            row = run_round(context, number, kind, where, plan_round(choice, Tally(rows), kind, where, arguments))
            rows.append(row)
            print(json.dumps(row), file=out, flush=True)
            tally = Tally(rows)
            words = ", ".join(f"{fault['fault']} {fault.get('phase')}" for fault in row["faults"])
            print(f"{number}: {kind} {where}: {words}: {'good' if is_good(row) else 'FAILED'}, {row['seconds']} s; "
                  f"{sum(tally.kills.values())} kills, {sum(tally.stops.values())} stops", flush=True)
            if not is_good(row):
                print(json.dumps(row, indent=1), flush=True)
                if not arguments.keep_going:
                    break
            number += 1


if __name__ == "__main__":
    main()
