"""The environment `PruneSearch-v0`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from agentgym.agents.base import Agent
from agentgym.core.errors import ConfigError
from agentgym.core.records import Message, Part, Score, Task, Trajectory, Truth
from agentgym.core.tokens import counter
from agentgym.envs.base import ToolEnv
from agentgym.envs.prune_search import data
from agentgym.envs.prune_search.agents import AGENTS
from agentgym.envs.prune_search.profiles import SearchProfile
from agentgym.envs.prune_search.profiles import profile as profile_named
from agentgym.envs.prune_search.reward import SearchReward, reward_terms
from agentgym.envs.prune_search.score import fuse_rollouts, score
from agentgym.envs.prune_search.tools import MultiSourceTools, Rankings, SearchTools, Shelf

SYSTEM = """\
You find the documents that answer a question; someone else will write the answer from them. Search, read, and remove \
with prune_chunks what turns out not to help, because your token budget is small. Chunks are shown as [id] title, then \
text. When you are done, reply without a tool call: rank the chunks that support the answer, best first, as
<Document id="..."> one to three sentences why"""
SYSTEM_NO_PRUNE = SYSTEM.replace("and remove with prune_chunks what turns out not to help, because your", "within your")
SYSTEM_TINY = "Find the chunks that answer. Prune others. End with their ids."


class PruneSearchEnv(ToolEnv):
    """## Description
    Multi-source, multi-hop search under a token budget with an agent that prunes its own context, rebuilt from Chroma's
    report on Context-1 (26 March 2026, §1 of our notes). The agent searches a corpus with parallel tool calls, removes
    chunks that do not help, and ends by ranking the chunks that support the answer. It never answers the question.

    ## Observation
    A `View`: system prompt, question, then the agent's turns and the tools' results. Chunks appear as message parts with
    their id; a pruned one leaves a one-line tombstone. After each turn a line tells the budget:
    `[Token usage: 14,203/32,768]`. Tokens are those of the profile's pinned counter (o200k in ranked profiles).

    ## Action
    A `Turn` with any number of calls (those past the profile's `max_calls` are refused) of `search_corpus(query)`,
    `grep_corpus(pattern)`, `read_document(doc_id)`, `prune_chunks(chunk_ids)`; or a text without calls: the answer. Broken
    calls are answered with an error result and counted. The answer ranks ids of chunks that the episode has shown, best
    first, as `<Document id="…">`, as a JSON list, or one a line; 30 at most are read, and an id never shown earns nothing.

    ## Budget
    Past half of it, a message suggests pruning or concluding (training profiles). Past the hard line every call but
    `prune_chunks` is refused. Results are cut to a cap a call and to what is left, less a reserve for the answer.

    ## Reward
    0 until the end, then clamp(0.7·F_β + 0.3·r_traj + r_fa − p_prune − p_turn, ε, r_pre); see `SearchReward`.
    Between 0 and 2. At the end `info` holds `reward_terms`, which sum to it, and `score` and `metrics` (see `score`): both
    judge what the whole episode has met, pruned chunks included.

    ## Episode end
    Terminated by an answer, by the turn limit, or when what the agent wrote does not fit into the budget. Never truncated
    by the environment itself.

    ## Arguments
    - `tasks`: `suite[/split]` such as `"sample"` (in the package) or `"prune-search-0/dev"` (built at first use), or a
      folder that holds a task set.
    - `index`: folder of an `Index`; by default one is built over the task set's corpus, in the user's cache.
    - `profile`: `32k` (default), `24k-eval`, `200k-no-prune`, `8k`, `2k`, `tiny`, `multi-source`, `walkthrough`, or a
      `SearchProfile`.
    - `retrieval`: legs of the index that is built by default: `lexical`, `hybrid`, `dense`; the suite's by default.
    - `reward`: a `SearchReward`.

    ## Version history
    - v0: first version.
    """

    name = "PruneSearch-v0"
    family = "prune-search"
    scorer_version = "1"
    tools: type[SearchTools] = SearchTools
    agents: ClassVar[Mapping[str, Callable[[Any], Agent]]] = {**ToolEnv.agents, **AGENTS}

    def __init__(
        self,
        tasks: str = "sample",
        *,
        index: str | None = None,
        profile: str | SearchProfile = "32k",
        retrieval: str | None = None,
        reward: SearchReward | None = None,
        render_mode: str | None = None,
    ) -> None:
        limits = profile_named(profile) if isinstance(profile, str) else profile
        if not isinstance(limits, SearchProfile):
            raise ConfigError(f"{self.name}: profile must be a name or a SearchProfile, not {type(limits).__name__}")
        if reward is not None and not isinstance(reward, SearchReward):
            raise ConfigError(f"{self.name}: reward must be a SearchReward, not {type(reward).__name__}")
        if limits.sources:
            self.tools = MultiSourceTools
        taskset = data.load(tasks)
        self.search_profile = limits
        self.index = data.open_index(tasks, index, retrieval, limits)
        self.shelf = Shelf(self.index, counter(limits.counter))
        self.rankings: Rankings | None = None
        super().__init__(
            taskset.tasks,
            limits,
            truths=taskset.truths,
            reward=reward if reward is not None else SearchReward(),
            render_mode=render_mode,
        )

    def toolset(self, task: Task, seed: int) -> SearchTools:
        return self.tools(self.index, self.shelf, self.search_profile, task.prompt, self.rankings)

    def offered(self) -> Sequence[str] | None:
        return None if self.search_profile.prune else ("search_corpus", "grep_corpus", "read_document")

    def opening(self, task: Task) -> Sequence[Message]:
        system = SYSTEM if self.search_profile.prune else SYSTEM_NO_PRUNE
        if self.search_profile.name == "tiny":
            system = SYSTEM_TINY
        return [Message("system", (Part(system),)), Message("user", (Part(task.prompt),))]

    def score(self, task: Task, truth: Truth, trajectory: Trajectory) -> Score:
        return score(truth, trajectory, self.search_profile.answer_chunks)

    def reward_terms(self, truth: Truth, trajectory: Trajectory, score: Score) -> dict[str, float]:
        assert isinstance(self.reward_config, SearchReward)
        return reward_terms(truth, trajectory, self.reward_config, self.search_profile.answer_chunks)

    def fuse(self, trajectories: Sequence[Trajectory]) -> Score:
        """The rollouts' rankings fused by reciprocal rank (report: "4x"; k = 60)."""
        truth = self.truths.get(trajectories[0].task)
        return Score(None) if truth is None else fuse_rollouts(truth, trajectories, self.search_profile.answer_chunks)

    def data_hash(self) -> str:
        return self.index.hash
