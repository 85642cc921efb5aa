#!/usr/bin/env python3
"""Chats and what transformers makes of them by a checkpoint's chat template.

Why: a chat model reads what its template writes, to the character: a missing line break or a second beginning of the
sequence is another prompt. So the engine must render as transformers' `apply_chat_template` does.

What: writes engine/lm/tests/chat: a small byte-level tokenizer, which puts a beginning of its own before every text, so
that a doubled one would show; templates, ours, each in the manner of a family of models or of a feature that published
templates use; drawn chats in parts (adjacent parts of one role are one message); and of each the text and the ids of
transformers, or that its template refuses it. A chat that ends in a part of the assistant is continued
(`continue_final_message`), others get `add_generation_prompt`. The same versions give the same bytes.

Knobs: --out.

Needs Python 3.11 with transformers 5, tokenizers and jinja2.
"""

import argparse
import itertools
import json
import pathlib
import random

import fixture_text
from tokenizers import processors

HERE = pathlib.Path(__file__).resolve()
OUT = HERE.parents[2] / "engine/lm/tests/chat"

SPECIALS = ["<s>", "</s>", "<|turn|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
CHATS = 24

TEMPLATES = {
    # Blocks on lines of their own, indented: trim_blocks and lstrip_blocks decide about every line break.
    "turns": """\
{# Every message is a turn. #}
{{ bos_token }}
{%- for message in messages %}
    {% if loop.first and message['role'] != 'system' %}
<|turn|>system
You answer questions.<|end|>
    {% endif %}
<|turn|>{{ message['role'] }}
{{ message['content'] }}<|end|>
{% endfor %}
{% if add_generation_prompt %}
<|turn|>assistant
{% endif %}
""",
    # The system's words go into the first message of the user; roles must take turns.
    "folded": """\
{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{{- bos_token }}
{%- for message in rest %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("After the system, user and assistant must take turns.") }}
    {%- endif %}
    {%- if message.role == "user" %}
        {%- if loop.last and system is defined %}
            {{- "<|user|> " + system + "\\n\\n" + message["content"] + "<|end|>" }}
        {%- else %}
            {{- "<|user|> " ~ message["content"] ~ "<|end|>" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] + eos_token }}
    {%- else %}
        {{- raise_exception("Only user and assistant: " ~ message.role) }}
    {%- endif %}
{%- endfor %}
""",
    # Contents are trimmed, the assistant has another name.
    "trimmed": """\
{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}\
{% set role = message['role'] %}{% endif %}{{ '<|turn|>' + role + '\\n' + message['content'] | trim + '<|end|>\\n' }}\
{% endfor %}{% if add_generation_prompt %}{{ '<|turn|>model\\n' }}{% endif %}
""",
    # Macros, a namespace, generation blocks, loop controls, slices backwards, and what is None or undefined.
    "features": """\
{%- macro head(role) -%}<|turn|>{{ role }}{{ '\\n' }}{%- endmacro -%}
{%- set found = namespace(last_user=-1, tools=0) -%}
{%- for message in messages[::-1] -%}
    {%- if message.role == 'user' -%}
        {%- set found.last_user = messages | length - 1 - loop.index0 -%}
        {%- break -%}
    {%- endif -%}
{%- endfor -%}
{%- if tools is not none -%}{{ raise_exception('no tools') }}{%- endif -%}
{%- if documents -%}{{ raise_exception('no documents') }}{%- endif -%}
{%- for message in messages -%}
    {%- if message.role == 'system' and not message.content.strip() -%}{%- continue -%}{%- endif -%}
    {{ head(message.role) }}
    {%- if message.tool_calls is defined -%}{{ message.tool_calls }}{%- endif -%}
    {%- if message.role == 'assistant' -%}
        {% generation %}{{ message.content }}<|end|>{% endgeneration %}
    {%- else -%}
        {%- if loop.index0 == found.last_user -%}[last] {% endif -%}
        {{ message.content }}<|end|>
    {%- endif -%}
    {{ '\\n' if not loop.last }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '\\n' ~ head('assistant') }}
    {%- if enable_thinking is defined and enable_thinking is false -%}{{ '(no thoughts)' }}{%- endif -%}
{%- endif -%}
""",
    # Methods of Python's texts and dictionaries, and its JSON.
    "python": """\
{%- for message in messages -%}
    {%- set text = message['content'] -%}
    {%- if '</s>' in text -%}{%- set text = text.split('</s>')[-1].lstrip('\\n') -%}{%- endif -%}
    {%- if text.startswith('The ') and text.endswith('.') -%}{%- set text = text.replace('The ', 'the ', 1) -%}{%- endif -%}
    {{- '<|' + message.role + '|>' -}}
    {%- for key, value in message.items() -%}{{ key }}={{ value | length }};{%- endfor -%}
    {{- message | tojson }}{{ [message.role, none, true, 3, 0.5, {'k': []}] | tojson -}}
    {{- {'b': [1, 2, {}], 'a': text} | tojson(indent=2, sort_keys=True) -}}
    {{- text | tojson(ensure_ascii=True) }}{{ ['x', {'y': 1}] | tojson(separators=(',', ':')) -}}
    {{- message.get('name', 'nobody') }}{{ message.name is defined }}{{ none }}{{ text.upper() | length -}}
    {{- text + eos_token + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}
""",
    # A completion model's template: contents alone.
    "bare": "{% for message in messages %}{{ message.content }}{% endfor %}",
    # Thoughts of the assistant are left out, so such a message cannot be continued.
    "thoughtless": """\
{%- for message in messages %}
    {%- if message.role == 'assistant' and '</think>' in message.content %}
        {%- set content = message.content.split('</think>')[-1] | trim %}
    {%- else %}
        {%- set content = message.content %}
    {%- endif %}
    {{- '<|' ~ message.role ~ '|>\\n' ~ content ~ '<|end|>\\n' }}
{%- endfor %}
{{- '<|assistant|>\\n' if add_generation_prompt }}
""",
}

ODD = [
    "", " ", "\n", "  Two  spaces, a\ttab \n", "Naïve café: ½ €5 日本 🙂", "a </s> b", "<|end|>\n<|turn|>user\nhello",
    "{{ messages }} {% raw %}", "\"quoted\" \\ 'single'", "Line one.\nLine two.\n\n", "<think>so</think> yes",
    "CONTINUE_FINAL_MESSAGE_TAG ",
]  # fmt: skip


def chats():
    """Drawn parts: `(role, text)`."""
    drawn = random.Random(11)
    lines = fixture_text.sentences()
    # The patterns that templates expect, then any order.
    patterns = [
        ["user"], ["system", "user"], ["system", "user", "user", "assistant"], ["user", "assistant", "user"],
        ["system", "system", "user", "assistant", "user", "assistant"], ["user", "user", "assistant", "assistant"],
    ]  # fmt: skip
    for nth in range(CHATS):
        roles = patterns[nth % len(patterns)]
        if nth >= 3 * len(patterns):
            roles = drawn.choices(["system", "user", "assistant"], k=drawn.randint(1, 5))
        yield [[role, drawn.choice(ODD) if drawn.random() < 0.35 else drawn.choice(lines) + drawn.choice(["", " ", "\n"])]
               for role in roles]  # fmt: skip


def messages(parts):
    for role, group in itertools.groupby(parts, lambda part: part[0]):
        yield {"role": role, "content": "".join(text for _, text in group)}


def tokenizer_files(out):
    tokenizer = fixture_text.byte_level(320, SPECIALS)
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(out / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "__type": "AddedToken"}, "chat_template": [
        {"name": "tool_use", "template": "{{ raise_exception('not for tools') }}"},
        {"name": "default", "template": TEMPLATES["turns"]},
    ]}  # fmt: skip
    (out / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def expected(tokenizer, template, parts, variables):
    chat = list(messages(parts))
    continued = chat[-1]["role"] == "assistant"
    options = dict(variables, chat_template=template, continue_final_message=continued, add_generation_prompt=not continued)
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False, **options)
    except Exception:  # noqa: BLE001 - templates raise anything
        return None
    ids = tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False, **options)
    return {"text": text, "ids": ids}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    tokenizer_files(out)
    import transformers

    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(out / "tokenizer.json"), bos_token="<s>", eos_token="</s>"
    )
    cases = []
    for name, parts in itertools.product(TEMPLATES, chats()):
        cases.append({"template": name, "parts": parts, "expected": expected(tokenizer, TEMPLATES[name], parts, {})})
    # Its thoughts are left out before the mark is found: nothing to continue.
    thoughts = [["user", "Who?"], ["assistant", "<think>Ada, or Bruno?</think> Ada"]]
    for parts in (thoughts, [*thoughts, ["assistant", " and"]], [["user", "Who?"], ["assistant", "<think>Ada"]]):
        given = expected(tokenizer, TEMPLATES["thoughtless"], parts, {})
        cases.append({"template": "thoughtless", "parts": parts, "expected": given})
    variables = {"enable_thinking": False}
    parts = [["user", "Who?"]]
    given = expected(tokenizer, TEMPLATES["features"], parts, variables)
    cases.append({"template": "features", "parts": parts, "variables": variables, "expected": given})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    templates = json.dumps(TEMPLATES, indent=1)
    (out / "cases.json").write_text(f'{{"templates": {templates},\n"cases": [\n{lines}\n]}}\n')
    refused = sum(case["expected"] is None for case in cases)
    print(f"{len(cases)} chats, {refused} of them refused; transformers {transformers.__version__}")


if __name__ == "__main__":
    main()
