"""Errors: one tree, drawn in the module; messages name the value and the way out; they survive process borders."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from agentgym.core import errors
from agentgym.core.errors import AgentgymError, MissingExtra, ToolError, UnknownName

ALL = [
    item
    for _, item in inspect.getmembers(errors, inspect.isclass)
    if item.__module__ == errors.__name__ and issubclass(item, Exception)
]


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn: dict[str, str] = {}
    branch: list[str] = ["AgentgymError"]
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ([│ ├└─]*)── (\w+) ", line)
        if match:
            depth = len(match[1]) // 4
            del branch[depth + 1 :]
            drawn[match[2]] = branch[-1]
            branch.append(match[2])
    actual = {error.__name__: error.__mro__[1].__name__ for error in ALL if error is not AgentgymError}
    assert drawn == actual


def test_python_builtins_catch_what_they_should() -> None:
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(MissingExtra, ImportError)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (["greedy", "greedy-prune", "oracle"], "unknown agent 'gredy'; did you mean greedy?"),
        (["b", "a"], "unknown agent 'gredy'; known: a, b"),
        ([], "unknown agent 'gredy'; known: none"),
        ([f"t{i:03}" for i in range(200)], "unknown agent 'gredy'; 200 are known, from t000 to t199"),
    ],
)
def test_unknown_name_helps(known: list[str], message: str) -> None:
    assert str(UnknownName("agent", "gredy", known)) == message


def test_missing_extra_names_the_command() -> None:
    assert str(MissingExtra("torch", "dense", instead='retrieval="lexical"')) == (
        "torch is not installed: pip install 'agentgym-suite[dense]'; or retrieval=\"lexical\""
    )


@pytest.mark.parametrize(
    "error",
    [
        UnknownName("agent", "x", ["y"]),
        MissingExtra("torch", "dense", instead="that"),
        ToolError("bad regex", "pattern"),
        *(error("why") for error in ALL if error not in (UnknownName, MissingExtra)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_a_worker_process(error: Exception) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)
