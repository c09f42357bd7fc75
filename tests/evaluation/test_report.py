from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from agentgym.core.errors import ConfigError, InfraError, MissingExtra, Tampered
from agentgym.core.records import Score, Status, StopReason, Truth
from agentgym.evaluation.report import write_report
from agentgym.evaluation.trajectory_view import view
from agentgym.rollouts.store import RunStore
from tests.rollouts.synthetic import (
    answer_step,
    chunk_text,
    manifest,
    prune_step,
    row,
    run,
    search_step,
    trajectory,
)

ROOT = Path(__file__).resolve().parents[2]
TRUTHS = {f"t{i}": Truth(f"t{i}", "prune-search", {"relevant": [f"t{i}_0", f"t{i}_3"]}) for i in range(6)}
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """A page's elements; checks that every tag is closed and collects what could leave it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[tuple[str, ...], str]] = []
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"unclosed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append((tuple(self.open), data))

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(data for where, data in self.texts if "style" not in where))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    base = tmp_path_factory.mktemp("runs")
    run(base / "a", 6)
    run(base / "b", 6, agent="greedy")
    return [base / "a", base / "b"]


@pytest.fixture(scope="module")
def html(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("html") / "report.html"
    assert write_report(runs, path, truths=TRUTHS) == path
    return path.read_text()


def report(runs: object, folder: Path, **options: object) -> str:
    return write_report(runs, folder / "r.html", **options).read_text()  # type: ignore[arg-type]


# -- a page that stands alone


def test_the_page_is_well_formed_and_asks_for_nothing(html: str) -> None:
    page = Page(html)
    assert "script" not in page.tags
    assert {"img", "link", "iframe", "object", "embed", "form"}.isdisjoint(page.tags)
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        if name in {"src", "href", "xlink:href", "action", "srcset"}:
            assert value.startswith("#"), (name, value)
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", html))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}  # names of XML, never fetched
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", html)
    assert "@import" not in html
    assert "default-src 'none'" in html


def test_light_and_dark(html: str) -> None:
    assert "prefers-color-scheme: dark" in html
    svgs = re.findall(r"<svg.*?</svg>", html, re.S)
    assert len(svgs) == 3
    for svg in svgs:
        assert "currentColor" in svg
        assert not re.search(r"#[0-9a-f]{6}\b", svg), "fixed ink would vanish on one of the two backgrounds"
        assert "var(--s0)" in svg


def test_svg_ids_are_distinct_where_they_are_referred_to(html: str) -> None:
    definitions = re.findall(r'<(?:clipPath|path|g)[^>]* id="([^"]+)"', html)
    used = set(re.findall(r"(?:url\(#|href=\"#)([\w-]+)", html)) & set(definitions)
    assert used
    assert all(definitions.count(name) == 1 for name in used)


def test_the_same_runs_give_the_same_bytes(runs: list[Path], html: str, tmp_path: Path) -> None:
    assert report(runs, tmp_path, truths=TRUTHS) == html
    code = (
        "import sys\nfrom agentgym.core.records import Truth\nfrom agentgym.evaluation.report import write_report\n"
        "truths = {f't{i}': Truth(f't{i}', 'prune-search', {'relevant': [f't{i}_0', f't{i}_3']}) for i in range(6)}\n"
        "write_report(sys.argv[2:], sys.argv[1], truths=truths)\n"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "other.html"), *map(str, runs)]
    environment = {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7", "HOME": str(tmp_path)}
    subprocess.run(arguments, check=True, env=environment, cwd=ROOT, capture_output=True)
    assert (tmp_path / "other.html").read_text() == html


# -- what it says


def test_the_header_says_how_the_runs_were_made(html: str) -> None:
    text = Page(html).text
    assert "prune-search-0/dev" in text
    for said in (
        "PruneSearch-v0",
        "24k-eval",
        "6 of 6 planned (6 completed)",
        "0 – 5",
        "o200k",
        "aaaaaaaaaaaaaaaa",
        "ffffffffffffffff",
        "2026-01-02T03:04:05+00:00",
        "a CPU, 2 cores, Linux",
        "agentgym 0.1.0, python 3.11.7",
        "agentgym eval prune-search-0/dev --agent greedy-prune",
    ):
        assert said in text


def test_the_table_shows_means_intervals_and_n(html: str) -> None:
    text = Page(html).text
    assert re.search(r"final answer found 0\.500 0\.\d+ – \d\.\d+ n = 6", text)
    assert re.search(r"failed rate 0\.000", text)
    assert "greedy minus greedy-prune +0.000" in text
    assert "not decided" in text


def test_plots_are_labelled_and_count(html: str) -> None:
    text = Page(html).text
    for said in (
        "Score by hop count",
        "hops of the task (n = episodes of each agent)",
        "n = 2",
        "Recall against tokens",
        "tokens of tool results read",
        "recall of everything met",
        "greedy-prune: n = 6, greedy: n = 6",
        "Reward by term",
        "mean reward an episode",
        "f_beta",
    ):
        assert said in text


def test_pruned_chunks_are_struck_out_and_others_are_not(html: str) -> None:
    page = Page(html)
    struck = "".join(data for where, data in page.texts if "del" in where)
    plain = "".join(data for where, data in page.texts if "del" not in where)
    for chunk in ("t0_1", "t0_2"):
        assert chunk_text(chunk)[:40] in struck
        assert chunk_text(chunk)[:40] not in plain
    for chunk in ("t0_0", "t0_3"):
        assert chunk_text(chunk)[:40] in plain
        assert chunk_text(chunk)[:40] not in struck
    assert page.text.count("pruned in turn 3") == 4  # two chunks, two runs
    assert "relevant" in page.text
    assert "error: unknown_tool" in page.text
    assert "error: malformed" in page.text
    assert "final answer" in page.text
    assert "full height is 24,000 tokens, the budget" in page.text
    assert "recall 1.00" in page.text


def test_all_that_agents_wrote_is_escaped(html: str, tmp_path: Path) -> None:
    assert "<script" not in html
    assert "<img" not in html
    assert "&lt;script&gt;alert(2)&lt;/script&gt;" in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    evil = '</style><script>alert(\'x\')</script>" onload="x" $\\frac{1}{0}$ \x00\x1b {{ 7*7 }}'
    with RunStore.create(tmp_path / "evil", manifest(1, agent=evil, command=evil, suite=evil, model=evil)) as store:
        terms = {evil: 0.5, "x": 0.4}
        made = row()
        store.add(
            msgspec.structs.replace(
                made, reward_terms=terms, score=Score(1.0, {evil: 1.0}), tags={evil: evil, "hops": 1}
            ),
            trajectory(),
        )
    page = Page(report(tmp_path / "evil", tmp_path, truths=TRUTHS))
    assert "script" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "{{ 7*7 }}" in page.text
    assert "\x00" not in page.text


def test_failures_are_listed_with_their_errors(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "a", manifest(3)) as store:
        store.add(row(), trajectory())
        broken = msgspec.structs.replace(
            row("t1", 0, 1), status=Status.INFRA_ERROR, stop=None, error="InfraError: endpoint <down>", score=Score(0.0)
        )
        store.add(broken)
    text = Page(report(tmp_path / "a", tmp_path)).text
    assert "t1 0 infra_error InfraError: endpoint <down>" in text
    assert "2 of 3 planned (1 completed, 1 infra_error)" in text


# -- inputs that lack something


def test_without_truths_the_page_says_what_is_missing(runs: list[Path], tmp_path: Path) -> None:
    text = Page(report(runs[0], tmp_path)).text
    assert "Recall against tokens needs the truths of the tasks; none were given." in text


def test_an_empty_an_unjudged_and_a_hopless_run_make_pages(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "empty", manifest(2)).close()
    assert "0 of 2 planned" in Page(report(tmp_path / "empty", tmp_path)).text
    with RunStore.create(tmp_path / "unjudged", manifest(2)) as store:
        made = msgspec.structs.replace(
            row(), score=Score(None, {"final_answer_found": None}), reward=None, reward_terms={}, tags={}
        )
        store.add(made, trajectory())
    text = Page(report(tmp_path / "unjudged", tmp_path)).text
    assert "none judged" in text
    assert "Score by" not in text
    with RunStore.create(tmp_path / "hopless", manifest(2)) as store:
        store.add(msgspec.structs.replace(row(), tags={}, stop=StopReason.ANSWER), trajectory())
    assert "Score by agent" in Page(report([tmp_path / "hopless", tmp_path / "unjudged"], tmp_path)).text


def test_many_runs_share_a_page(tmp_path: Path) -> None:
    for i in range(10):
        run(tmp_path / f"{i}", 3, agent=f"agent number {i} with a long name")
    page = Page(report([tmp_path / f"{i}" for i in range(10)], tmp_path))
    assert "agent number 9 with a long name" in page.text


def test_a_chosen_episode_is_shown(runs: list[Path], tmp_path: Path) -> None:
    text = Page(report(runs, tmp_path, show=[("t4", 0)])).text
    assert "task t4" in text
    assert "task t0" not in text
    with pytest.raises(ConfigError, match="no run holds a trajectory of t9 trial 0"):
        report(runs, tmp_path, show=[("t9", 0)])


def test_a_damaged_run_is_named_instead_of_shown(runs: list[Path], tmp_path: Path) -> None:
    shutil.copytree(runs[0], tmp_path / "a")
    file = next((tmp_path / "a" / "trajectories").iterdir())
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(Tampered, match=file.name):
        report(tmp_path / "a", tmp_path)


def test_missing_matplotlib_is_named_with_its_extra(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"agentgym-suite\[report\]"):
        report(runs, tmp_path)


def test_a_path_that_cannot_be_written_is_named(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="cannot be written"):
        write_report(runs, tmp_path / "nowhere" / "r.html")


# -- one trajectory


def test_a_chunk_is_struck_by_the_first_later_prune_only() -> None:
    steps = (
        search_step(1, ("d_0", "d_1"), 100),
        prune_step(2, ("d_0",), 60),
        search_step(3, ("d_0",), 110),  # read again: in view until the end
        answer_step(4, "d_0", 120),
    )
    shown = view("a", 0, row(), msgspec.structs.replace(trajectory(), steps=steps), None)
    marks = [[(p.chunk, p.pruned_in) for c in t.calls for p in c.parts if p.chunk] for t in shown.turns]
    assert marks == [[("d_0", 2), ("d_1", None)], [], [("d_0", None)], []]
    assert [turn.pruned for turn in shown.turns] == [(), ("d_0",), (), ()]
    assert [turn.answer for turn in shown.turns] == [False, False, False, True]


def test_the_bar_is_of_the_budget_or_of_the_peak() -> None:
    shown = view("a", 0, row(), trajectory(), None)
    assert (shown.budget_tokens, shown.budget_known) == (24_000, True)
    assert [turn.share for turn in shown.turns][:2] == [37.5, 56.25]
    bare = msgspec.structs.replace(trajectory(), steps=(answer_step(1, "x", 50), answer_step(2, "y", 100)))
    shown = view("a", 0, row(), bare, None)
    assert (shown.budget_tokens, shown.budget_known) == (100, False)
    assert [turn.share for turn in shown.turns] == [50.0, 100.0]


def test_long_texts_are_folded_and_very_long_ones_counted() -> None:
    long = msgspec.structs.replace(trajectory(), steps=(answer_step(1, "word " * 3000, 50),))
    (turn,) = view("a", 0, row(), long, None).turns
    assert len(turn.content.head) <= 170
    assert len(turn.content.head + turn.content.rest) == 6000
    assert turn.content.left_out == 9000
