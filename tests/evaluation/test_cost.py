"""Costs from a dated price table: what is unknown stays unknown."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.errors import ConfigError
from agentgym.core.records import Step, StopReason, Trajectory, Turn, Usage
from agentgym.evaluation.cost import Price, cost, load_prices, price_on, reported_usage

DAY = datetime.date
TABLE = (
    Price("m", 2.0, 8.0, DAY(2025, 1, 1), "list", cached_per_mtok=0.5),
    Price("m", 1.0, 4.0, DAY(2025, 6, 1), "list"),
    Price("free", 0.0, 0.0, DAY(2025, 1, 1), "own server"),
)
ROW = """
[[price]]
model = "m"
input_per_mtok = 1
output_per_mtok = 2.5
valid_from = 2025-01-01
source = "https://example.org/prices"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_cached_tokens_have_their_own_price() -> None:
    usage = Usage(tokens_in=1_000_000, tokens_out=100_000, tokens_cached=400_000)
    assert cost(usage, "m", TABLE, on=DAY(2025, 3, 1)) == pytest.approx(0.6 * 2.0 + 0.4 * 0.5 + 0.1 * 8.0)


def test_without_a_cached_price_cached_tokens_cost_what_others_do() -> None:
    with_cache, without = Usage(1_000, 10, 900), Usage(1_000, 10)
    assert cost(with_cache, "m", TABLE, on=DAY(2025, 7, 1)) == cost(without, "m", TABLE, on=DAY(2025, 7, 1)) == 0.00104


@pytest.mark.parametrize(
    ("day", "rate"),
    [((2024, 12, 31), None), ((2025, 1, 1), 2.0), ((2025, 5, 31), 2.0), ((2025, 6, 1), 1.0), ((2030, 1, 1), 1.0)],
)
def test_the_price_of_the_day_counts(day: tuple[int, int, int], rate: float | None) -> None:
    price = price_on("m", TABLE, DAY(*day))
    assert (price.input_per_mtok if price else None) == rate
    assert cost(Usage(1_000_000), "m", TABLE, on=DAY(*day)) == rate


def test_unknown_is_none_and_free_is_zero() -> None:
    day = DAY(2025, 3, 1)
    assert cost(Usage(5, 5), "M", TABLE, on=day) is None
    assert cost(Usage(5, 5), "m-2025-01-01", TABLE, on=day) is None
    assert cost(None, "m", TABLE, on=day) is None
    assert cost(Usage(5, 5), "m", (), on=day) is None
    assert cost(Usage(5, 5), "free", TABLE, on=day) == 0.0


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 2 * 10**9))
def test_costs_lie_between_all_cached_and_none_cached(tokens_in: int, tokens_out: int, cached: int) -> None:
    day = DAY(2025, 3, 1)
    total = cost(Usage(tokens_in, tokens_out, cached), "m", TABLE, on=day)
    least = cost(Usage(tokens_in, tokens_out, tokens_in), "m", TABLE, on=day)
    most = cost(Usage(tokens_in, tokens_out), "m", TABLE, on=day)
    assert total is not None
    assert least is not None
    assert most is not None
    assert 0 <= least <= total <= most


def trajectory(*usages: Usage | None) -> Trajectory:
    steps = tuple(Step(Turn(usage=usage)) for usage in usages)
    return Trajectory("e", "f", "t", "h", 0, (), steps, StopReason.ANSWER, Usage())


def test_usage_is_known_only_when_every_turn_reports_it() -> None:
    assert reported_usage(trajectory(Usage(5, 2, 1), Usage(9, 3, 4))) == Usage(14, 5, 5)
    assert reported_usage(trajectory(Usage(5, 2, 1), None)) is None
    assert reported_usage(trajectory()) is None


def test_a_table_is_read(tmp_path: Path) -> None:
    (price,) = load_prices(write(tmp_path, 'schema = "prices/1"\n' + ROW))
    assert price == Price("m", 1.0, 2.5, DAY(2025, 1, 1), "https://example.org/prices")
    assert load_prices(write(tmp_path, 'schema = "prices/1"\n')) == ()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("input_per_mtok = 1", "input_per_mtok = -1"), r"row 1 \('m'\): input_per_mtok=-1"),
        (("input_per_mtok = 1", "input_per_mtok = nan"), "finite"),
        (("output_per_mtok = 2.5", "output_per_mtok = inf"), "finite"),
        (("output_per_mtok = 2.5", ""), "output_per_mtok"),
        (("output_per_mtok = 2.5", 'output_per_mtok = "2.5"'), "float"),
        (("valid_from = 2025-01-01", 'valid_from = "soon"'), "valid_from|date"),
        (('source = "https://example.org/prices"', 'source = " "'), "source is empty"),
        (('source = "https://example.org/prices"', ""), "source"),
        (('model = "m"', 'model = "m"\nprice = 3'), "unknown field"),
        (('model = "m"', 'model = "m"\ncached_per_mtok = 2'), "swapped"),
        (("[[price]]", "[price]"), "array"),
        (("[[price]]", "[[price"), "no TOML"),
        (('"prices/1"', '"prices/2"'), "prices/2"),
        (('schema = "prices/1"', ""), "schema"),
        (("", ROW), "two prices from 2025-01-01"),
        (("", ROW.replace('"m"', '"n"\ncurrency = "EUR"')), "more than one currency"),
    ],
)
def test_a_table_that_cannot_be_right_is_refused(tmp_path: Path, change: tuple[str, str], match: str) -> None:
    old, new = change
    text = 'schema = "prices/1"\n' + ROW
    path = write(tmp_path, text.replace(old, new) if old else text + new)
    with pytest.raises(ConfigError, match=match) as caught:
        load_prices(path)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        load_prices(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b"schema = '\xff'")
    with pytest.raises(ConfigError, match=r"latin\.toml"):
        load_prices(tmp_path / "latin.toml")


def test_the_shipped_table_is_sound_and_sourced() -> None:
    prices = load_prices()
    assert prices
    for price in prices:
        assert price.source.startswith("https://")
        assert price.input_per_mtok > 0
        assert price.output_per_mtok > 0
