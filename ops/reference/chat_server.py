"""A server of chats on a loopback port, whose replies a function writes. It stands in for a model."""

import json

from post_server import PostServer


class ChatServer(PostServer):
    """`reply(prompt)` gives the text that follows the last message; several threads call it at once."""

    def __init__(self, reply):
        def answer(body, path, headers):
            fields = json.loads(body)
            message = {"role": "assistant", "content": reply(fields["messages"][-1]["content"])}
            return json.dumps(
                {
                    "id": "scripted",
                    "object": "chat.completion",
                    "created": 0,
                    "model": fields["model"],
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
                }
            ).encode()

        super().__init__(answer)
