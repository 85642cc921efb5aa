"""A process that is kept, because it is slow to begin: it answers lines of JSON, one after the other.

Why: an interpreter takes 13 s to import transformers. One process a model pays that once, early, beside other work.
"""

import json
import os
import queue
import subprocess
import tempfile
import threading
import time

from process import GRACE_S, Done, end


class KeptProcess:
    """Runs a command that answers each line of its input with lines of JSON, the last of which says what is `done`."""

    def __init__(self, session, command, environment):
        self.command, self.ended = list(map(str, command)), None
        self.errors, self.lines, self.errors_told = tempfile.TemporaryFile(), queue.Queue(), 0
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1,
            cwd=session.work, start_new_session=True, env=os.environ | environment,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def ask(self, session, step, question, limit):
        """What it answers, as a command that ended; an empty question sends nothing and waits for the first answer."""
        begun, limit = time.monotonic(), min(limit, session.left() - GRACE_S)
        command, text = self.command + ([json.dumps(question)] if question else []), []
        if self.ended or limit <= 0:
            why = self.ended or "no time is left"
            return session.finished(step, Done(command, 1 if self.ended else None, 0.0, "", why, 0.0))
        try:
            if question:
                self.process.stdin.write(json.dumps(question) + "\n")
                self.process.stdin.flush()
            code = self._answered(text, begun + limit)
        except OSError:
            code = self.process.wait(GRACE_S)
        if code:
            self.ended = f"its process had ended with {code}"
        if code is None:
            end(self.process)
            self.ended = "its process was cut short"
        self.errors.seek(self.errors_told)
        said = self.errors.read()
        self.errors_told += len(said)
        answers = [json.loads(line) for line in text if line.startswith('{"done"')]
        failed = [answer["error"] for answer in answers if answer.get("error")]
        done = Done(
            command, 1 if failed else code, time.monotonic() - begun, "".join(text),
            "\n".join([said.decode(errors="replace"), *failed]), limit,
        )  # fmt: skip
        return session.finished(step, done)

    def _answered(self, text, until):
        """Collects lines up to the one that says `done`: 0, None if time ran out, or the code it ended with."""
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return None
            if line is None:
                return self.process.wait(GRACE_S) or 1
            text.append(line)
            if line.startswith('{"done"'):
                return 0

    def close(self):
        if self.process.poll() is None:
            end(self.process)
        self.ended = self.ended or "its process was closed"
