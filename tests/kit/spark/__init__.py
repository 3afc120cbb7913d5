"""Spark for tests."""
