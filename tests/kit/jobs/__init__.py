"""Nodes that do tasks."""
