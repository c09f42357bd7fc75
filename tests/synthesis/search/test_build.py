"""Task sets as built: equal bytes everywhere, pinned, balanced, verified, disjoint."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from agentgym.core.errors import ConfigError, UnknownName
from agentgym.core.tokens import counter
from agentgym.corpus.chunking import chunk_document
from agentgym.corpus.document import Chunk
from agentgym.corpus.tasks import TaskSet, read_taskset
from agentgym.corpus.tasksets import suites
from agentgym.synthesis.search.build import RECIPES, build_sample, build_suite, generate
from agentgym.synthesis.search.settings import Settings
from agentgym.synthesis.search.verify import SearchTruth, holds, verify
from agentgym.synthesis.splits import owner

SMALL = Settings(split="dev", regions=4, page_tokens=(300, 900))
DIGEST_SMALL = "6b16d7a5b77985c2ab1049f1353000f64e3660b42f50f38b98add8a560d35eeb"
DIGESTS = {
    "sample/dev": "d2554c799e3a8279e849dc165c22f1b993e1713d003fcdff5469267214a16dc7",
    "prune-search-0/dev": "d3ce93696f38543d7a8f349ab729c6136776cd7c80ccd822915da1e37cd0db1d",
    "prune-search-0/test": "4e9ccb6007b5dc9999b17be880820a8b976e6d5148fa86577feb7f10f709bf09",
    "tiny/dev": "78e88c0042bdecf0571ce939b3b96ee1ba28726db92323f4b2590ef1bf135853",
    "tiny/test": "e817e73784118e7517ac555cec23c80ea241dc5667d6884af1abf66c265db01c",
    "tiny/train": "53d9feba31ef34a819dabc13cd7bc2708f921028ddf394ec90957dbe935201ca",
}
_SCRIPT = """
from agentgym.synthesis.search.build import generate
from agentgym.synthesis.search.settings import Settings
print(generate(3, 8, Settings(split="dev", regions=4, page_tokens=(300, 900))).digest())
"""


@pytest.fixture(scope="module")
def small() -> TaskSet:
    return generate(3, 8, SMALL)


@pytest.fixture(scope="module")
def dev() -> TaskSet:
    seed, count, settings = RECIPES["prune-search-0", "dev"]
    assert settings is not None
    return generate(seed, count, settings, "prune-search-0-dev")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> TaskSet:
    folder = tmp_path_factory.mktemp("sample")
    build_sample(folder)
    return read_taskset(folder, truths=True)


def chunks_of(taskset: TaskSet) -> dict[str, Chunk]:
    tokens = counter("o200k")
    return {chunk.id: chunk for document in taskset.documents for chunk in chunk_document(document, tokens)}


def truths_of(taskset: TaskSet) -> list[SearchTruth]:
    return [msgspec.convert(truth.payload, SearchTruth) for truth in taskset.truths]


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_equal_bytes_under_any_hash_seed(hash_seed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert done.stdout.strip() == DIGEST_SMALL


def test_seed_and_settings_matter(small: TaskSet) -> None:
    assert small.digest() == DIGEST_SMALL
    assert generate(4, 8, SMALL).digest() != small.digest()


@pytest.mark.parametrize("name", sorted(set(DIGESTS) - {"prune-search-0/test"}))
def test_pinned(name: str, tmp_path: Path, dev: TaskSet) -> None:
    if name == "prune-search-0/dev":
        assert dev.digest() == DIGESTS[name]
        return
    suite, split = name.split("/")
    build_suite(suite, split, tmp_path)
    assert read_taskset(tmp_path, truths=True).digest() == DIGESTS[name]


def test_suite_files_pin_the_same() -> None:
    known = suites()
    for name, digest in DIGESTS.items():
        suite, split = name.split("/")
        if suite in known:
            assert known[suite].split(split).digest == digest, name


@pytest.mark.parametrize("name", ["sample/dev", "tiny/dev", "tiny/test", "tiny/train"])
def test_shipped_copy_is_what_the_generator_makes(name: str) -> None:
    folder = Path(__file__).resolve().parents[3] / "agentgym" / "data" / name
    assert read_taskset(folder, truths=True).digest() == DIGESTS[name]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 250_000


def test_test_split_is_pinned_balanced_and_disjoint_from_dev(dev: TaskSet) -> None:
    seed, count, settings = RECIPES["prune-search-0", "test"]
    assert settings is not None
    test = generate(seed, count, settings, "prune-search-0-test")
    assert test.digest() == DIGESTS["prune-search-0/test"]
    assert Counter(task.payload["hops"] for task in test.tasks) == {1: 60, 2: 60, 3: 60, 4: 60}
    names = [entity_names(part) for part in (dev, test)]
    assert len(names[0]) > 400
    assert not names[0] & names[1]


def entity_names(taskset: TaskSet) -> set[str]:
    """Names of all entities that tasks and their distractors are about."""
    titles = {document.id: document.title for document in taskset.documents}
    truths = truths_of(taskset)
    about = {titles[id] for truth in truths for id in truth.distractors}
    return {name.lower() for name in about | {name for truth in truths for name in truth.entities}}


def test_names_belong_to_their_split(dev: TaskSet) -> None:
    cores = {core for truth in truths_of(dev) for core in truth.cores if core}
    assert cores
    assert {owner(core) for core in cores} == {"dev"}


def test_tasks_and_truths(dev: TaskSet) -> None:
    assert Counter(task.payload["hops"] for task in dev.tasks) == {1: 15, 2: 15, 3: 15, 4: 15}
    assert [task.payload["hops"] for task in dev.tasks[:4]] == [1, 2, 3, 4]
    chunks = chunks_of(dev)
    for task, truth in zip(dev.tasks, truths_of(dev), strict=True):
        hops = task.payload["hops"]
        assert len(truth.items) == 3 + 2 * (hops - 1)
        assert set(task.payload) == {"hops", "domain"}
        assert truth.answer_ids
        assert set(truth.answer_ids) <= set(truth.relevant) <= chunks.keys()
        assert all(truth.facts)
        assert set(truth.relevant) == {chunk for fact in truth.facts for chunk in fact}
        assert {item.chunk for item in truth.items} <= set(truth.relevant)
        assert len(truth.distractors) >= 8
        assert task.cluster.startswith("region-")
        assert not any(holds(truth.answer, truth.cores[-1], text) for text in (task.prompt, task.id))


def test_every_task_passes_its_own_verifier(small: TaskSet, sample: TaskSet) -> None:
    for taskset in (small, sample):
        chunks = chunks_of(taskset)
        documents = {document.id: document.text for document in taskset.documents}
        cores = {core.lower() for truth in truths_of(taskset) for core in truth.cores if core}
        for task, truth in zip(taskset.tasks, taskset.truths, strict=True):
            assert verify(task, truth, chunks, documents, 8, cores) == []


def test_pages_are_of_real_length(dev: TaskSet) -> None:
    sizes: Counter[str] = Counter()
    for chunk in chunks_of(dev).values():
        sizes[chunk.doc] += chunk.tokens
    lengths = sorted(sizes.values())
    assert lengths[len(lengths) // 10] > 500
    assert 900 < lengths[len(lengths) // 2] < 1500
    chunk_sizes = sorted(chunk.tokens for chunk in chunks_of(dev).values())
    assert chunk_sizes[-1] <= 612
    assert chunk_sizes[len(chunk_sizes) // 3] > 400


def test_prose_varies(dev: TaskSet) -> None:
    """No sentence frame carries a fact alone: the sentences of one relation differ in more than their names."""
    quotes = [quote for truth in truths_of(dev) for quote in truth.quotes]
    openings = Counter(" ".join(quote.split()[:3]) for quote in quotes)
    assert openings.most_common(1)[0][1] < len(quotes) * 0.12


def test_documents_have_no_telling_ids_or_order(dev: TaskSet) -> None:
    """Answer pages lie anywhere, and are no longer than others: neither place nor length gives them away."""
    order = {document.id: i for i, document in enumerate(dev.documents)}
    places = [order[id.rpartition("_")[0]] / len(order) for truth in truths_of(dev) for id in truth.answer_ids]
    assert 0.35 < sum(places) / len(places) < 0.65
    length = {document.id: len(document.text) for document in dev.documents}
    longest = set(sorted(length, key=lambda id: (-length[id], id))[:30])
    hits = sum(any(id.rpartition("_")[0] in longest for id in truth.answer_ids) for truth in truths_of(dev))
    assert hits <= len(dev.tasks) * 0.1


def test_errors_name_the_way_out() -> None:
    with pytest.raises(UnknownName, match="did you mean"):
        build_suite("prune-search-0", "tset", Path("unused"))
    with pytest.raises(ConfigError, match=r"settings\.regions"):
        generate(1, 400, Settings(regions=1, page_tokens=(200, 300)))
    with pytest.raises(UnknownName):
        generate(1, 4, Settings(split="hidden"))
    with pytest.raises(ConfigError, match="hops"):
        Settings(hops=(5,))
