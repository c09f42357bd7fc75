"""Multi-hop search tasks over a generated world: world → plans of chains → pages → clues → verified truth."""
