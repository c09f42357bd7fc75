"""Speed of retrieval: the index against the bare calls it makes, bm25s against rank-bm25, and how builds grow.

    python benchmarks/speed/retrieval.py            # 10k and 100k passages, some ten minutes
    python benchmarks/speed/retrieval.py --quick    # 500 and 2k, for tests

Passages are synthetic: words by Zipf's law (stop words as the commonest), 60 to 120 a passage; a query is ten words of
one passage, the commonest left out, between stop words. The dense leg runs on random unit vectors of 384 numbers, made in
microseconds, so that builds measure the index and not the model; the model's own rate is measured apart. Contestants
take turns query by query in one process with one thread. Results: `benchmarks/results/speed_retrieval.json` and `.svg`.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from agentgym.corpus.document import Document  # noqa: E402
from agentgym.retrieval.fusion import rrf  # noqa: E402
from agentgym.retrieval.index import Index  # noqa: E402

DIM, DEPTH, VOCABULARY, STOP_WORDS = 384, 50, 50_000, 33
PACKAGES = (
    "agentgym-suite",
    "bm25s",
    "rank-bm25",
    "faiss-cpu",
    "numpy",
    "numba",
    "PyStemmer",
    "torch",
    "sentence-transformers",
)


def random_vectors(texts: list[str]) -> np.ndarray:
    """Random directions, the same for the same text."""
    return np.stack(
        [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(DIM, dtype=np.float32) for text in texts]
    )


def vocabulary(rng: np.random.Generator) -> np.ndarray:
    """Words by falling frequency: English stop words, then made-up words of two to four syllables."""
    from bm25s.stopwords import STOPWORDS_EN

    syllables = [c + v for c in "bcdfghjklmnprstvz" for v in "aeiou"]
    words = dict.fromkeys(STOPWORDS_EN)
    while len(words) < VOCABULARY:
        words["".join(rng.choice(syllables, rng.integers(2, 5)))] = None
    return np.array(list(words))


def passages(count: int, seed: int) -> list[str]:
    """Synthetic passages, joined words."""
    rng = np.random.default_rng(seed)
    words = vocabulary(rng)
    chance = 1 / np.arange(1, VOCABULARY + 1)
    lengths = rng.integers(60, 121, count)
    drawn = rng.choice(VOCABULARY, lengths.sum(), p=chance / chance.sum())
    ends = np.cumsum(lengths)
    return [" ".join(words[drawn[end - length : end]]) for end, length in zip(ends, lengths, strict=True)]


def questions(texts: list[str], count: int, seed: int) -> list[str]:
    """Ten distinct words of one passage, the hundred commonest left out, with stop words between."""
    rng = np.random.default_rng(seed + 1)
    common = set(vocabulary(np.random.default_rng(seed))[:100])
    stops = list(vocabulary(np.random.default_rng(seed))[:STOP_WORDS])
    found = []
    for row in rng.permutation(len(texts))[:count]:
        words = [word for word in dict.fromkeys(texts[row].split()) if word not in common]
        chosen = rng.permutation(words)[:10]
        found.append(" ".join(f"{rng.choice(stops)} {word}" for word in chosen))
    return found


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def build_in_child(count: int, seed: int, folder: Path) -> None:
    """Build an index of `count` passages and report on it (in a process of its own, for its peak memory)."""
    texts = passages(count, seed)
    corpus = [Document(f"d{i}", text) for i, text in enumerate(texts)]
    before_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu = time.process_time()
    wall_s, index = timed(lambda: Index.build(corpus, folder, embedder=random_vectors, rerank=False))
    report = {
        "chunks": len(index),
        "tokens": index.manifest.tokens,
        "wall_s": round(wall_s, 3),
        "cpu_s": round(time.process_time() - cpu, 3),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "corpus_mib": round(before_mib, 1),
        "disk_mib": round(sum(size for size, _ in index.manifest.files.values()) / 2**20, 1),
    }
    print(json.dumps(report))


def open_in_child(folder: Path) -> None:
    """Open an index in a fresh process, look up one chunk and one id."""
    wall_s, index = timed(lambda: Index.open(folder))
    lookup_s, _ = timed(lambda: index.chunk(index.row(index.chunk(len(index) - 1).id)))
    print(json.dumps({"chunks": len(index), "wall_s": round(wall_s, 4), "first_lookup_s": round(lookup_s, 4)}))


def child(*arguments: object) -> dict[str, Any]:
    """Run this script's hidden part in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), *map(str, arguments)]
    result: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result


