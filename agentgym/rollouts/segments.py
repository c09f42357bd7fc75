"""An episode driven by token ids: what a trainer of language models needs.

The policy is asked with token ids and answers with token ids, which are never decoded and encoded again: the next prompt
is the last one plus the sampled ids plus the ids of what came back. Where the view changes in the middle (a prune), a new
segment begins; each sampled token is trained once, in the segment in which it was sampled.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec

from agentgym.core.errors import ConfigError
from agentgym.core.graph import View
from agentgym.core.records import Message, Part, Record, ToolSpec, Trajectory, Turn, Usage, settings_of
from agentgym.core.tokens import O200k, counter
from agentgym.envs.base import Outcome, ToolEnv
from agentgym.harness.episode import Episode
from agentgym.harness.text import parse_turn, render_message, render_specs
from agentgym.rollouts.play import EnvSpec


class Generation(Record, frozen=True):
    """What a policy sampled: token ids, their log-probabilities where known, and the version of the weights."""

    token_ids: list[int]
    logprobs: list[float] = []
    version: int = 0


Generate = Callable[[list[int]], Generation | list[int] | Awaitable[Generation | list[int]]]


class Codec(Protocol):
    """Text to token ids and back, with the markers that a policy's chat template uses."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text."""

    def decode(self, token_ids: list[int]) -> str:
        """Text of token ids."""

    def message(self, message: Message) -> list[int]:
        """Ids of a whole message, markers included."""

    def assistant_open(self) -> list[int]:
        """Ids that ask for the assistant's next message."""

    def assistant_close(self, sampled: list[int]) -> list[int]:
        """Ids that close it, less what the policy has sampled of them."""


class ChatMLCodec:
    """ChatML over a tokeniser: `<|im_start|>role\\n…<|im_end|>\\n`; o200k by default, for trying things out."""

    OPEN, CLOSE = "<|im_start|>", "<|im_end|>"

    def __init__(
        self, encode: Callable[[str], list[int]] | None = None, decode: Callable[[list[int]], str] | None = None
    ) -> None:
        if (encode is None) != (decode is None):
            raise ConfigError("ChatMLCodec: give both encode and decode, or neither")
        default = counter("o200k")
        assert isinstance(default, O200k)
        self._encode = encode or default.encode
        self._decode = decode or default.decode

    def encode(self, text: str) -> list[int]:
        return self._encode(text)

    def decode(self, token_ids: list[int]) -> str:
        try:
            return self._decode(token_ids).partition(self.CLOSE)[0]
        except (LookupError, OverflowError) as error:
            raise ConfigError(
                f"the policy sampled ids that its codec cannot decode ({error}): give rollout a codec over its own tokeniser"
            ) from error

    def message(self, message: Message) -> list[int]:
        return self._encode(f"{self.OPEN}{message.role}\n{render_message(message)}{self.CLOSE}\n")

    def assistant_open(self) -> list[int]:
        return self._encode(f"{self.OPEN}assistant\n")

    def assistant_close(self, sampled: list[int]) -> list[int]:
        # Judged by the text: the marker after other characters is not the same ids as the marker alone.
        return self._encode("\n" if self.CLOSE in self._decode(sampled) else f"{self.CLOSE}\n")


class Segment(Record, frozen=True):
    """A path of the message graph as tokens.

    `mask` is 1 on sampled tokens to be trained here; `logprobs` and `versions` are aligned with it (0 elsewhere). `branch`
    is the number of leading tokens shared with the segment before it, `leaf` the id of the last view asked about.
    """

    token_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    versions: list[int]
    branch: int
    leaf: str


