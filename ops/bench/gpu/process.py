"""Runs commands under a time limit, and keeps what they said, what they took and where that was.

One file of raw output and one of records a call: few files come back from a borrowed machine. Records are written
after each command, so that a call that is cut short leaves those it had. Commands may run at once, each in a thread
of its own. Folders of the machine are not kept: files name them as `places` says.
"""

import copy
import dataclasses
import datetime
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time

RAW_OF_A_COMMAND = 400_000
"""Characters of a command's output that are kept; of longer ones the beginning and the end."""
SHOWN_OF_A_COMMAND = 170
RAW_IN_ALL = 12_000_000
EXCEPTION = re.compile(r"[\w.]+(Error|Exception|Interrupt): ")
SOURCES = re.compile(r"/[^\s\"']*/\.cargo/registry/src/[^/\s]+/")
"""Where the program's dependencies lay when it was built, as its panics say."""
GRACE_S = 5
"""Seconds between being asked to end and being ended."""
BUSY_PERCENT = 50
"""Utilisation from which a sample counts as one of a busy device."""


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def json_lines(text):
    """The JSON documents among a text's lines."""
    documents = []
    for line in text.splitlines():
        if line[:1] in ("{", "["):
            try:
                documents.append(json.loads(line))
            except ValueError:
                pass
    return documents


def shortened(text, most):
    if len(text) <= most:
        return text
    left_out = f"\n[... {len(text) - most} characters left out ...]\n"
    return text[: most // 4] + left_out + text[-(most - most // 4) :]


@dataclasses.dataclass
class Done:
    """A command that ended, or was ended."""

    command: list
    code: int | None
    """None: it was cut short."""
    seconds: float
    stdout: str
    stderr: str
    limit: float

    @property
    def good(self):
        return self.code == 0

    @property
    def why(self):
        """What went wrong, in a line; empty if nothing did."""
        if self.good:
            return ""
        if self.code is None:
            return f"cut short after {self.limit:.0f} s" if self.limit else "not run: no time was left"
        lines = lambda text: [line.strip() for line in text.splitlines() if line.strip() and " DEBUG " not in line]
        said = lines(self.stderr) or lines(self.stdout)
        # A program's first line says what failed; of an interpreter's it is the one that names the exception.
        raised = [line for line in said if EXCEPTION.match(line)]
        line = (raised or said or ["without a word"])[-1 if raised else 0]
        return f"exit {self.code}: {line[:200]}"

    def answers(self):
        return json_lines(self.stdout)


class Session:
    """One call of the script: its place, its time, its records."""

    def __init__(self, out, work, name, minutes, about, places=None):
        self.out, self.work, self.name = out, work, name
        self.deadline = self.end_of_call = time.monotonic() + 60 * minutes
        self.about = about
        """What every record has: device, driver, commit."""
        self.places = sorted((places or {}).items(), key=lambda place: -len(place[0]))
        """Folders, and what files say in their place; the longer ones first."""
        self.records, self.lock = [], threading.RLock()
        out.mkdir(parents=True, exist_ok=True)
        work.mkdir(parents=True, exist_ok=True)
        self.raw_path, self.records_path = out / f"{name}.txt", out / f"{name}.json"
        self.raw_path.write_text("")

    def bounded(self, seconds):
        """The same session, for what may take so many seconds at most."""
        other = copy.copy(self)
        other.deadline = min(self.deadline, time.monotonic() + seconds)
        return other

    def left(self):
        """Seconds."""
        return self.deadline - time.monotonic()

    def placed(self, text):
        """The text without this machine's folders."""
        for folder, name in self.places:
            text = text.replace(folder, name)
        return SOURCES.sub("", text)

    def say(self, text):
        with self.lock:
            print(f"[{self.end_of_call - time.monotonic():4.0f} s left] {self.placed(text)}", flush=True)

    def raw(self, title, text):
        text = shortened(self.placed(text), RAW_OF_A_COMMAND)
        block = f"\n##### {now()} {self.placed(title)}\n{text.rstrip()}\n"
        with self.lock, open(self.raw_path, "a", errors="replace") as file:
            if file.tell() + len(block) > RAW_IN_ALL:
                block = f"\n##### {self.placed(title)}: left out, this file is full\n"
            file.write(block)

    def record(self, step, what, done=None, **values):
        """Keeps a record; `done` is the command that it comes from."""
        record = {"step": step, "what": what, "date": now()} | self.about
        if done is not None:
            record |= {
                "command": done.command,
                "exit": done.code,
                "seconds": round(done.seconds, 3),
                "failure": done.why or None,
            }
        with self.lock:
            self.records.append(record | values)
            beside = self.records_path.with_suffix(".part")
            beside.write_text(self.placed(json.dumps(self.records, indent=1, default=str)) + "\n")
            beside.rename(self.records_path)

    def run(self, step, command, limit, environment=None):
        """Runs a command for at most `limit` seconds and as long as there is time; its group ends with it."""
        command = list(map(str, command))
        limit = min(limit, self.left() - GRACE_S)
        if limit <= 0:
            return self.finished(step, Done(command, None, 0.0, "", "no time is left", 0.0))
        begun = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.work, start_new_session=True,
                    env=os.environ | (environment or {}),
                )  # fmt: skip
            except OSError as error:
                return self.finished(step, Done(command, 127, 0.0, "", str(error), limit))
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                end(process)
                code = None
            text = []
            for file in (out, err):
                file.seek(0)
                text.append(file.read().decode(errors="replace"))
        return self.finished(step, Done(command, code, time.monotonic() - begun, *text, limit))

    def finished(self, step, done):
        """Tells of a command that ended."""
        how = done.why or f"done in {done.seconds:.1f} s"
        shown = " ".join(pathlib.Path(word).name if word.startswith("/") else word for word in done.command)
        shown = self.placed(shown)
        shown = shown if len(shown) <= SHOWN_OF_A_COMMAND else f"{shown[: SHOWN_OF_A_COMMAND - 1]}…"
        self.say(f"{step}: {shown}: {how}")
        parts = [done.stdout.rstrip()] + (["--- stderr", done.stderr.rstrip()] if done.stderr.strip() else [])
        self.raw(f"{step}\n$ {' '.join(done.command)}\n{how}", "\n".join(parts))
        return done


