"""What a policy is told of each candidate and of the episode, as named numbers, all in [0, 1].

Weights of words are their rarity in the corpus (`notes.Library.weight`); a *clue* is a sentence of the question; a *lead* is
a name read in a chunk. *Evidence* and *promise* of leads and *standing* of chunks are defined in `leads`. A feature that
makes no sense for a kind of candidate is 0.

## One candidate, `FEATURES`
Kind, exactly one of them 1:
- `search`, `read`, `grep`, `prune` (one chunk), `sweep` (all but the best), `finish` (an answer).

What a query is made of (search, grep):
- `whole`: 1 for the question as it stands.
- `from_question`: 1 if only words of the question are in it.
- `from_lead`: 1 if it asks for a lead.
- `with_clue`: 1 if words of one of the least covered clues are added to the lead.

Bearing on the question. The text is the query's own, the chunk's, or that of all chunks together which a sweep takes out or
a finish returns; for a read, the document's best chunk met; for a lead, where so said, the chunk of its best sentence:
- `overlap`: share of the question's weight that the text holds.
- `sentence`: share that the best sentence of the chunk, of any of several, or of the lead's chunk holds.
- `open`: for queries the share that the text holds and no chunk met does; for chunks in view the share that the text holds
  and no other chunk in view does.
- `evidence`: a lead's evidence, cut at 1.
- `promise`: a lead's promise relative to the best; for chunks and reads, that of the chunk's title as a lead.
- `standing`: of the chunk, of the lead's chunk, or the mean of several, relative to the best chunk met.
- `rank`: the chunk's place by standing among those in view, 1 for the best to 0 for the last (prune).
- `followed`: 1 if the chunk's title holds a lead that was searched for, or a name of the question.

History:
- `used`: times that this very call was made, in quarters, cut at 1.
- `brought`: chunks that it brought the last time, as a share of what a search shows.
- `novelty`: share of the question's words in the query that no earlier query held; for a lead, 1 until it is searched for;
  for a chunk, 1 if the last turn showed it.
- `mentions`: chunks met that name the lead, or the chunk's title, log2(1 + n) / 6, cut at 1.
- `age`: turns since the chunk, or the lead's chunk, was shown, in sixteenths, cut at 1.
- `place`: 1 / (1 + place of the chunk, or the lead's chunk, in the result that showed it).
- `live`: share of the chunks concerned that are in view; for a lead or a read, 1 if its chunk is.

Size:
- `rarity`: mean weight of the query's words relative to the largest possible.
- `tokens`: tokens of the chunks concerned, as a share of the budget.
- `count`: chunks that a sweep takes out, a finish returns or a read can still show, in thirtieths, cut at 1.

## The episode, `GLOBAL_FEATURES`
- `used`: context in tokens, as a share of the budget. `free`: what results may still use, likewise.
- `call_cap`: what one call may bring, as a share of the budget.
- `past_soft`, `past_hard`: 1 past the soft threshold, and past the line from which only prunes are run.
- `turns`: turns taken, as a share of the limit.
- `searches`: searches and greps made, in sixteenths, cut at 1.
- `live`, `met`: chunks in view, and ever shown, in sixty-fourths, cut at 1.
- `pruned`: share of the chunks met that are no longer in view.
- `prune_run`: prune calls in a row, in quarters, cut at 1 (the reward charges from the fourth on).
- `fresh`: chunks that the last turn showed, as a share of what a search shows, cut at 1.
- `fresh_standing`: the best standing among them relative to the best chunk met.
- `failed`: 1 if the last turn had an error.
- `covered`, `met_covered`: share of the question's weight that the chunks in view hold, and that chunks met hold.
- `clues_covered`, `least_covered`: mean and least, over the clues, of the best share that a sentence met holds.
- `leads`: leads not yet asked for, in sixty-fourths, cut at 1. `best_lead`: evidence of the most promising, cut at 1.
- `best`: standing of the best chunk in view, cut at 1. `contrast`: how far it is above the mean in view, cut at 1.
- `clues`, `words`: clues of the question, in twelfths, and its terms, in sixty-fourths, cut at 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

# fmt: off
FEATURES = (
    "search", "read", "grep", "prune", "sweep", "finish", "whole", "from_question", "from_lead", "with_clue",
    "overlap", "sentence", "open", "evidence", "promise", "standing", "rank", "followed", "used", "brought",
    "novelty", "mentions", "age", "place", "live", "rarity", "tokens", "count",
)
GLOBAL_FEATURES = (
    "used", "free", "call_cap", "past_soft", "past_hard", "turns", "searches", "live", "met", "pruned", "prune_run",
    "fresh", "fresh_standing", "failed", "covered", "met_covered", "clues_covered", "least_covered", "leads",
    "best_lead", "best", "contrast", "clues", "words",
)
# fmt: on

# Column of each feature of a candidate.
SEARCH, READ, GREP, PRUNE, SWEEP, FINISH, WHOLE, FROM_QUESTION, FROM_LEAD, WITH_CLUE = range(10)
OVERLAP, SENTENCE, OPEN, EVIDENCE, PROMISE, STANDING, RANK, FOLLOWED = range(10, 18)
USED, BROUGHT, NOVELTY, MENTIONS, AGE, PLACE, LIVE, RARITY, TOKENS, COUNT = range(18, 28)

# By number of chunks; rounded, for log2 may differ in its last digit between machines.
_MENTIONS = np.array([round(min(1.0, math.log2(1 + n) / 6), 6) for n in range(64)])


def settled(values: NDArray[Any]) -> Array:
    """Values as float32, cut to [0, 1] and rounded to 6 places."""
    array: Array = np.round(np.minimum(np.maximum(values, 0.0), 1.0), 6).astype(np.float32)
    return array


def mentions(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Numbers of chunks as the feature `mentions`."""
    steps: NDArray[np.float64] = _MENTIONS.take(counts, mode="clip")
    return steps
