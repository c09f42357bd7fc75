"""Embedders for tests, found by name as a user's are: fast, and with known geometry."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def words(texts: list[str]) -> NDArray[np.float32]:
    """Each word points in a direction of its own; a text is the sum of its words."""
    vectors = np.zeros((len(texts), 32), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big")
            vectors[row] += np.random.default_rng(seed).standard_normal(32).astype(np.float32)
    return vectors


def slow_words(texts: list[str]) -> NDArray[np.float32]:
    """`words`, a tenth of a second a call, noting each call in the file that `EMBED_LOG` names."""
    if len(texts) > 1:
        time.sleep(0.1)
        with Path(os.environ["EMBED_LOG"]).open("a") as log:
            log.write(f"{zlib.crc32(texts[0].encode())}\n")
    return words(texts)


def wrong_shape(texts: list[str]) -> NDArray[np.float32]:
    """One vector for all texts."""
    return np.ones(8, dtype=np.float32)