def end(process):
    """Ends a process that this script started, and those it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(GRACE_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def ask(*command):
    """What a small program prints; empty if there is none."""
    try:
        done = subprocess.run(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def number(text):
    """None where a device does not tell."""
    try:
        return float(text)
    except ValueError:
        return None


class Watch:
    """Samples a device's clocks and power while the call runs; it changes none of them."""

    FIELDS = "timestamp,utilization.gpu,clocks.sm,clocks.mem,power.draw,temperature.gpu,memory.used"

    def __init__(self, ordinal):
        # Read by another handle: two that share an offset would write over each other.
        self.file = tempfile.NamedTemporaryFile("w")
        command = [
            "nvidia-smi",
            "-i",
            str(ordinal),
            f"--query-gpu={self.FIELDS}",
            "--format=csv,noheader,nounits",
            "-lms",
            "500",
        ]
        try:
            self.process = subprocess.Popen(
                command, stdout=self.file, stderr=subprocess.DEVNULL, start_new_session=True
            )
        except OSError:
            self.process = None
        self.at = 0

    def since(self):
        """A summary of the samples since the last call, and the samples."""
        with open(self.file.name) as file:
            file.seek(self.at)
            text = file.read()
        self.at += len(text)
        busy = {}
        for line in text.splitlines():
            values = dict(zip(self.FIELDS.split(","), map(number, line.split(","))))
            if (values.get("utilization.gpu") or 0) >= BUSY_PERCENT:
                for name, value in values.items():
                    if value is not None:
                        busy.setdefault(name, []).append(value)
        summary = {"busy samples": len(busy.get("utilization.gpu", []))} if busy else {}
        for name in ("clocks.sm", "power.draw", "temperature.gpu"):
            if name in busy:
                summary |= {
                    f"{name} median": statistics.median(busy[name]),
                    f"{name} least": min(busy[name]),
                    f"{name} most": max(busy[name]),
                }
        return summary, text

    def close(self):
        if self.process:
            end(self.process)
        self.file.close()
