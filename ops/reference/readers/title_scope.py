"""The pages that a retrieval is restricted to, named by the model (IRCoT, appendix B, for IIRC).

The model lists titles of pages; each is mapped to the page that a search by titles ranks first; only passages of
these pages are retrieved. Without a title, or without a page, nothing is restricted.
"""

import json

import shared


def pages(question, tools, parameters):
    """Numbers of the passages that may be retrieved; none where all may."""
    if not parameters["title_retriever"] or not question.context:
        return None
    text = tools.server.write(prompt(question, parameters), parameters["max_tokens"], stop=["\n"])
    found = [tools.search(parameters["title_retriever"], title, 1) for title in titles(text)[:parameters["titles"]]]
    names = {tools.corpus.titles[passage] for hits in found for passage in hits}
    if not names:
        return None
    return {passage for passage, title in enumerate(tools.corpus.titles) if title in names}


def prompt(question, parameters):
    ask = shared.template(parameters, "title_prompt", "ircot/titles.txt").rstrip("\n")
    few_shot = shared.FewShot(parameters | {"instruction": ""}, "direct", passages=False)
    rows = [{**row, "question": shared.filled(ask, question=row["question"], count=str(len(row["titles"]))),
             "answer": json.dumps(row["titles"], ensure_ascii=False)} for row in few_shot.rows if row.get("titles")]
    few_shot.rows = rows
    asked = shared.filled(ask, question=question.text, count=str(parameters["titles"]))
    return few_shot.prompt(asked, [(question.context["title"], question.context["text"])], pinned=1)


def titles(text):
    """A JSON list of texts, or else what stands in double quotes, of which the last need not be closed (a text may be
    cut off); each once."""
    listed = text[text.find("["):text.rfind("]") + 1] if "[" in text else ""
    try:
        found = json.loads(listed)
        if not all(isinstance(title, str) for title in found):
            raise ValueError
    except (ValueError, TypeError):
        found = text.split('"')[1::2]
    return [title for title in dict.fromkeys(title.strip() for title in found) if title]
