"""Real Kafka brokers for tests."""
