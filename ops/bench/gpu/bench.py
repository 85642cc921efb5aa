"""What the steps share: the program, the interpreter, the device's names, and where CUDA's libraries are."""

import concurrent.futures
import copy
import glob
import os
import pathlib
import shutil
import stat
import sys
import sysconfig

from gate import DeviceGate
from process import ask

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIBRARIES = ("libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libnvidia-ml.so.1")
"""What hopeval loads by name."""
LOG = "warn,hopeval_cuda=debug"
"""Which algorithm of cuBLASLt each product got, and why others were refused."""
PYTHON = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
"""Of an interpreter's environment."""
DRY = "DRY RUN on the CPU, tiny models: not a measurement of a GPU"


def library_folders():
    """Folders of libraries that the loader does not find: beside PyTorch, in a toolkit, in a container's driver."""
    known = ask("ldconfig", "-p") + " ".join(
        name
        for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":")
        if os.path.isdir(folder)
        for name in os.listdir(folder)
    )
    packages = sysconfig.get_paths()["purelib"]
    places = [f"{packages}/nvidia/*/lib", "/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib"]
    places += ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"]
    folders = []
    for library in LIBRARIES:
        if library not in known:
            found = [path for place in places for path in sorted(glob.glob(f"{place}/{library}"))]
            folders += [os.path.dirname(path) for path in found[:1]]
    return list(dict.fromkeys(folders))


def tool(name):
    """A profiler or checker of the toolkit, which need not be on the path."""
    places = (f"/usr/local/cuda*/bin/{name}", f"/opt/nvidia/*/*/{name}", f"/opt/nvidia/*/*/bin/{name}")
    return shutil.which(name) or next(
        (path for place in places for path in sorted(glob.glob(place), reverse=True)), name
    )


def runnable(program, work):
    """The program; carried files may have lost the right to be run."""
    if os.access(program, os.X_OK):
        return program.resolve()
    copy = work / program.name
    shutil.copy(program, copy)
    copy.chmod(copy.stat().st_mode | stat.S_IXUSR)
    return copy


class Bench:
    """The measured program on a device, in a session."""

    def __init__(self, options, session):
        self.options, self.session = options, session
        self.device, self.on_gpu = options.device, options.device.startswith("cuda")
        self.exact = self.device.replace("cuda", "cuda-f32") if self.on_gpu else "cpu-avx2"
        """The device that computes in f32; in a dry run another that is not the first one."""
        self.torch_device = self.device if self.on_gpu else "cpu"
        self.tiny = options.size == "tiny"
        self.program = runnable(options.hopeval, session.work)
        folders = library_folders() if self.on_gpu else []
        path = ":".join(folders + [folder for folder in [os.environ.get("LD_LIBRARY_PATH")] if folder])
        self.environment = {
            "LD_LIBRARY_PATH": path,
            "XDG_CACHE_HOME": str(session.work / "cache"),
            "NO_COLOR": "1",
            "RUST_LOG": LOG,
        }
        self.stopped = []
        """Why no further step should begin."""
        self.gate, self.pool = DeviceGate(), concurrent.futures.ThreadPoolExecutor(64)
        self.checkpoints, self.requests, self.peers = {}, {}, {}
        """By a model's name what is made in the background: its folder, its requests, transformers' process."""
        self.opened = []
        """Processes that must be closed."""
        self.documents = {}
        """What `job` printed, by device."""
        self.measured_peak = []

    def bounded(self, seconds):
        """The same for a step, whose commands end within so many seconds."""
        other = copy.copy(self)
        other.session = self.session.bounded(seconds)
        return other

    def hopeval(self, step, *arguments, limit, before=(), timed=False):
        """Runs the program, alone on the device if it is timed; `before` is what runs it, a profiler, say."""
        threads = ["--threads", "1"] if not self.on_gpu else []
        with self.gate.entered(timed):
            return self.session.run(step, [*before, self.program, *threads, *arguments], limit, self.environment)

    def python_command(self, script, *arguments):
        return [sys.executable, "-W", "ignore", HERE / script, *arguments]

    def python(self, step, script, *arguments, limit, timed=False):
        with self.gate.entered(timed):
            return self.session.run(step, self.python_command(script, *arguments), limit, PYTHON)

    def at_once(self, work, items):
        """`work` of each item, all in threads of their own; the results in the items' order."""
        return list(self.pool.map(work, items))

    def peak(self):
        """Operations a second of a large product in bf16, measured once a call; None if that failed."""
        if not self.measured_peak:
            done = self.python("peak", "peak.py", self.torch_device, limit=60, timed=True)
            figures = done.answers()
            self.session.record("peak", "products and a copy by PyTorch", done, figures=figures)
            rates = [figure["tflops"] for figure in figures if figure.get("dtype") == "bfloat16"]
            self.measured_peak += [(1e12 * rates[0] if rates else None), figures]
        return self.measured_peak[0]

    def figures_of_peak(self):
        self.peak()
        return self.measured_peak[1]

    def title(self, text):
        return [f"### {text}" + ("" if self.on_gpu else f" ({DRY})"), ""]


def row(*cells):
    return (
        "| "
        + " | ".join("-" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells)
        + " |"
    )


def head(*names):
    return [row(*names), row(*["---"] * len(names))]
