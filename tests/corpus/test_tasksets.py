"""Suites by name: read from files, found in the package or the cache, built at first use, and held to their pins."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from agentgym.core.errors import ConfigError, DataError, IndexMismatch, InfraError, UnknownName
from agentgym.corpus import tasksets
from agentgym.corpus.tasks import MANIFEST, read_taskset, write_taskset
from agentgym.corpus.tasksets import Suite, cache_dir, is_folder, locate, parse_name, suites
from tests.corpus import builders

SUITE = """
id = "comets-0"
title = "Comets"
family = "prune-search"
env = "PruneSearch-v0"
profile = "8k"
{builder}
[splits.dev]
tasks = 1
digest = "{dev}"
[splits.test]
tasks = 1
digest = "{test}"
"""


class Home:
    """A package with one suite, and an empty cache."""

    def __init__(self, root: Path) -> None:
        self.suites, self.package, self.cache = root / "suites", root / "data", root / "cache"
        self.suites.mkdir()

    def write(self, builder: str = "build", **pins: str) -> None:
        digests = {split: builders.taskset("comets-0", split).digest() for split in ("dev", "test")} | pins
        line = f'builder = "tests.corpus.builders:{builder}"' if builder else ""
        (self.suites / "comets-0.toml").write_text(SUITE.format(builder=line, **digests))
        suites.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path)
    monkeypatch.setattr(tasksets, "_CHECKOUT_SUITES", made.suites)
    monkeypatch.setattr(tasksets, "_PACKAGE", made.package)
    monkeypatch.setenv("AGENTGYM_CACHE", str(made.cache))
    builders.CALLS.clear()
    made.write()
    yield made
    suites.cache_clear()


# -- suite files ------------------------------------------------------------------------------------------------------


def test_a_suite_file_is_read(home: Home) -> None:
    suite = suites()["comets-0"]
    assert (suite.env, suite.profile, suite.trials, suite.default_split) == ("PruneSearch-v0", "8k", 1, "test")
    assert suite.split("dev").tasks == 1


def test_in_the_wheel_suites_are_package_data(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasksets, "_CHECKOUT_SUITES", home.suites / "nowhere")
    home.package.mkdir()
    home.suites.rename(home.package / "suites")
    suites.cache_clear()
    assert list(suites()) == ["comets-0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id = ", "bad.toml"),
        ('id = "x"', "missing required field"),
        (SUITE.format(builder="colour = 1", dev="a", test="b"), "colour"),
    ],
)
def test_a_broken_suite_file_is_named(home: Home, text: str, message: str) -> None:
    (home.suites / "bad.toml").write_text(text)
    suites.cache_clear()
    with pytest.raises(ConfigError, match=message) as caught:
        suites()
    assert "bad.toml" in str(caught.value)


def test_the_checkouts_own_suites_are_valid() -> None:
    for path in (Path(__file__).parents[2] / "benchmarks" / "suites").glob("*.toml"):
        suite = msgspec.convert(tomllib.loads(path.read_text("utf-8")), Suite)
        assert suite.id == path.stem
        assert suite.default_split in suite.splits
        assert all(len(pin.digest) == 64 and pin.tasks > 0 for pin in suite.splits.values())


# -- names ------------------------------------------------------------------------------------------------------------


def test_names_of_suites_and_splits(home: Home) -> None:
    assert parse_name("comets-0")[1] == "test"
    assert parse_name("comets-0/dev")[1] == "dev"
    with pytest.raises(UnknownName, match="unknown split of suite comets-0 'devel'; did you mean dev"):
        parse_name("comets-0/devel")
    with pytest.raises(UnknownName, match="unknown suite or folder 'comet-0'; did you mean comets-0"):
        parse_name("comet-0")


def test_a_folder_is_a_task_set_of_its_own(home: Home, tmp_path: Path) -> None:
    write_taskset(builders.taskset("mine", "dev"), tmp_path / "mine")
    assert locate(str(tmp_path / "mine")) == tmp_path / "mine"
    with pytest.raises(UnknownName, match="unknown suite or folder"):
        locate(str(tmp_path / "missing"))


def test_a_suite_is_not_hidden_by_a_folder_of_its_name(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work" / "comets-0").mkdir(parents=True)  # such as the output of an earlier run
    monkeypatch.chdir(tmp_path / "work")
    assert not is_folder("comets-0")
    assert locate("comets-0").is_relative_to(home.cache)
    write_taskset(builders.taskset("mine", "dev"), Path("comets-0"))
    assert locate("comets-0") == Path("comets-0")
    Path("empty").mkdir()
    assert is_folder("empty")  # so that what is missing from it is said
    with pytest.raises(DataError, match=r"empty holds no manifest\.json"):
        read_taskset(locate("empty"))


# -- the package, the cache, the builder ------------------------------------------------------------------------------


def test_a_set_in_the_package_is_used_as_it_is(home: Home) -> None:
    write_taskset(builders.taskset("comets-0", "dev"), home.package / "comets-0" / "dev", compress=True)
    assert locate("comets-0/dev") == home.package / "comets-0" / "dev"
    assert builders.CALLS == []
    assert len(read_taskset(locate("comets-0/dev"), truths=True).truths) == 1


def test_any_other_is_built_once(home: Home) -> None:
    first = locate("comets-0/dev")
    assert first.is_relative_to(home.cache / "tasks")
    assert read_taskset(first).tasks[0].id == "dev0"
    assert locate("comets-0/dev") == first
    assert builders.CALLS == [("comets-0", "dev")]
    assert [path.name for path in first.parent.iterdir()] == [first.name]  # nothing is left beside it


def test_what_is_not_the_pinned_set_is_refused(home: Home) -> None:
    home.write("build_another")
    with pytest.raises(IndexMismatch, match=r"comets-0/dev .* has digest .*, the suite file pins"):
        locate("comets-0/dev")
    assert list((home.cache / "tasks").iterdir()) == []


@pytest.mark.parametrize("where", ["package", "cache"])
def test_a_shipped_or_cached_set_is_held_to_its_pin(home: Home, where: str) -> None:
    folder = home.package / "comets-0" / "dev" if where == "package" else locate("comets-0/dev")
    write_taskset(builders.taskset("comets-0", "altered"), folder)
    with pytest.raises(IndexMismatch, match="delete the folder"):
        locate("comets-0/dev")


def test_a_manifest_cannot_claim_the_pinned_digest(home: Home) -> None:
    folder = locate("comets-0/dev")
    pinned = builders.taskset("comets-0", "dev").digest()
    manifest = write_taskset(builders.taskset("comets-0", "altered"), folder)
    (folder / MANIFEST).write_bytes(msgspec.json.encode({**manifest, "digest": pinned}))
    with pytest.raises(IndexMismatch):
        locate("comets-0/dev")


def test_a_build_that_breaks_off_leaves_nothing(home: Home) -> None:
    home.write("break_off")
    with pytest.raises(KeyboardInterrupt):
        locate("comets-0/dev")
    assert list((home.cache / "tasks").iterdir()) == []
    home.write("build")
    assert locate("comets-0/dev").is_dir()


def test_another_process_may_be_quicker(home: Home) -> None:
    home.write("build_while_another_does")
    folder = locate("comets-0/dev")
    assert read_taskset(folder).tasks[0].id == "dev0"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_builders_that_are_not_there(home: Home) -> None:
    home.write("")
    with pytest.raises(ConfigError, match="not in the package, and its suite file names no builder"):
        locate("comets-0/dev")
    home.write("no_such_function")
    with pytest.raises(ConfigError, match=r"builder 'tests.corpus.builders:no_such_function' cannot be loaded"):
        locate("comets-0/dev")


def test_a_cache_that_cannot_be_written(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "file"))
    with pytest.raises(InfraError, match="set AGENTGYM_CACHE"):
        locate("comets-0/dev")


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"
    monkeypatch.delenv("AGENTGYM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "agentgym"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "agentgym"