class Session:
    """An episode together with the environment that judges it; what `ag.episode` returns."""

    def __init__(self, env: ToolEnv, episode: Episode) -> None:
        self.env = env
        self.episode = episode

    @property
    def view(self) -> View:
        """What the agent sees."""
        return self.episode.view

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What the agent may call."""
        return self.env.specs

    @property
    def done(self) -> bool:
        """Whether the episode has ended."""
        return self.episode.stop is not None

    async def step(self, turn: Turn) -> View:
        """Take one turn."""
        return await self.episode.step(turn)

    def trajectory(self) -> Trajectory:
        """The record so far, with the reward settings that it was judged by."""
        record = self.episode.trajectory(env=self.env.name, fingerprint=self.env.fingerprint())
        return msgspec.structs.replace(record, reward=settings_of(self.env.reward_config))

    def outcome(self) -> Outcome:
        """Score and reward of the record so far."""
        return self.env.outcome(self.trajectory())


def episode(env: str, task: str | None = None, *, seed: int = 0, **kwargs: Any) -> Session:
    """Open an episode for a trainer of one's own.

    Args:
        env: environment id, such as `"PruneSearch-v0"`.
        task: task id; by default the one that the seed selects.
        seed: the episode's seed.
        kwargs: the environment's own (`tasks`, `profile`, `index`, …).
    """
    built = EnvSpec.of(env, kwargs).build()
    return Session(built, built.open(task or built.tasks[seed % len(built.tasks)].id, seed))


async def rollout(
    session: Session, generate: Generate, codec: Codec | None = None
) -> tuple[list[Segment], float, Trajectory]:
    """Play a session to its end with a policy that takes and gives token ids.

    Returns its segments, the reward and the trajectory. `generate` may be asynchronous, and may return bare ids.

    Raises:
        ConfigError: `generate` gave log-probabilities for another number of tokens, or ids that the codec cannot decode.
    """
    writer = _Writer(codec or ChatMLCodec(), session.tools)
    while not session.done:
        view = session.view
        prompt = writer.prompt(view)
        made = generate(list(prompt))
        answer = await made if inspect.isawaitable(made) else made
        generation = answer if isinstance(answer, Generation) else Generation([int(token) for token in answer])
        if generation.logprobs and len(generation.logprobs) != len(generation.token_ids):
            raise ConfigError(
                f"generate returned {len(generation.token_ids)} token ids and {len(generation.logprobs)} logprobs"
            )
        usage = Usage(tokens_in=len(prompt), tokens_out=len(generation.token_ids))
        turn = msgspec.structs.replace(parse_turn(writer.sampled(generation)), usage=usage)
        await session.step(turn)
    trajectory = session.trajectory()
    return writer.segments(), session.env.outcome(trajectory).reward, trajectory


class _Writer:
    """Keeps the tokens of every message of the view, and lays segments down as the view grows or branches."""

    def __init__(self, codec: Codec, tools: tuple[ToolSpec, ...]) -> None:
        self._codec = codec
        self._preamble = codec.message(Message("system", (Part(render_specs(tools)),)))
        self._messages: tuple[Message, ...] = ()
        self._pieces: list[list[int]] = []
        self._said: list[int] = []  # the assistant message that the next view will hold, as sampled
        self._tokens: list[int] = []
        self._samples: list[tuple[int, Generation]] = []  # of the open segment, with where each begins
        self._branch = 0
        self._leaf = ""
        self._segments: list[Segment] = []

    def prompt(self, view: View) -> list[int]:
        """Token ids that ask for the next turn of this view."""
        old, messages = self._messages, view.messages
        same = min(view.kept, len(old))
        while same < len(old) and old[same] == messages[same]:
            same += 1
        known = [*self._pieces, self._said] if old else []
        if same < len(old):
            self._close_segment()
            self._branch = len(self._preamble) + sum(map(len, self._pieces[:same]))
        pieces = known[:same]
        for i in range(same, len(messages)):
            # The agent's own messages keep the tokens it sampled, wherever the view branched.
            sampled = i < len(known) and messages[i].role == "assistant"
            unchanged = i < len(old) and messages[i] == old[i]
            pieces.append(known[i] if sampled or unchanged else self._codec.message(messages[i]))
        self._pieces, self._messages, self._leaf = pieces, messages, view.id
        self._tokens = [token for piece in (self._preamble, *pieces) for token in piece]
        self._tokens += self._codec.assistant_open()
        return self._tokens

    def sampled(self, generation: Generation) -> str:
        """Take the policy's answer; returns its text."""
        ids = generation.token_ids
        text = self._codec.decode(ids)
        self._samples.append((len(self._tokens), generation))
        self._tokens = [*self._tokens, *ids]
        self._said = [*self._codec.assistant_open(), *ids, *self._codec.assistant_close(ids)]
        return text

    def segments(self) -> list[Segment]:
        """All segments of the finished rollout."""
        self._close_segment()
        return self._segments

    def _close_segment(self) -> None:
        size = len(self._tokens)
        mask, logprobs, versions = [0] * size, [0.0] * size, [0] * size
        for start, made in self._samples:
            end = start + len(made.token_ids)
            mask[start:end] = [1] * len(made.token_ids)
            versions[start:end] = [made.version] * len(made.token_ids)
            if made.logprobs:
                logprobs[start:end] = made.logprobs
        if self._samples:
            self._segments.append(Segment(self._tokens, mask, logprobs, versions, self._branch, self._leaf))
        self._samples = []
