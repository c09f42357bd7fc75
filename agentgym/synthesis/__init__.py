"""Seeded task pipelines and their build gates."""
