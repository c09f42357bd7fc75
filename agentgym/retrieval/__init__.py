"""The hybrid index: lexical and dense legs, reciprocal rank fusion, MaxSim rerank, grep and read."""