def growth(builds: list[dict[str, Any]], key: str) -> float:
    """Exponent of a power law through the first and the last build."""
    first, last = builds[0], builds[-1]
    return round(math.log(last[key] / first[key]) / math.log(last["chunks"] / first["chunks"]), 3)


def bare_search(index: Index, texts: list[str]) -> Callable[[str], list[int]]:
    """What a user would write by hand: bm25s's own retriever, faiss's flat index, fusion."""
    import bm25s
    import faiss
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    engine = bm25s.BM25(k1=1.5, b=0.75, method="atire", idf_method="robertson", backend="numba")
    engine.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    flat = faiss.IndexFlatIP(DIM)
    flat.add(np.load(index.folder / "vectors.npy"))

    def search(query: str) -> list[int]:
        tokens = bm25s.tokenize([query], stopwords="en", stemmer=stemmer, show_progress=False, return_ids=False)
        rows, _ = engine.retrieve(tokens, k=DEPTH, show_progress=False, n_threads=1)
        vector = random_vectors([query])
        vector /= np.linalg.norm(vector)
        _, near = flat.search(vector, DEPTH)
        return rrf([rows[0].tolist(), near[0].tolist()])[:10]

    return search


def compare_search(index: Index, texts: list[str], queries: list[str]) -> dict[str, Any]:
    """Hybrid search without rerank against the bare calls, query by query in turn."""
    bare = bare_search(index, texts)
    for query in queries[:5]:  # compile, and touch the pages
        index.search(query, 10), bare(query)
    ours, theirs, same = [], [], []
    for i, query in enumerate(queries[5:]):
        pair = [("ours", lambda q=query: index.search(q, 10)), ("bare", lambda q=query: bare(q))]
        found = {name: timed(call) for name, call in (pair if i % 2 else pair[::-1])}
        ours.append(found["ours"][0])
        theirs.append(found["bare"][0])
        same.append(len(set(found["ours"][1]) & set(found["bare"][1])) / 10)
    return {
        "queries": len(ours),
        "search_ms": round(statistics.median(ours) * 1e3, 3),
        "bare_ms": round(statistics.median(theirs) * 1e3, 3),
        "ratio": round(sum(ours) / sum(theirs), 3),
        "ratio_of_medians": round(statistics.median(ours) / statistics.median(theirs), 3),
        "same_top10": round(statistics.mean(same), 3),
    }


