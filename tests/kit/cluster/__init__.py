"""Clusters for tests, in one process or in several."""
