#!/usr/bin/env python3
"""Installs a wheel into clean roots of Debian releases, and runs the first command there.

Why: a wheel that was built for an old glibc may still miss a library or a file that the builder's machine happens to
have.

What: for each release, debootstrap makes a root with Python and pip alone. The wheel is installed there by pip into a
virtual environment, without an index. An ordinary user runs `hopeval run` in an empty folder, without a network. The
printed tables of measures must be alike in all roots.

    sudo python3 ops/release/install.py WHEEL --work DIR --release bookworm --release bullseye

Needs root, debootstrap and unshare. A root that is in DIR already is used again, without an earlier installation.
Prints a JSON object for each release: the system, its glibc, size of the wheel and of what was installed in bytes,
seconds of the run, and the first lines of the table. Exits with 1 if a root's table differs or a command fails.
"""

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

PACKAGES = "python3,python3-pip,python3-venv"
INSTALLED = "opt/hopeval"
USER_FOLDER = "home/reader"


def in_root(root: Path, *command: str, network: bool = True, user: int = 0) -> str:
    """The output of a command in a root; ends the program if it fails."""
    isolated = [] if network else ["unshare", "--net"]
    as_user = ["chroot", f"--userspec={user}:{user}", root]
    done = subprocess.run([*isolated, *as_user, *command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{root.name}: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def make_root(root: Path, release: str, mirror: str | None):
    """A clean root of a release."""
    if (root / "usr/bin/pip3").exists():
        return
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, root]
    subprocess.run([*command, *([mirror] if mirror else [])], check=True, stdout=sys.stderr)


def installed(root: Path, wheel: Path) -> int:
    """Installs the wheel, and returns the size of the environment without what it had before."""
    for folder in (INSTALLED, USER_FOLDER):
        shutil.rmtree(root / folder, ignore_errors=True)
    in_root(root, "python3", "-m", "venv", f"/{INSTALLED}")
    size = lambda: sum(file.stat().st_size for file in (root / INSTALLED).rglob("*") if file.is_file())  # noqa: E731
    before = size()
    shutil.copy(wheel, root / "tmp" / wheel.name)
    in_root(root, f"/{INSTALLED}/bin/pip", "install", "--no-index", f"/tmp/{wheel.name}", network=False)
    return size() - before


def first_command(root: Path) -> tuple[str, float]:
    """The table of `hopeval run` in an empty folder, and the seconds that it took."""
    home = root / USER_FOLDER
    home.mkdir(parents=True)
    shutil.chown(home, 1000, 1000)
    begun = time.monotonic()
    command = f"cd /{USER_FOLDER} && HOME=/{USER_FOLDER} /{INSTALLED}/bin/hopeval run"
    text = in_root(root, "sh", "-c", command, network=False, user=1000)
    return text, time.monotonic() - begun


def measures(text: str) -> list[str]:
    """The lines of the tables of measures, one of each context mode. The one of costs has seconds, which differ."""
    before_costs = itertools.takewhile(lambda line: not line.startswith("incurred"), text.splitlines())
    return [line for line in before_costs if line.startswith("|")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="the folder of the roots")
    parser.add_argument("--release", action="append", required=True, help="a release of Debian; may be repeated")
    parser.add_argument("--mirror", help="the mirror for debootstrap")
    arguments = parser.parse_args()
    tables = []
    for release in arguments.release:
        root = arguments.work / release
        make_root(root, release, arguments.mirror)
        size = installed(root, arguments.wheel)
        text, seconds = first_command(root)
        rows = measures(text)
        tables.append(rows)
        system = next(line for line in (root / "etc/os-release").read_text().splitlines() if "PRETTY" in line)
        found = {
            "system": system.split('"')[1],
            "glibc": in_root(root, "ldd", "--version").splitlines()[0].split()[-1],
            "wheel": arguments.wheel.stat().st_size,
            "installed": size,
            "seconds": round(seconds, 1),
            "rows": len(rows),
            "table": rows[:4],
        }
        print(json.dumps(found, ensure_ascii=False), flush=True)
    if not tables[0] or any(table != tables[0] for table in tables):
        print("the tables differ, or there is none", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
