"""Foreign clients for tests: programs in other languages, and the KV service by its stubs."""
