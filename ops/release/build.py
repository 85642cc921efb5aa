#!/usr/bin/env python3
"""Builds the files of a release: a wheel, an archive with the program, and their checksums.

Why: a user should not have to compile. The wheel brings the program by `pip install`; the archive has it for everybody
else.

What: maturin builds the program with zig as the linker, against glibc 2.28 (manylinux_2_28): it runs on Debian 10,
RHEL 8, Ubuntu 20.04 and later. maturin and zig are installed from PyPI, in pinned versions, into a virtual environment
below the target folder. The archive has the program of the wheel, so that both are one build. Times in the files are
those of the commit.

    python3 ops/release/build.py --out DIR

Prints a JSON object: the files with their sizes in bytes, the program's size, and the highest version of glibc that
the program asks for. Exits with 1 if that is above 2.28.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = ("maturin==1.16.0", "ziglang==0.17.1")
MOST_GLIBC = (2, 28)


def build_wheel(out: Path, target: Path, time: str) -> Path:
    """Builds the wheel in a fresh folder `out`."""
    environment = target / "release-tools"
    python = environment / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *TOOLS], check=True)
    variables = os.environ | {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(environment),
        "SOURCE_DATE_EPOCH": time,
        "CARGO_TARGET_DIR": str(target),
    }
    command = [environment / "bin/maturin", "build", "--release", "--locked", "--zig"]
    command += ["--compatibility", "manylinux_2_28", "--out", out]
    subprocess.run(command, check=True, cwd=REPOSITORY, env=variables, stdout=sys.stderr)
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"{out} has {len(wheels)} wheels: give a folder without any")
    return wheels[0]


def program_of(wheel: Path) -> bytes:
    """The program in a wheel."""
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if name.endswith(".data/scripts/hopeval")]
        if len(names) != 1:
            sys.exit(f"{wheel} has {len(names)} programs")
        return files.read(names[0])


def newest_glibc(program: bytes) -> tuple[int, ...]:
    """The highest version of glibc among the versions of the symbols that the program needs."""
    found = re.findall(rb"\0GLIBC_(\d+(?:\.\d+)+)(?=\0)", program)
    return max(tuple(map(int, version.split(b"."))) for version in found)


def write_archive(path: Path, files: dict[str, tuple[bytes, int]], time: int):
    """Writes files with their modes into a compressed archive that depends on nothing but them."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, (data, mode) in files.items():
            member = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
            member.size, member.mode, member.mtime = len(data), mode, time
            archive.addfile(member, io.BytesIO(data))
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=time) as packed:
        packed.write(content.getvalue())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder without wheels")
    parser.add_argument("--target", type=Path, help="cargo's target folder; by default CARGO_TARGET_DIR or target")
    arguments = parser.parse_args()
    target = arguments.target or Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    time = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=REPOSITORY, check=True, capture_output=True)
    time = time.stdout.decode().strip()
    wheel = build_wheel(arguments.out.resolve(), target.resolve(), time)
    program = program_of(wheel)
    version = wheel.name.split("-")[1]
    archive = arguments.out / f"hopeval-{version}-x86_64-linux.tar.gz"
    texts = {name: ((REPOSITORY / name).read_bytes(), 0o644) for name in ("README.md", "CHANGELOG.md", "LICENSE")}
    write_archive(archive, {"hopeval": (program, 0o755), **texts}, int(time))
    files = [wheel, archive]
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (arguments.out / "SHA256SUMS").write_text("".join(sums))
    glibc = newest_glibc(program)
    sizes = {file.name: file.stat().st_size for file in files}
    print(json.dumps({"files": sizes, "program": len(program), "glibc": ".".join(map(str, glibc))}))
    return int(glibc > MOST_GLIBC)


if __name__ == "__main__":
    sys.exit(main())
