"""A server on a loopback port that answers POST by a function."""

import http.server
import threading


class PostServer:
    """Serves until `stop`, or until the process ends. `answer(body, path, headers)` gives the JSON text of a reply, in
    bytes, or a status and that; several threads call it at once."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # A reply is two writes: the second one would wait for the acknowledgement of the first, 40 ms.
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                reply = answer(body, self.path, self.headers)
                status, text = reply if isinstance(reply, tuple) else (200, reply)
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
