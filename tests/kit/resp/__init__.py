"""The RESP endpoint for tests."""
