"""Traces in tests: a collector's protocol on loopback, and a program that has set up OpenTelemetry."""
