"""What the comparisons of this folder share: which machine they ran on, programs and peers to run, processes held to cores.

A script in a folder of its own takes it with `sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))`.
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]


def processor():
    try:
        models = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
        return f"{models[0]}, {len(models)} cores"
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def load():
    """The load averages, for a table: what else the machine did."""
    return ", ".join(f"{value:.1f}" for value in os.getloadavg())


def versions(python, packages):
    """Of an interpreter's packages."""
    shown = f"import importlib.metadata as m; print(', '.join(f'{{p}} {{m.version(p)}}' for p in {list(packages)!r}))"
    return subprocess.run([str(python), "-c", shown], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def interpreter(folder, packages):
    """An interpreter with `packages`, in a virtual environment that is made once."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


def program(package, example=None):
    """A package's program, or one of its examples, built for release."""
    build = ["cargo", "build", "--release", "-p", package, *(["--example", example] if example else [])]
    subprocess.run(build, check=True, cwd=ROOT)
    release = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    return release / "examples" / example if example else release / package


def pinned(command, cores):
    """A command that runs on these cores (`0`, `0,1`) alone, where that can be had."""
    taskset = ["taskset", "-c", str(cores)] if sys.platform == "linux" else []
    return [*taskset, *map(str, command)]


def one_thread():
    """An environment in which the peers' libraries compute on one thread."""
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict(os.environ, **dict.fromkeys(names, "1"))


def answers(command, core):
    """The JSON lines that a command prints, which runs on one core with one thread."""
    done = subprocess.run(pinned(command, core), check=True, stdout=subprocess.PIPE, text=True, env=one_thread())
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] in "{["]


def tell(lines, out):
    """Prints a table, and writes it if there is a file for it."""
    text = "\n".join(lines)
    print(text)
    if out:
        out.write_text(text)


class Peer:
    """A process that keeps what is slow to open: it says something when it is ready, then answers each line with a line of JSON."""

    def __init__(self, command, environment=None):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
        self.command = list(map(str, command))
        self.process = subprocess.Popen(self.command, **pipes)
        self.ready = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self.command)} ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
