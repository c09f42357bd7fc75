"""Tools, view, context window, effects, Episode: the same object in training, evaluation and deployment."""
