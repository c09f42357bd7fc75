"""How a PruneSearch trajectory scores. Pure functions of task, truth and trajectory; the leaderboard reads nothing else.

Only chunks that the episode has shown can count: ids are guessable, and a guess is no retrieval (our choice; the report
does not say). At most `answer_chunks` returned ids are read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec

from agentgym.core.errors import DataError
from agentgym.core.records import Score, Trajectory, Truth
from agentgym.retrieval.fusion import RRF_K, rrf

_TAG = re.compile(r"<document\b", re.I)
_TAG_CHARS = 1_000  # of what follows a tag are looked at: bounds the work whatever an agent writes
_ATTRIBUTE = re.compile(r"""(?:\s+id)?\s*=\s*(?:"(.*?)"|'(.*?)'|(.*?))\s*/?>""", re.I)
_ELEMENT = re.compile(r"(?:\s+id)?\s*>\s*([^<\n]*)", re.I)
_FENCE = re.compile(r"\A\s*```\w*\n(.*)```\s*\Z", re.S)
_BULLET = re.compile(r"(?:\d+[.)]|[-*•])\s+")
_LEADING, _TRAILING = "[\"'`(<*", " \t\"'`,;:.)]>*"
_ID = re.compile(r".*_\d+\Z")
_LINE_WORDS = 40  # of a line are looked at
_VALID = (None, "over_budget")  # a call that comes too late is refused, but was well made


class SearchTruth(msgspec.Struct, frozen=True):
    """What is known of a search task.

    `level` says whether ids are chunks or documents (then a chunk counts as its document). `facts` lists, per fact, the
    ids in which it stands; `relevant` is their union; `answer_ids` hold the answer (empty: not known).
    """

    relevant: tuple[str, ...]
    level: Literal["chunk", "document"] = "chunk"
    answer: str | None = None
    answer_ids: tuple[str, ...] = ()
    facts: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, truth: Truth) -> SearchTruth:
        """Read from a truth's payload; what scoring does not use is ignored.

        Raises:
            DataError: the payload lacks what scoring needs; names the truth.
        """
        try:
            return msgspec.convert(truth.payload, cls)
        except msgspec.ValidationError as error:
            raise DataError(f"truth {truth.id!r} is none of a search task: {error}") from error


def parse_answer(text: str, limit: int, known: Collection[str] = ()) -> tuple[str, ...]:
    """Chunk ids that an answer ranks, best first, without repeats, at most `limit`.

    Read in this order, the first form that occurs: `<Document id="x">` (or `<Document id>x</Document>`), a JSON list of
    ids or of objects with `id`, one id at the start of each line. Ids may hold spaces, brackets and quotes: the longest
    of the `known` ids is taken, else what stands in the tag, or the line's first word where it looks like a chunk id.
    """
    found = [_tag_id(rest[:_TAG_CHARS], known) for rest in _TAG.split(text)[1:]]
    if not any(found):
        found = _json_ids(text) or [_line_id(line, known) for line in text.splitlines()]
    return tuple(dict.fromkeys(item for item in found if item))[:limit]


def _tag_id(rest: str, known: Collection[str]) -> str:
    """The id in a tag, given what follows `<document`; empty where there is none."""
    match = _ATTRIBUTE.match(rest)
    if match is None:
        element = _ELEMENT.match(rest)
        return _line_id(element[1], known) if element is not None else ""
    written = "".join(group or "" for group in match.groups()).strip()
    if written in known:
        return written
    return re.split(r"[\"']\s", written, maxsplit=1)[0]  # further attributes after the id


def _line_id(line: str, known: Collection[str]) -> str:
    line = line.strip()
    bullet = _BULLET.match(line)
    item = line[bullet.end() :] if bullet is not None else line
    bare = item.lstrip(_LEADING)
    for text in dict.fromkeys((line, item, bare)):  # an id may begin like a bullet or a bracket: "1. FC Köln_0"
        words = re.split(r"(\s+)", text, maxsplit=_LINE_WORDS)[: 2 * _LINE_WORDS]
        for count in range(len(words), 0, -1):
            candidate = "".join(words[:count]).rstrip(_TRAILING)
            if candidate in known:
                return candidate
    first = re.split(r"\s", bare, maxsplit=1)[0].rstrip(_TRAILING)
    return first if _ID.match(first) else ""


def _json_ids(text: str) -> list[str]:
    fenced = _FENCE.match(text)
    try:
        items = msgspec.json.decode(fenced[1] if fenced is not None else text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    if not isinstance(items, list):
        return []
    ids = [item.get("id") if isinstance(item, dict) else item for item in items]
    return [item.strip() for item in ids if isinstance(item, str)]


def document_of(chunk_id: str) -> str:
    """`doc_3` → `doc`."""
    return chunk_id.rpartition("_")[0]


def f_beta(precision: float, recall: float, beta: float) -> float:
    """(1+β²)PR/(β²P+R), 0 when both are 0."""
    bottom = beta * beta * precision + recall
    return (1 + beta * beta) * precision * recall / bottom if bottom else 0.0


class Found(msgspec.Struct, frozen=True):
    """What of the truth was returned and met, as shares in [0, 1].

    `trajectory_…` are of all chunks met, the others of those returned. `answer_found` is 1 or 0, None where no answer is
    known; `prune_accuracy` = 1 − relevant pruned / pruned, None when nothing was pruned.
    """

    precision: float
    recall: float
    fact_recall: float
    trajectory_recall: float
    trajectory_fact_recall: float
    answer_found: float | None
    prune_accuracy: float | None


def find(truth: SearchTruth, returned: Sequence[str], met: Iterable[str], pruned: Iterable[str] = ()) -> Found:
    """Compare returned, met and pruned chunks with the truth."""
    unit = document_of if truth.level == "document" else str
    met_chunks = set(met)
    hits = {unit(chunk) if chunk in met_chunks else f"unmet:{chunk}" for chunk in returned}
    seen = {unit(chunk) for chunk in met_chunks}
    gone = [unit(chunk) for chunk in pruned]
    relevant = set(truth.relevant)
    facts = truth.facts or tuple((item,) for item in truth.relevant)
    return Found(
        precision=len(hits & relevant) / len(hits) if hits else 0.0,
        recall=_share(item in hits for item in relevant),
        fact_recall=_share(any(item in hits for item in fact) for fact in facts),
        trajectory_recall=_share(item in seen for item in relevant),
        trajectory_fact_recall=_share(any(item in seen for item in fact) for fact in facts),
        answer_found=float(not hits.isdisjoint(truth.answer_ids)) if truth.answer_ids else None,
        prune_accuracy=1 - _share(chunk in relevant for chunk in gone) if gone else None,
    )


def _share(flags: Iterable[bool]) -> float:
    items = list(flags)
    return sum(items) / len(items) if items else 0.0


def found(truth: Truth, trajectory: Trajectory, answer_chunks: int) -> Found:
    """`find` for one trajectory."""
    met = dict.fromkeys(chunk for step in trajectory.steps for chunk in step.shown)
    pruned = [chunk for step in trajectory.steps for chunk in step.pruned]
    return find(SearchTruth.of(truth), parse_answer(trajectory.answer, answer_chunks, met), met, pruned)


def _headline(got: Found) -> tuple[float, dict[str, float | None]]:
    """The score, and the metrics that single and fused answers share."""
    f1 = f_beta(got.precision, got.recall, 1.0)
    return f1 if got.answer_found is None else got.answer_found, {
        "final_answer_found": got.answer_found,
        "recall": got.recall,
        "precision": got.precision,
        "f1": f1,
        "fact_recall": got.fact_recall,
        "trajectory_recall": got.trajectory_recall,
    }


def score(truth: Truth, trajectory: Trajectory, answer_chunks: int = 30) -> Score:
    """All metrics of the report (§1 Metrics).

    The headline is `final_answer_found`; where no answer is known it is F1. `success` is 1 when the answer was found, or,
    where none is known, when every fact was returned.
    """
    got = found(truth, trajectory, answer_chunks)
    headline, shared = _headline(got)
    results = [result for step in trajectory.steps for result in step.results]
    turns = len(trajectory.steps)
    return Score(
        headline,
        {
            "success": got.answer_found if got.answer_found is not None else float(got.fact_recall == 1.0),
            **shared,
            "trajectory_fact_recall": got.trajectory_fact_recall,
            "prune_accuracy": got.prune_accuracy,
            "calls_per_turn": trajectory.usage.calls / turns if turns else 0.0,
            "turns": float(turns),
            "tokens": float(trajectory.usage.tokens_in + trajectory.usage.tokens_out),
            "context_peak": float(max((step.used for step in trajectory.steps), default=0)),
            "invalid_call_rate": _share(result.error not in _VALID for result in results),
        },
    )


def fuse_rollouts(truth: Truth, trajectories: Sequence[Trajectory], answer_chunks: int = 30, k: int = RRF_K) -> Score:
    """Score of n rollouts of one task fused by reciprocal rank ("4x" for n = 4; k from the co-author's code).

    Ties go to the id. Chunks met by any rollout count as met.
    """
    met = dict.fromkeys(chunk for trajectory in trajectories for step in trajectory.steps for chunk in step.shown)
    rankings = [parse_answer(trajectory.answer, answer_chunks, met) for trajectory in trajectories]
    order = rrf(rankings, k=k, depth=answer_chunks)[:answer_chunks]
    return Score(*_headline(find(SearchTruth.of(truth), order, met)))
