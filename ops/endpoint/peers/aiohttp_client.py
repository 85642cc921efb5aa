"""A careful hand-written client: aiohttp, a pool of workers, one line of a journal for each answer.

    python aiohttp_client.py URL KEY CALLS IN_FLIGHT WORLD WORDS JOURNAL
"""

import asyncio
import hashlib
import json
import sys

import aiohttp

from prompts import read_prompts


async def work(session, url, queue, journal):
    while queue:
        prompt = queue.pop()
        body = json.dumps({"model": "simulated-llm", "messages": [{"role": "user", "content": prompt}],
                           "max_tokens": 256, "temperature": 0.0, "response_format": {"type": "json_object"}}).encode()
        key = hashlib.blake2b(body, digest_size=16).hexdigest()
        while True:
            async with session.post(url, data=body, headers={"content-type": "application/json"}) as answer:
                document = await answer.json()
                if answer.status == 200:
                    break
        text = document["choices"][0]["message"]["content"]
        journal.write(json.dumps({"key": key, "answer": json.loads(text)["answer"], "usage": document["usage"]}) + "\n")


async def main():
    url, key, calls, in_flight, world, words, path = sys.argv[1:]
    queue = read_prompts(world, int(calls), words)
    connector = aiohttp.TCPConnector(limit=int(in_flight))
    with open(path, "w") as journal:
        async with aiohttp.ClientSession(connector=connector, headers={"authorization": f"Bearer {key}"}) as session:
            await asyncio.gather(*(work(session, f"{url}/chat/completions", queue, journal)
                                   for _ in range(int(in_flight))))


asyncio.run(main())
