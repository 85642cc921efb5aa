"""A server of chats on a loopback port, whose replies a function writes. It stands in for a model."""

import http.server
import json
import threading


class ChatServer:
    """Serves until the process ends. `reply(prompt)` gives the text that follows the last message; several threads call
    it at once."""

    def __init__(self, reply):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                fields = json.loads(self.rfile.read(int(self.headers["content-length"])))
                message = {"role": "assistant", "content": reply(fields["messages"][-1]["content"])}
                answer = json.dumps(
                    {
                        "id": "scripted",
                        "object": "chat.completion",
                        "created": 0,
                        "model": fields["model"],
                        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                    }
                ).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, daemon=True).start()
