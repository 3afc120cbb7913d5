"""Which options of a command line hold a secret."""

from __future__ import annotations

import pytest

from duramen.cli.servers.secret_arguments import secret_arguments


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["up", "--log", "kafka://a:9092/ns?sasl.password=x"], ["--log"]),
        (["up", "--log=kafka://a:9092/ns?sasl.password=x", "--resp-password", "x"], ["--log", "--resp-password"]),
        (["up", "--resp-password=x"], ["--resp-password"]),
        (["serve", "node", "--snapshots", "s3://b/p?endpoint_url=http://me:x@h:9000"], ["--snapshots"]),
        (["up", "--log", "kafka://a:9092/ns?config=/etc/k", "--data", "/me@home", "--resp-port", "0"], []),
        (["up", "--resp-password="], []),
        ([], []),
    ],
)
def test_options_whose_values_hold_a_secret_are_named(arguments: list[str], found: list[str]) -> None:
    assert secret_arguments(arguments) == found
