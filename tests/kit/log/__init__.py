"""The log: disks, engines and models for tests."""
