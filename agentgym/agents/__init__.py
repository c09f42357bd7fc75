"""Who acts in any environment. Agents see a view and tools, never an environment."""
