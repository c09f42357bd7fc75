"""`agentgym.__all__` is what the README's examples need, no more; each name resolves to something documented."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agentgym

README = Path(__file__).resolve().parents[1] / "README.md"


def test_all_is_sorted_and_without_repeats() -> None:
    assert list(agentgym.__all__) == sorted(set(agentgym.__all__))


def test_all_equals_the_public_names() -> None:
    """In a fresh process, where no name was resolved before and no test has imported a submodule."""
    probe = """
import agentgym
print(*(name for name in dir(agentgym) if not name.startswith("_")))
print(*(name for name, value in vars(agentgym).items() if getattr(value, "__module__", "").startswith("agentgym")))
namespace = {}
exec("from agentgym import *", namespace)
print(*(name for name in namespace if name != "__builtins__"))
"""
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
    listed, eager, starred = (set(line.split()) for line in done.stdout.splitlines())
    assert listed == {name for name in agentgym.__all__ if not name.startswith("_")}
    assert {name for name in eager if not name.startswith("_")} <= listed
    assert starred == set(agentgym.__all__)


@pytest.mark.parametrize("name", agentgym.__all__)
def test_each_name_resolves_and_is_documented(name: str) -> None:
    value = getattr(agentgym, name)
    assert getattr(agentgym, name) is value
    if inspect.isclass(value) or inspect.isroutine(value):
        assert value.__doc__, f"agentgym.{name} has no docstring of its own"
        assert value.__module__.startswith("agentgym.")


@pytest.mark.parametrize("name", [name for name in agentgym.__all__ if not name.startswith("_")])
def test_each_name_is_used_in_the_readme(name: str) -> None:
    assert re.search(rf"\b(ag|agentgym)\.{name}\b|import .*\b{name}\b", README.read_text(encoding="utf-8"))


def test_type_checkers_are_told_the_same() -> None:
    stub = (Path(agentgym.__file__).parent / "__init__.pyi").read_text("utf-8")
    told = dict(re.findall(r"^from \S+ import (\w+) as (\w+)$", stub, re.M))
    assert list(told) == list(told.values())
    assert set(told) == set(agentgym.__all__)
    for module, name in re.findall(r"^from (\S+) import (\w+) as", stub, re.M):
        assert getattr(importlib.import_module(module), name) is getattr(agentgym, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        agentgym.no_such_name  # noqa: B018
