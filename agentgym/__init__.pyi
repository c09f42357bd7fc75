"""The public names, for type checkers: they cannot follow the lazy table in `__init__.py`."""

from agentgym.agents.base import Agent as Agent
from agentgym.agents.base import Brief as Brief
from agentgym.agents.base import Policy as Policy
from agentgym.agents.chat import ChatAgent as ChatAgent
from agentgym.core.errors import ToolError as ToolError
from agentgym.core.graph import View as View
from agentgym.core.records import Message as Message
from agentgym.core.records import Part as Part
from agentgym.core.records import Score as Score
from agentgym.core.records import Task as Task
from agentgym.core.records import ToolCall as ToolCall
from agentgym.core.records import Trajectory as Trajectory
from agentgym.core.records import Truth as Truth
from agentgym.core.records import Turn as Turn
from agentgym.corpus.queries import read_tasks as read_tasks
from agentgym.corpus.readers import read_corpus as read_corpus
from agentgym.envs.base import ToolEnv as ToolEnv
from agentgym.envs.prune_search.reward import SearchReward as SearchReward
from agentgym.envs.wrappers import TextActions as TextActions
from agentgym.evaluation.frames import load_rewards as load_rewards
from agentgym.evaluation.frames import load_runs as load_runs
from agentgym.evaluation.frames import load_steps as load_steps
from agentgym.evaluation.run import Run as Run
from agentgym.evaluation.run import evaluate as evaluate
from agentgym.harness.profiles import Profile as Profile
from agentgym.harness.tool import Toolset as Toolset
from agentgym.harness.tool import tool as tool
from agentgym.retrieval.index import Index as Index
from agentgym.rollouts.segments import ChatMLCodec as ChatMLCodec
from agentgym.rollouts.segments import episode as episode
from agentgym.rollouts.segments import rollout as rollout

__version__: str
