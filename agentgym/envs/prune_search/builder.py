"""`CandidateBuilder`: from a view to the concrete calls that could come next, with features and mask.

One builder serves one episode, in the environment and in an agent alike: it is told of each view and needs nothing else of
the episode. Candidates are deterministic: kinds come in a fixed order (finish, sweep, search, grep, read, prune), and
inside a kind by promise or standing, ties by text or id.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from agentgym.core.errors import ConfigError
from agentgym.core.graph import View
from agentgym.core.records import Turn
from agentgym.envs.prune_search.agents import answer
from agentgym.envs.prune_search.features import FINISH, GLOBAL_FEATURES, STANDING, Array, settled
from agentgym.envs.prune_search.moves import FINISH as FINISHES
from agentgym.envs.prune_search.moves import KEEP, MET, Moves, Slate
from agentgym.envs.prune_search.notes import MILLION, Library
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.room import past

MIN_K = 24
# Shares of the places that finishes and sweeps leave; prunes take the rest.
_SEARCHES, _READS, _GREPS = 0.5, 0.1, 0.06


class Candidates(NamedTuple):
    """All candidates of a moment.

    `overview` float32 (G,), `features` float32 (K, F), `mask` float32 (K,) of 0 and 1, `turns` the turns of the first
    n ≤ K candidates; rows from n on are padding.
    """

    overview: Array
    features: Array
    mask: Array
    turns: tuple[Turn, ...]


class CandidateBuilder:
    """Candidates of one episode.

    Args:
        library: what is shared over the index, from `notes.library(index)`.
        profile: limits of the episode.
        prompt: the question.
        k: number of candidates, at least 24.
    """

    def __init__(self, library: Library, profile: SearchProfile, prompt: str, k: int = 64) -> None:
        if k < MIN_K:
            raise ConfigError(f"k={k} leaves no room for every kind of candidate: give at least {MIN_K}")
        self.k = k
        self._profile = profile
        self._library = library
        self._question = library.question(prompt)
        self._moves = Moves(library, profile, self._question, k // 2)

    def update(self, view: View) -> Candidates:
        """Candidates for a view; call it once for each, in order."""
        self._take_in(view)
        moves, slate, places = self._moves, Slate(self.k), self.k - len(FINISHES) - len(MET) - len(KEEP)
        moves.finishes(slate)
        moves.sweeps(slate)
        moves.queries(slate, round(_SEARCHES * places), round(_GREPS * places))
        moves.reads(slate, round(_READS * places))
        moves.prunes(slate, self.k - len(slate.turns))
        if not any(slate.valid):  # an answer is always taken, if only an empty one
            if not slate.turns:
                slate.add([answer(())], [True])[0, FINISH] = 1.0
            slate.valid[0] = True
        mask = np.zeros(self.k, dtype=np.float32)
        mask[: len(slate.valid)] = slate.valid
        return Candidates(settled(np.array(self._overview())), settled(slate.features), mask, tuple(slate.turns))

    def _take_in(self, view: View) -> None:
        """Read what is new in a view, and note which leads were followed."""
        moves, library = self._moves, self._library
        ledger, leads, pages = moves.ledger, moves.leads, moves.pages
        ledger.update(view)
        for seen in ledger.new:
            before = pages.readings[pages.number[seen.chunk]] if seen.chunk in pages.number else None
            reading = library.reading(self._question.prompt, seen.chunk, seen.text)
            leads.read(pages.see(seen, reading), reading, before)
        if ledger.changed:
            pages.show(ledger.live)
        stale = bool(ledger.new)
        for ask in ledger.last:
            if ask in moves.offered:
                query, lead = moves.offered[ask]
                moves.tried |= query.mask
                stale = True
                if lead and leads.ask(lead):
                    pages.follow(self._question.leads[lead].casefold())
        moves.settle(stale or not ledger.turns)

    def _overview(self) -> list[float]:
        """The global features, in their order."""
        moves, profile, share = self._moves, self._profile, self._question.share
        ledger, leads, pages, room = moves.ledger, moves.leads, moves.pages, moves.room
        standings = pages.standing[pages.live].tolist() or [0.0]
        fresh = pages.rows[[pages.number[chunk] for chunk in ledger.fresh], STANDING]
        coverage = leads.coverage.tolist()
        lead = leads.fresh[0] if leads.fresh else 0
        values = {
            "used": room.share(ledger.used),
            "free": room.share(room.free),
            "call_cap": room.share(room.cap(0)),
            "past_soft": past(profile.soft_tokens, ledger.used),
            "past_hard": room.prune_only,
            "turns": ledger.turns / profile.max_turns,
            "searches": ledger.searches / 16,
            "live": len(pages.live) / 64,
            "met": len(pages) / 64,
            "pruned": 1 - len(pages.live) / max(1, len(pages)) if len(pages) else 0.0,
            "prune_run": ledger.prune_run / 4,
            "fresh": len(ledger.fresh) / profile.shown,
            "fresh_standing": fresh.max(initial=0.0),
            "failed": ledger.failed,
            "covered": share(pages.before[-1]),
            "met_covered": share(pages.met_mask),
            "clues_covered": sum(coverage) / len(coverage) / MILLION,
            "least_covered": min(coverage) / MILLION,
            "leads": leads.open / 64,
            "best_lead": int(leads.evidence[lead]) / MILLION,
            "best": standings[0],
            "contrast": standings[0] - math.fsum(standings) / len(standings),
            "clues": len(self._question.clues) / 12,
            "words": len(self._question.terms) / 64,
        }
        return [float(values[name]) for name in GLOBAL_FEATURES]
