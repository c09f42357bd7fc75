"""PruneSearch: search under a token budget with an agent that prunes its own context (rebuilt from Chroma's Context-1)."""
