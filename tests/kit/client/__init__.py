"""Clients and servers for tests."""
