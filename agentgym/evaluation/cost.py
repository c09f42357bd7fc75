"""What a run cost, from token counts and a dated price table.

A price holds for one model name, exactly as requests name it, from one day on until a later row of the same model. A
model that the table does not know costs None: unknown is not free.
"""

from __future__ import annotations

import datetime
import math
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from agentgym.core.errors import ConfigError
from agentgym.core.records import Record, Trajectory, Usage

_SCHEMA = "prices/1"
_MTOK = 1_000_000
_DIGITS = 9  # a billionth of a dollar: below any provider's smallest unit


class Price(Record, frozen=True):
    """Price of a model, in `currency` per million tokens, from `valid_from` on. `source` says where it was read.

    Without `cached_per_mtok` the source names no discount, and cached input costs what other input costs.
    """

    model: str
    input_per_mtok: float
    output_per_mtok: float
    valid_from: datetime.date
    source: str
    cached_per_mtok: float | None = None
    currency: str = "USD"


class _Table(Record, frozen=True):
    schema: str
    price: tuple[Price, ...] = ()


def load_prices(path: Path | str | None = None) -> tuple[Price, ...]:
    """Read and check a price table; by default the one that comes with agentgym (`leaderboard/prices.toml`).

    Raises:
        ConfigError: the file is missing, is no TOML, or has a row that cannot be right; names file and row.
    """
    if path is None:
        return _parse(resources.files("agentgym").joinpath("data", "prices.toml").read_text("utf-8"), "prices.toml")
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"price table {path} cannot be read: {error}") from error
    return _parse(text, str(path))


def _parse(text: str, where: str) -> tuple[Price, ...]:
    try:
        data: Any = tomllib.loads(text)
        table = msgspec.convert(data, _Table)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"price table {where} is no TOML: {error}") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"price table {where}: {error}; leaderboard/prices.toml shows the form") from error
    if table.schema != _SCHEMA:
        raise ConfigError(f"price table {where}: schema {table.schema!r} is not {_SCHEMA!r}")
    for row, price in enumerate(table.price, 1):
        _check(price, f"price table {where}, row {row} ({price.model!r})")
    days = [(price.model, price.valid_from) for price in table.price]
    for model, day in days:
        if days.count((model, day)) > 1:
            raise ConfigError(f"price table {where}: {model!r} has two prices from {day} on; keep one")
    if len({price.currency for price in table.price}) > 1:
        raise ConfigError(
            f"price table {where}: more than one currency; costs are summed, so convert or split the table"
        )
    return table.price


def _check(price: Price, where: str) -> None:
    for name in ("model", "source", "currency"):
        if not getattr(price, name).strip():
            raise ConfigError(f"{where}: {name} is empty; leave a row out rather than guess")
    for name in ("input_per_mtok", "output_per_mtok", "cached_per_mtok"):
        value = getattr(price, name)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ConfigError(f"{where}: {name}={value} must be a finite number, at least 0")
    if price.cached_per_mtok is not None and price.cached_per_mtok > price.input_per_mtok:
        raise ConfigError(f"{where}: cached_per_mtok={price.cached_per_mtok} exceeds input_per_mtok: swapped?")


def price_on(model: str, prices: Sequence[Price], on: datetime.date) -> Price | None:
    """The row in force for a model on a day; None where there is none."""
    rows = [price for price in prices if price.model == model and price.valid_from <= on]
    return max(rows, key=lambda price: price.valid_from, default=None)


def reported_usage(trajectory: Trajectory) -> Usage | None:
    """Tokens of an episode as its endpoint counted them (`trajectory.usage` counts with the pinned counter instead).

    None when there is no turn or one came without counts, as those of scripted agents do. Attempts that failed and were
    repeated are not in it: endpoints do not report what those cost.
    """
    usages = [step.turn.usage for step in trajectory.steps]
    known = [usage for usage in usages if usage is not None]
    return sum(known, Usage()) if known and len(known) == len(usages) else None


def cost(usage: Usage | None, model: str, prices: Sequence[Price], *, on: datetime.date) -> float | None:
    """Cost of these tokens in the table's currency, rounded to a billionth.

    None when it is not known: no usage was reported, or no price of the model is in force on that day. The day is an
    argument and never today's, so that an old run keeps its cost.
    """
    price = price_on(model, prices, on)
    if usage is None or price is None:
        return None
    cached_rate = price.input_per_mtok if price.cached_per_mtok is None else price.cached_per_mtok
    cached = min(usage.tokens_cached, usage.tokens_in)
    total = (usage.tokens_in - cached) * price.input_per_mtok + cached * cached_rate
    return round((total + usage.tokens_out * price.output_per_mtok) / _MTOK, _DIGITS)
