"""Records, ids and hashes, seeds, token counting, errors: what every other room stands on."""