def compare_bm25(index: Index, queries: list[str], masked: int) -> dict[str, Any]:
    """The default lexical leg, plain and under a mask, against rank-bm25 over the same words."""
    from agentgym.retrieval.lexical import open_lexical

    ours = open_lexical("bm25s", list, index.folder, len(index))
    reference = open_lexical("rank-bm25", index._indexed_texts, index.folder, len(index))
    allowed = np.ones(len(index), dtype=np.bool_)
    allowed[np.random.default_rng(0).permutation(len(index))[:masked]] = False
    ours.top(queries[0], DEPTH)
    reference.top(queries[0], DEPTH)
    # In blocks: rank-bm25 walks through a gigabyte a query, and whoever comes next would pay for its cold caches.
    asked = queries[1:]
    plain = [timed(lambda q=query: ours.top(q, DEPTH)) for query in asked]
    mask = [timed(lambda q=query: ours.top(q, DEPTH, allowed)) for query in asked]
    rank = [timed(lambda q=query: reference.top(q, DEPTH)) for query in asked[: max(8, len(asked) // 8)]]
    equal = [
        float(np.abs(ours.score(q, rows) - scores).max()) for q, (_, (rows, scores)) in zip(asked, rank, strict=False)
    ]
    return {
        "queries": len(plain),
        "rank_bm25_queries": len(rank),
        "bm25s_ms": round(statistics.mean(seconds for seconds, _ in plain) * 1e3, 4),
        "bm25s_masked_ms": round(statistics.mean(seconds for seconds, _ in mask) * 1e3, 4),
        "rank_bm25_ms": round(statistics.mean(seconds for seconds, _ in rank) * 1e3, 2),
        "times_faster": round(
            statistics.mean(seconds for seconds, _ in rank) / statistics.mean(seconds for seconds, _ in plain), 1
        ),
        "largest_score_difference": float(f"{max(equal):.2g}"),
    }


def embedding_rate(count: int, seed: int) -> dict[str, float]:
    """Chunks of about 500 tokens that the bundled model embeds in a CPU-second, by precision (token vectors included)."""
    from agentgym.retrieval.embedder import SentenceEmbedder
    from agentgym.retrieval.settings import BUNDLED

    english = (
        "The committee met on Tuesday to discuss the budget of the library, the roof and the harbour's new lamps. "
    )
    texts = [f"{i} " + english * 23 for i in range(count)]
    rates = {}
    for precision in ("fp32", "bf16"):
        model = SentenceEmbedder(BUNDLED, precision, "cpu")
        model.embed(texts[:2], tokens=True)
        cpu = time.process_time()
        model.embed(texts, tokens=True)
        rates[precision] = round(count / (time.process_time() - cpu), 2)
    return rates


def versions() -> Iterator[tuple[str, str]]:
    """Installed versions of what is measured."""
    for package in PACKAGES:
        try:
            yield package, importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue


def machine() -> dict[str, Any]:
    """The machine, in words."""
    names = [
        line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return {"cpu": names[0] if names else platform.processor(), "cores": os.cpu_count(), "system": platform.platform()}


def chart(result: dict[str, Any], path: Path) -> None:
    """Three panels: hybrid against bare, bm25s against rank-bm25, growth of builds."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "agentgym"
    import matplotlib.pyplot as plt

    figure, (search, words, builds) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    hybrid, bm25 = result["hybrid_search"], result["bm25"]
    chunks = f"{result['builds'][-1]['chunks']:,} passages"
    search.bar(
        ["index.search", "bare bm25s\n+ faiss + RRF"],
        [hybrid["search_ms"], hybrid["bare_ms"]],
        color=["#2a6f97", "#a9b4bd"],
    )
    search.set(title=f"hybrid search, {chunks}: {hybrid['ratio']:.2f}×", ylabel="ms a query (median)")
    names = ["bm25s leg", "with a mask", "rank-bm25"]
    words.bar(
        names,
        [bm25["bm25s_ms"], bm25["bm25s_masked_ms"], bm25["rank_bm25_ms"]],
        color=["#2a6f97", "#61a5c2", "#a9b4bd"],
    )
    words.set(title=f"BM25, {chunks}: {bm25['times_faster']:,.0f}× faster", ylabel="ms a query (mean)", yscale="log")
    sizes = [build["chunks"] for build in result["builds"]]
    for key, label in (("wall_s", "seconds"), ("peak_mib", "MiB at peak"), ("disk_mib", "MiB on disk")):
        builds.plot(
            sizes,
            [build[key] for build in result["builds"]],
            marker="o",
            label=f"{label} ~ n^{result['growth'][key]:.2f}",
        )
    builds.set(title="build without the model", xlabel="passages", xscale="log", yscale="log")
    builds.legend()
    measured = ", ".join(
        f"{name} {result['versions'].get(name, '–')}" for name in ("bm25s", "rank-bm25", "faiss-cpu", "numpy")
    )
    figure.supxlabel(
        f"{result['command']} · seed {result['seed']} · {result['machine']['cpu']}, {result['machine']['cores']} cores, "
        f"one thread · {result['date']} · {measured}",
        fontsize=7,
    )
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All measurements, largest index last."""
    sizes = [500, 2_000] if options.quick else options.chunks
    queries = 20 if options.quick else options.queries
    with tempfile.TemporaryDirectory(prefix="agentgym-speed-") as scratch:
        builds = [child("--build", n, "--seed", options.seed, "--folder", f"{scratch}/{n}") for n in sizes]
        folder = Path(scratch) / str(sizes[-1])
        opened = child("--open", "--folder", folder)
        texts = passages(sizes[-1], options.seed)
        asked = questions(texts, queries, options.seed)
        index = Index.open(folder)
        hybrid = compare_search(index, texts, asked)
        bm25 = compare_bm25(index, asked, masked=200)
    return {
        "schema": "speed/1",
        "what": "retrieval",
        "command": " ".join(["python benchmarks/speed/retrieval.py", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seed": options.seed,
        "machine": machine(),
        "versions": dict(versions()),
        "hybrid_search": hybrid,
        "bm25": bm25,
        "open": opened,
        "builds": builds,
        "growth": {key: growth(builds, key) for key in ("wall_s", "cpu_s", "peak_mib", "disk_mib")},
        "embedding_chunks_per_cpu_s": embedding_rate(4 if options.quick else 64, options.seed),
    }


def main() -> None:
    """Measure, write JSON and chart, print the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, for tests; the ratios mean little")
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000], help="index sizes, ascending")
    parser.add_argument("--queries", type=int, default=205)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "speed_retrieval.json")
    parser.add_argument("--build", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--open", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.build:
        build_in_child(options.build, options.seed, options.folder)
    elif options.open:
        open_in_child(options.folder)
    else:
        result = measure(options)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n")
        chart(result, options.out.with_suffix(".svg"))
        print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
