"""The same with the official client, `openai`.

    python openai_client.py URL KEY CALLS IN_FLIGHT WORLD WORDS JOURNAL
"""

import asyncio
import hashlib
import json
import sys

import httpx
import openai

from prompts import read_prompts


async def work(client, queue, journal):
    while queue:
        prompt = queue.pop()
        key = hashlib.blake2b(prompt.encode(), digest_size=16).hexdigest()
        done = await client.chat.completions.create(
            model="simulated-llm", messages=[{"role": "user", "content": prompt}], max_tokens=256, temperature=0.0,
            response_format={"type": "json_object"})
        answer = json.loads(done.choices[0].message.content)["answer"]
        journal.write(json.dumps({"key": key, "answer": answer, "usage": done.usage.model_dump()}) + "\n")


async def main():
    url, key, calls, in_flight, world, words, path = sys.argv[1:]
    queue = read_prompts(world, int(calls), words)
    limits = httpx.Limits(max_connections=int(in_flight), max_keepalive_connections=int(in_flight))
    client = openai.AsyncOpenAI(base_url=url, api_key=key, timeout=600,
                                http_client=openai.DefaultAsyncHttpxClient(limits=limits, timeout=600))
    with open(path, "w") as journal:
        await asyncio.gather(*(work(client, queue, journal) for _ in range(int(in_flight))))


asyncio.run(main())
