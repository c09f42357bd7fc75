"""The wheel works by itself: built, put beside nothing but its declared dependencies, run in an empty folder.

The environment holds exactly what `pip install agentgym-suite[search]` asks for, by the wheel's own metadata; packages
are linked from the running environment, so no network is needed, and an undeclared import fails here first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        out,
        CHECKOUT,
    ]
    subprocess.run(command, check=True)
    return next(out.glob("agentgym_suite-*.whl"))


def needed_by(root: Distribution, extra: str) -> dict[str, Distribution]:
    """Every distribution that a package with an extra asks for, directly or not."""
    found: dict[str, Distribution] = {}
    pending = [(root, {extra})]
    while pending:
        dist, extras = pending.pop()
        for requirement in map(Requirement, dist.requires or []):
            wanted = (
                [requirement.marker.evaluate({"extra": name}) for name in extras or {""}] if requirement.marker else []
            )
            if requirement.marker and not any(wanted):
                continue
            if requirement.name not in found or requirement.extras:
                found[requirement.name] = distribution(requirement.name)
                pending.append((found[requirement.name], set(requirement.extras)))
    return found


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder with a virtual environment `.venv` that holds the wheel and what it declares."""
    folder = tmp_path_factory.mktemp("home")
    venv.create(folder / ".venv", symlinks=True, with_pip=False)
    python = folder / ".venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True)
    site = next((folder / ".venv" / "lib").glob("python*/site-packages"))
    root = PathDistribution(next(site.glob("agentgym_suite-*.dist-info")))
    for dist in needed_by(root, "search").values():
        for top in {Path(file).parts[0] for file in dist.files or []} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(dist.locate_file(top))))
    return folder


def run(home: Path, *command: str) -> str:
    """Standard output of a command of the environment, run in the empty folder, with no setting of this process."""
    (work := home / "work").mkdir(exist_ok=True)
    environment = {"PATH": os.defpath, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "OMP_NUM_THREADS": "1"}
    path = str(home / ".venv" / "bin" / command[0])
    done = subprocess.run([path, *command[1:]], cwd=work, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"agentgym", "agentgym_suite"}
    assert not [name for name in names if "__pycache__" in name]
    shipped = {str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "agentgym").rglob("*.py")} | {
        "agentgym/py.typed"
    }
    assert shipped <= set(names)


def test_suites_and_prices_travel_as_package_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        suites = sorted((CHECKOUT / "benchmarks" / "suites").glob("*.toml"))
        assert suites
        for suite in suites:
            assert archive.read(f"agentgym/data/suites/{suite.name}") == suite.read_bytes()
        assert archive.read("agentgym/data/prices.toml") == (CHECKOUT / "leaderboard" / "prices.toml").read_bytes()


def test_the_environment_is_made_by_name_alone(home: Path) -> None:
    code = "import gymnasium; env = gymnasium.make('agentgym:PruneSearch-v0'); env.reset(seed=0); print(env.spec.id)"
    assert run(home, "python", "-c", code).split() == ["PruneSearch-v0"]


def test_eval_runs_in_an_empty_folder(home: Path) -> None:
    report = json.loads(run(home, "agentgym", "eval", "sample", "--agent", "single-search", "--limit", "3", "--json"))
    metric = report["metrics"]["trajectory_recall"]
    assert set(metric) >= {"mean", "lo", "hi", "n"}
    assert metric["n"] == 3
    assert 0 <= metric["lo"] <= metric["mean"] <= metric["hi"] <= 1
