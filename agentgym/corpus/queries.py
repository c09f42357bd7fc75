"""Reads questions and relevance judgements over someone's own corpus, and makes tasks and truths of them.

Judged by document, as public sets are: a chunk counts as its document when it is scored. Without answers a truth
names no `answer_ids`, so `final_answer_found` is null rather than wrong.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentgym.core.errors import ConfigError, CorpusError
from agentgym.core.records import Task, Truth
from agentgym.corpus.readers import as_id, as_text, json_rows, pick, text_lines
from agentgym.corpus.tasks import TaskSet

FAMILY = "prune-search"
_ID_KEYS = ("_id", "id", "query_id")
_QUERY_KEYS = ("query", "text", "question")


def read_tasks(path: str | os.PathLike[str], qrels: str | os.PathLike[str] | None = None) -> TaskSet:
    """Tasks from a file of queries, with truths where there are judgements.

    Args:
        path: a JSON list, or JSON Lines as BEIR has them (`queries.jsonl`), plain or gzip. The query stands under
            `query`, `text` or `question`; its id under `_id`, `id` or `query_id`, else it is `q1`, `q2`, … by its place
            in the file. `gold`, a list of relevant document ids, judges it; `answer` (a text) and `answer_ids` (the
            documents that hold it) are optional.
        qrels: judgements by query id (`read_qrels`), in place of `gold`.

    Returns:
        A task set without documents, named by the file. If any query is judged, those without a relevant document are
        left out (BEIR's rule: they can only be scored 0); if none is, all are kept and `truths` is empty. A truth's
        payload is `{level, relevant, answer, answer_ids, facts}`, each relevant document one fact.

    Raises:
        CorpusError: no queries, an id twice, a row without a query, judgements that fit none of the queries, bad bytes.
        ConfigError: judgements given both ways.
    """
    file = Path(path)
    if not file.is_file():
        raise CorpusError(f"{file} is no file of queries; name one such as queries.jsonl or queries.json")
    judged = None if qrels is None else read_qrels(qrels)
    tasks: list[Task] = []
    truths: list[Truth] = []
    seen: dict[str, str] = {}
    for number, (place, row) in enumerate(json_rows(file), start=1):
        task = _task(place, row, number)
        if task.id in seen:
            raise CorpusError(f"{place}: query id {task.id!r} was used before, at {seen[task.id]}; ids must be unique")
        seen[task.id] = place
        tasks.append(task)
        relevant = _ids(place, row, "gold")
        if judged is not None:
            if relevant:
                raise ConfigError(f"{place} has 'gold' and qrels={os.fspath(qrels or '')!r} was given; use one of them")
            relevant = judged.get(task.id, ())
        if relevant:
            truths.append(_truth(place, row, task.id, relevant))
    if not tasks:
        raise CorpusError(f"{file} holds no queries")
    if judged is not None and not truths:
        raise CorpusError(
            f"{os.fspath(qrels or '')} has no relevant document for any query of {file}: its ids are like "
            f"{next(iter(judged), None)!r}, the queries' like {tasks[0].id!r}"
        )
    if truths:
        known = {truth.id for truth in truths}
        tasks = [task for task in tasks if task.id in known]
    name = file.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    return TaskSet(name=name, documents=(), tasks=tuple(tasks), truths=tuple(truths))


def read_qrels(path: str | os.PathLike[str]) -> dict[str, tuple[str, ...]]:
    """Relevant document ids by query id, both in the file's order; plain or gzip.

    BEIR's form is a header `query-id  corpus-id  score` and tab-separated rows (the header may be missing), TREC's is
    `query iteration document relevance`. Scores of 0 and below are not relevant; a query that has no others is in the
    result with none. Raises CorpusError for a row of another form, a score that is no number, a pair judged both ways.
    """
    file = Path(path)
    if not file.is_file():
        raise CorpusError(f"{file} is no file of judgements; name one such as qrels/test.tsv")
    scores: dict[str, dict[str, bool]] = {}
    for place, query, document, score in _judgements(file):
        relevant = score > 0
        if scores.setdefault(query, {}).setdefault(document, relevant) != relevant:
            raise CorpusError(f"{place}: {document!r} is judged both relevant and not for query {query!r}; keep one")
    if not scores:
        raise CorpusError(f"{file} holds no judgements")
    return {query: tuple(doc for doc, relevant in found.items() if relevant) for query, found in scores.items()}


def _judgements(file: Path) -> Iterator[tuple[str, str, str, float]]:
    for number, line in text_lines(file):
        if not line.strip():
            continue
        columns = line.split("\t") if "\t" in line else line.split()
        if len(columns) not in (3, 4):
            raise CorpusError(
                f"{file}:{number}: {len(columns)} columns; expected query-id, corpus-id, score with tabs between, "
                "or TREC's four"
            )
        query, document, score = columns[0].strip(), columns[-2].strip(), columns[-1].strip()
        try:
            value = float(score)
        except ValueError:
            if number == 1:  # the header
                continue
            raise CorpusError(f"{file}:{number}: score {score!r} is not a number") from None
        if not math.isfinite(value):
            raise CorpusError(f"{file}:{number}: score {score!r} is not a number")
        yield f"{file}:{number}", query, document, value


def _task(place: str, row: dict[str, Any], number: int) -> Task:
    id_key = next((key for key in _ID_KEYS if row.get(key) is not None), None)
    task_id = f"q{number}" if id_key is None else as_id(row[id_key], place, id_key)
    key, query = pick(row, _QUERY_KEYS, place, "query")
    prompt = as_text(query, place, key)
    if not prompt.strip():
        raise CorpusError(f"{place}: {key!r} is empty; a query asks something")
    return Task(id=task_id, family=FAMILY, prompt=prompt, cluster=task_id)


def _truth(place: str, row: dict[str, Any], task_id: str, relevant: tuple[str, ...]) -> Truth:
    answer = row.get("answer")
    payload = {
        "level": "document",
        "relevant": list(relevant),
        "answer": None if answer is None else as_text(answer, place, "answer"),
        "answer_ids": list(_ids(place, row, "answer_ids")),
        "facts": [[document] for document in relevant],
    }
    return Truth(id=task_id, family=FAMILY, payload=payload)


def _ids(place: str, row: dict[str, Any], key: str) -> tuple[str, ...]:
    """A list of ids, each once, in order; empty where there is none."""
    values = row.get(key)
    if values is None:
        return ()
    if not isinstance(values, list):
        raise CorpusError(f"{place}: {key!r} must be a list of document ids, found {values!r:.60}")
    return tuple(dict.fromkeys(as_id(value, place, key) for value in values))
