"""Tries real servers of the S3 interface beside moto: Ceph's `radosgw` and Garage.

Starts one node of each server that is there, with an empty bucket, and tells for each whether hopeval works with it, or
refuses it and why. Works means: of four simultaneous puts with `If-None-Match: *`, thirty times, one wins; a run with
one and with two processes, and one that was killed after its first commit and resumed, have the outcomes, scores and
measures of a run in a folder, to the byte; `hopeval store verify` finds nothing.

    python3 ops/storage/servers.py --binary target/release/hopeval [--garage PATH] [--only radosgw|garage]

Needs: `boto3`. For radosgw: Debian's `radosgw`, `ceph-mon`, `ceph-osd` and `ceph-common`; monitor and object store (in
memory) run on loopback, as does the gateway. For garage: its binary (`cargo install garage`), in PATH or as `--garage`.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import boto3
import botocore.config
import botocore.exceptions

KEY, SECRET = "GK31c2f218a2e44f485b94239e", "b892c0665f0ada8a4755dae98baa3b133590e11dae3bcc1f9d769d67f16c3835"
BUCKET = "hopeval"
TABLES = ["outcomes", "scores", "measures"]
JOB = """
name = "servers"
[dataset.world]
questions = 160
passages = 800
seed = 7
[service.bm25]
kind = "bm25"
[method.bm25]
kind = "one_step"
retriever = "bm25"
[method.bm25.sweep]
k = [5, 20]
[method.hops]
kind = "iterative_title"
retriever = "bm25"
[run]
chunk = 8
in_flight = 2
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def eventually(look, what, seconds=120, pause=0.2):
    """Waits until `look` gives something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, subprocess.SubprocessError, botocore.exceptions.BotoCoreError,
                                 botocore.exceptions.ClientError):
            found = look()
            if found:
                return found
        time.sleep(pause)
    sys.exit(f"{what} did not come in {seconds} seconds")


class Server:
    """A server's processes in a folder."""

    region = "us-east-1"

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def start(self, name, *command, **environment):
        log = (self.folder / f"{name}.out").open("w")
        process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT,
                                   cwd=self.folder, env=os.environ | environment)
        self.processes.append(process)

    def ask(self, *command, **environment):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=60,
                              cwd=self.folder, env=os.environ | environment, check=True)
        return done.stdout

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def client(self):
        config = botocore.config.Config(s3={"addressing_style": "path"}, retries={"max_attempts": 0})
        return boto3.client("s3", endpoint_url=self.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET,
                            region_name=self.region, config=config)

    def environment(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HOPEVAL_"))}
        return kept | {"AWS_ENDPOINT_URL": self.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                       "AWS_REGION": self.region}


class Radosgw(Server):
    """One monitor, one object store in memory, one gateway."""

    def begin(self):
        folder = self.folder
        self.port, monitor = free_port(), free_port()
        self.version = self.ask("radosgw", "--version").strip()
        cluster, store = str(uuid.uuid4()), str(uuid.uuid4())
        for name in ("mon", "osd"):
            (folder / name).mkdir()
        conf, keys = folder / "ceph.conf", folder / "keys"
        conf.write_text(f"""
[global]
fsid = {cluster}
mon host = [v2:127.0.0.1:{monitor}]
mon initial members = a
keyring = {keys}
run dir = {folder}
admin socket = {folder}/$name.asok
log file = {folder}/$name.log
pid file = {folder}/$name.pid
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
osd objectstore = memstore
memstore device bytes = 2147483648
[mon.a]
mon data = {folder}/mon
[osd.0]
osd data = {folder}/osd
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{self.port}
""")
        self.ask("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        for name, *caps in [("client.admin", "mon", "allow *", "osd", "allow *", "mgr", "allow *"),
                            ("osd.0", "mon", "allow profile osd", "osd", "allow *"),
                            ("client.rgw", "mon", "allow rw", "osd", "allow rwx")]:
            caps = [word for pair in zip(caps[::2], caps[1::2]) for word in ("--cap", *pair)]
            self.ask("ceph-authtool", keys, "--gen-key", "-n", name, *caps)
        address = f"[v2:127.0.0.1:{monitor}]"
        self.ask("monmaptool", "--create", "--fsid", cluster, "--addv", "a", address, folder / "map")
        at = ("-c", conf)
        self.ask("ceph-mon", *at, "-i", "a", "--mkfs", "--monmap", folder / "map", "--keyring", keys)
        self.start("mon", "ceph-mon", *at, "-i", "a", "-f")
        ceph = ("timeout", "20", "ceph", *at)
        eventually(lambda: self.ask(*ceph, "-s"), "the monitor")
        self.ask(*ceph, "osd", "new", store)
        self.ask("ceph-osd", *at, "-i", "0", "--mkfs", "--osd-uuid", store)
        self.start("osd", "ceph-osd", *at, "-i", "0", "-f")
        eventually(lambda: "1 up" in self.ask(*ceph, "osd", "stat"), "the object store")
        # Before the gateway: both make the pools, and a gateway that loses that race ends.
        self.ask("radosgw-admin", *at, "user", "create", "--uid", "hopeval", "--display-name", "hopeval",
                 "--access-key", KEY, "--secret-key", SECRET)
        self.start("rgw", "radosgw", *at, "-n", "client.rgw", "-f")
        eventually(lambda: self.client().create_bucket(Bucket=BUCKET), "the gateway")


class Garage(Server):
    """One node."""

    region = "garage"

    def __init__(self, folder, binary):
        super().__init__(folder)
        self.binary = binary

    def begin(self):
        folder, binary = self.folder, self.binary
        self.port, rpc, admin = free_port(), free_port(), free_port()
        self.version = self.ask(binary, "--version").strip()
        conf = folder / "garage.toml"
        conf.write_text(f"""
metadata_dir = "{folder}/meta"
data_dir = "{folder}/data"
db_engine = "sqlite"
replication_factor = 1
rpc_bind_addr = "127.0.0.1:{rpc}"
rpc_public_addr = "127.0.0.1:{rpc}"
rpc_secret = "{uuid.uuid4().hex * 2}"
[s3_api]
s3_region = "{self.region}"
api_bind_addr = "127.0.0.1:{self.port}"
root_domain = ".s3.localhost"
[admin]
api_bind_addr = "127.0.0.1:{admin}"
admin_token = "admin"
""")
        garage = (binary, "-c", conf)
        self.start("garage", *garage, "server")
        node = eventually(lambda: self.ask(*garage, "node", "id", "-q"), "the node").split("@")[0]
        eventually(lambda: self.ask(*garage, "status"), "the server")
        self.ask(*garage, "layout", "assign", "-z", "one", "-c", "1G", node)
        self.ask(*garage, "layout", "apply", "--version", "1")
        eventually(lambda: self.ask(*garage, "bucket", "create", BUCKET), "the bucket")
        self.ask(*garage, "key", "import", "--yes", "-n", "hopeval", KEY, SECRET)
        self.ask(*garage, "bucket", "allow", "--read", "--write", "--owner", BUCKET, "--key", KEY)
        eventually(lambda: self.client().list_objects_v2(Bucket=BUCKET), "the interface")


def winners(server, rounds=30, writers=4):
    """The numbers of winners of simultaneous puts if absent, and the refusals' codes."""
    found, codes = [], set()
    for number in range(rounds):
        won = []

        def put(writer, key=f"probe/{number}", won=won):
            try:
                server.client().put_object(Bucket=BUCKET, Key=key, Body=str(writer).encode(), IfNoneMatch="*")
                won.append(writer)
            except botocore.exceptions.ClientError as error:
                codes.add(error.response["Error"].get("Code", "none"))

        threads = [threading.Thread(target=put, args=(writer,)) for writer in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found.append(len(won))
    return found, sorted(codes)


class Trial:
    """Runs hopeval over one server."""

    def __init__(self, binary, folder, server):
        self.binary, self.folder, self.server = binary, folder, server
        self.store = f"s3://{BUCKET}/runs"

    def command(self, *arguments, store=None):
        return [self.binary, *arguments, "--store", store or self.store, "--cache", self.folder / "cache"]

    def run(self, *arguments, store=None):
        return subprocess.run(self.command(*arguments, store=store), cwd=self.folder, capture_output=True, text=True,
                              env=self.server.environment(), timeout=900)

    def bucket_tables(self, run):
        client = self.server.client()
        keys = {table: f"runs/runs/{run}/final/{table}.parquet" for table in TABLES}
        return {table: hashlib.sha256(client.get_object(Bucket=BUCKET, Key=key)["Body"].read()).hexdigest()
                for table, key in keys.items()}

    def kill_after_first_commit(self):
        """The id of a run whose processes were killed after a commit."""
        with subprocess.Popen(self.command("run", "job.toml", "--json", "--processes", "2", "--workers", "1"),
                              cwd=self.folder, env=self.server.environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, start_new_session=True) as child:
            client, seen = self.server.client(), set(self.runs())

            def committed():
                for run in set(self.runs()) - seen:
                    records = client.list_objects_v2(Bucket=BUCKET, Prefix=f"runs/runs/{run}/log/")
                    if records["KeyCount"] >= 2:
                        return run
                return child.poll() is not None and "ended"

            run = eventually(committed, "a commit", pause=0.01)
            if run != "ended":
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return run

    def runs(self):
        client = self.server.client()
        found = client.list_objects_v2(Bucket=BUCKET, Prefix="runs/runs/", Delimiter="/")
        return [entry["Prefix"].split("/")[-2] for entry in found.get("CommonPrefixes", [])]

    def said(self, done):
        return " ".join(line for line in done.stderr.splitlines() if line.startswith(("error", "  caused", "hint")))


def attempt(binary, server):
    """What was seen; whether it is right."""
    wins, codes = winners(server)
    print(f"{server.version}: of 4 simultaneous puts if absent, {min(wins)} to {max(wins)} won, {len(wins)} times; "
          f"the others: {', '.join(codes) or 'none'}")
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(binary, pathlib.Path(folder), server)
        (trial.folder / "job.toml").write_text(JOB)
        local = trial.run("run", "job.toml", "--json", store="local")
        run = json.loads(local.stdout)["run"]
        sound = {table: hashlib.sha256((trial.folder / f"local/runs/{run}/final/{table}.parquet").read_bytes())
                 .hexdigest() for table in TABLES}
        first = trial.run("run", "job.toml", "--json", "--workers", "1")
        if max(wins) > 1 or min(wins) < 1:
            refused = first.returncode == 2 and "If-None-Match" in first.stderr
            print(f"  refused as it must be: exit {first.returncode}: {trial.said(first)}" if refused
                  else f"  NOT REFUSED: exit {first.returncode}: {first.stderr[-500:]}")
            return refused
        right = True
        for name, done in [("one process", first),
                           ("two processes", trial.run("run", "job.toml", "--json", "--processes", "2"))]:
            same = done.returncode == 0 and trial.bucket_tables(json.loads(done.stdout)["run"]) == sound
            print(f"  {name}: exit {done.returncode}, {'the same tables' if same else 'OTHER TABLES'} "
                  f"{trial.said(done)}")
            right = right and same
        # With all answers in the journal a run may end between two looks.
        killed = next((run for run in (trial.kill_after_first_commit() for _ in range(10)) if run != "ended"), "ended")
        if killed == "ended":
            print("  killed: NOT TRIED, the run ended before the kill")
            return False
        resumed = trial.run("resume", killed, "--json")
        same = resumed.returncode == 0 and trial.bucket_tables(killed) == sound
        print(f"  killed and resumed: exit {resumed.returncode}, {'the same tables' if same else 'OTHER TABLES'} "
              f"{trial.said(resumed)}")
        verified = trial.run("store", "verify")
        print(f"  store verify: exit {verified.returncode}: {verified.stdout.strip().splitlines()[-1:]}")
        return right and same and verified.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, type=pathlib.Path)
    parser.add_argument("--garage", default=shutil.which("garage"), help="garage's binary")
    parser.add_argument("--only", choices=["radosgw", "garage"])
    arguments = parser.parse_args()
    kinds = {"radosgw": Radosgw if shutil.which("radosgw") and shutil.which("ceph-osd") else None,
             "garage": (lambda folder: Garage(folder, arguments.garage)) if arguments.garage else None}
    right = True
    for name, kind in kinds.items():
        if arguments.only not in (None, name):
            continue
        if kind is None:
            print(f"{name}: not tried, it is not installed")
            right = right and arguments.only is None
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = kind(pathlib.Path(folder))
            try:
                server.begin()
                right = attempt(arguments.binary.resolve(), server) and right
            finally:
                server.end()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
