"""Serves a small S3 interface with faults, from memory, on a loopback port. Needs nothing but Python.

It holds one bucket of any name: put (with `If-None-Match: *`), get (with ranges), head, delete, list, uploads in parts.
A fault is ordered by a request that no S3 client makes, and lasts for some requests or until the next order:

    POST /_fault?mode=MODE[&count=N][&method=PUT][&path=TEXT]

| mode                  | effect on each matching request                                          |
| --------------------- | ------------------------------------------------------------------------ |
| none                  | none                                                                     |
| 500, 503, 403, ...    | the status, without effect                                               |
| slow                  | half a second's delay                                                    |
| reset                 | the connection is reset before the request has an effect                 |
| lost                  | the request has its effect; its answer is lost                           |
| truncated             | the second half of the answer's body is missing                          |
| hang                  | no answer, until the next order                                          |
| unconditional         | `If-None-Match` is ignored                                               |

The answer to an order tells the matching requests since the last one, as `{"requests": N}`. Prints the port on the
first line of standard output and ends when standard input is closed.

    python3 ops/ci/faulty-s3.py [PORT]
"""

import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

LOCK = threading.Lock()
OBJECTS = {}
UPLOADS = {}
STAMP = "2026-01-01T00:00:00.000Z"


class Fault:
    """The ordered fault, and the count of requests that it met."""

    def __init__(self, mode="none", count=None, method=None, path=None):
        self.mode, self.count, self.method, self.path = mode, count, method, path
        self.met = 0
        self.over = threading.Event()

    def meets(self, method, path):
        if self.mode == "none" or self.method not in (None, method) or (self.path and self.path not in path):
            return False
        if self.count is not None and self.met >= self.count:
            return False
        self.met += 1
        return True


FAULT = Fault()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def order(self, query):
        global FAULT
        one = {name: values[0] for name, values in query.items()}
        with LOCK:
            before, FAULT = FAULT, Fault(one["mode"], int(one["count"]) if "count" in one else None,
                                         one.get("method"), one.get("path"))
            before.over.set()
        self.answer(200, json.dumps({"requests": before.met}).encode())

    def serve(self):
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if url.path == "/_fault":
            return self.order(query)
        key = unquote(url.path).lstrip("/").partition("/")[2]
        with LOCK:
            fault = FAULT
            # A listing has its prefix in the query.
            mode = fault.mode if fault.meets(self.command, unquote(self.path)) else "none"
        if mode == "hang":
            fault.over.wait()
            return self.reset()
        if mode == "reset":
            return self.reset()
        if mode == "slow":
            time.sleep(0.5)
        if mode.isdigit():
            return self.error(int(mode), "AccessDenied" if mode == "403" else "InternalError")
        with LOCK:
            status, headers, answer = self.act(key, query, body, conditional=mode != "unconditional")
        if mode == "lost":
            return self.reset()
        self.answer(status, answer, headers, truncated=mode == "truncated")

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve

    def act(self, key, query, body, conditional):
        """The status, headers and body of a request without faults."""
        if self.command in ("GET", "HEAD"):
            return self.listing(query) if not key else self.read(key)
        if self.command == "DELETE":
            (UPLOADS if "uploadId" in query else OBJECTS).pop(query.get("uploadId", [key])[0], None)
            return 204, {}, b""
        if self.command == "POST" and "uploads" in query:
            upload = str(len(UPLOADS) + 1)
            UPLOADS[upload] = {}
            return 200, {}, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>" \
                            "</InitiateMultipartUploadResult>".encode()
        if self.command == "POST" and "uploadId" in query:
            parts = UPLOADS.pop(query["uploadId"][0], None)
            if parts is None:
                return 404, {}, b"<Error><Code>NoSuchUpload</Code></Error>"
            OBJECTS[key] = b"".join(parts[number] for number in sorted(parts))
            return 200, {}, f"<CompleteMultipartUploadResult><ETag>{etag(OBJECTS[key])}</ETag>" \
                            "</CompleteMultipartUploadResult>".encode()
        if self.command == "POST" and "delete" in query:
            keys = [part.partition("</Key>")[0] for part in body.decode().split("<Key>")[1:]]
            for key in keys:
                OBJECTS.pop(key, None)
            told = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
            return 200, {}, f"<DeleteResult>{told}</DeleteResult>".encode()
        if "partNumber" in query:
            UPLOADS[query["uploadId"][0]][int(query["partNumber"][0])] = body
            return 200, {"ETag": etag(body)}, b""
        if conditional and self.headers.get("If-None-Match") == "*" and key in OBJECTS:
            return 412, {}, b"<Error><Code>PreconditionFailed</Code></Error>"
        OBJECTS[key] = body
        return 200, {"ETag": etag(body)}, b""

    def read(self, key):
        if key not in OBJECTS:
            return 404, {}, b"<Error><Code>NoSuchKey</Code></Error>"
        whole = OBJECTS[key]
        headers = {"ETag": etag(whole), "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}
        asked = self.headers.get("Range")
        if not asked:
            return 200, headers, whole
        first, last = asked.removeprefix("bytes=").split("-")
        start = int(first) if first else max(0, len(whole) - int(last))
        end = min(int(last) + 1 if first and last else len(whole), len(whole))
        if start >= len(whole):
            return 416, {}, b"<Error><Code>InvalidRange</Code></Error>"
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{len(whole)}"
        return 206, headers, whole[start:end]

    @staticmethod
    def listing(query):
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        contents, folders = [], {}
        for key in sorted(name for name in OBJECTS if name.startswith(prefix)):
            rest = key[len(prefix):]
            if delimiter and delimiter in rest:
                folders[prefix + rest.partition(delimiter)[0] + delimiter] = None
            else:
                contents.append(f"<Contents><Key>{escape(key)}</Key><Size>{len(OBJECTS[key])}</Size>"
                                f"<LastModified>{STAMP}</LastModified><ETag>{etag(OBJECTS[key])}</ETag></Contents>")
        common = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        return 200, {}, ("<ListBucketResult><IsTruncated>false</IsTruncated>" + "".join(contents) + common
                         + "</ListBucketResult>").encode()

    def answer(self, status, body, headers=None, truncated=False):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if truncated else body)
        if truncated:
            self.close_connection = True

    def error(self, status, code):
        self.answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        # A client may go away.
        pass

    def shutdown_request(self, request):
        # Without a shutdown, so that a lingering time of 0 resets the connection.
        self.close_request(request)


def etag(body):
    return '"' + hashlib.md5(body, usedforsecurity=False).hexdigest() + '"'


def end_with_the_starter():
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)


def main():
    server = Server(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 0), Handler)
    threading.Thread(target=end_with_the_starter, daemon=True).start()
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
