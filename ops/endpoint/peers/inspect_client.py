"""The same questions as an evaluation of `inspect_ai`: one sample is one question, scored by exact match.

    python inspect_client.py URL KEY CALLS IN_FLIGHT WORLD WORDS LOGS
"""

import os
import sys

from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

from prompts import read_prompts

url, key, calls, in_flight, world, words, folder = sys.argv[1:]
os.environ["INSPECT_LOG_LEVEL"] = "error"
samples = [Sample(input=prompt, target="unknown") for prompt in read_prompts(world, int(calls), words)]
config = GenerateConfig(max_connections=int(in_flight), max_tokens=256, temperature=0.0)
model = get_model("openai/simulated-llm", base_url=url, api_key=key, config=config, responses_api=False)
task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=match())
logs = evaluate(task, model=model, log_dir=folder, display="none", max_samples=int(in_flight))
if logs[0].status != "success":
    sys.exit(f"inspect_ai: {logs[0].status}: {logs[0].error}")
