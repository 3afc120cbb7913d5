"""The index: contract, models and golden scripts for tests."""
