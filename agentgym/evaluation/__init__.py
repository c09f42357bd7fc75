"""Suites, runs, statistics, cost, reports: what is learned from many episodes."""
