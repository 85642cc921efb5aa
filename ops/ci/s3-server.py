"""Serves the S3 interface of moto on a loopback port, one request at a time.

moto checks `If-None-Match` and writes the object in two steps, so only without threads is "put if absent" atomic, as
it is in S3 itself. Prints the port on the first line of standard output and ends when standard input is closed, so
that it never outlives the test that started it.

    python3 ops/ci/s3-server.py [PORT]
"""

import os
import sys
import threading

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Quiet(WSGIRequestHandler):
    """One connection for each request: a client that keeps one open would keep the others out."""

    protocol_version = "HTTP/1.0"

    def log_request(self, *_):
        pass


def end_with_the_starter():
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


def main():
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", port, application, threaded=False, request_handler=Quiet)
    threading.Thread(target=end_with_the_starter, daemon=True).start()
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
