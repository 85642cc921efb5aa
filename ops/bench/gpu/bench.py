"""What the steps share: the program, the interpreter, the device's names, and where CUDA's libraries are."""

import glob
import os
import pathlib
import shutil
import stat
import sys
import sysconfig

from process import ask

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LIBRARIES = ("libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libnvidia-ml.so.1")
"""What hopeval loads by name."""
LOG = "warn,hopeval_cuda=debug"
"""Which algorithm of cuBLASLt each product got, and why others were refused."""
DRY = "DRY RUN on the CPU, tiny models: not a measurement of a GPU"


def library_folders():
    """Folders of the libraries that the loader does not find by itself: beside PyTorch, in a toolkit, in a container's driver."""
    known = ask("ldconfig", "-p") + " ".join(
        name
        for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":")
        if os.path.isdir(folder)
        for name in os.listdir(folder)
    )
    packages = sysconfig.get_paths()["purelib"]
    places = [f"{packages}/nvidia/*/lib", "/usr/local/cuda*/lib64", "/usr/local/cuda*/targets/*/lib", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"]
    folders = []
    for library in LIBRARIES:
        if library not in known:
            found = [path for place in places for path in sorted(glob.glob(f"{place}/{library}"))]
            folders += [os.path.dirname(path) for path in found[:1]]
    return list(dict.fromkeys(folders))


def tool(name):
    """A profiler or checker of the toolkit, which need not be on the path."""
    places = (f"/usr/local/cuda*/bin/{name}", f"/opt/nvidia/*/*/{name}", f"/opt/nvidia/*/*/bin/{name}")
    return shutil.which(name) or next((path for place in places for path in sorted(glob.glob(place), reverse=True)), name)


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
        self.environment = {"LD_LIBRARY_PATH": path, "XDG_CACHE_HOME": str(session.work / "cache"), "NO_COLOR": "1", "RUST_LOG": LOG}
        self.unmade = set()
        """Checkpoints that could not be made in this call."""
        self.stop = None
        """Why no further step should begin."""
        self._peak = None

    def hopeval(self, step, *arguments, limit, before=()):
        """Runs the program; `before` is what runs it, a profiler, say."""
        threads = ["--threads", "1"] if not self.on_gpu else []
        return self.session.run(step, [*before, self.program, *threads, *arguments], limit, self.environment)

    def python(self, step, script, *arguments, limit):
        environment = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        return self.session.run(step, [sys.executable, "-W", "ignore", HERE / script, *arguments], limit, environment)

    def peak(self):
        """Operations a second of a large product in bf16, measured once a call; None if that failed."""
        if self._peak is None:
            done = self.python("peak", "peak.py", self.torch_device, limit=120)
            figures = done.answers()
            self.session.record("peak", "products and a copy by PyTorch", done, figures=figures)
            rates = [figure["tflops"] for figure in figures if figure.get("dtype") == "bfloat16"]
            self._peak = (1e12 * rates[0] if rates else 0.0), figures
        return self._peak[0] or None

    def figures_of_peak(self):
        self.peak()
        return self._peak[1]

    def title(self, text):
        return [f"### {text}" + ("" if self.on_gpu else f" ({DRY})"), ""]


def row(*cells):
    return "| " + " | ".join("-" if cell is None else str(cell).replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def head(*names):
    return [row(*names), row(*["---"] * len(names))]
