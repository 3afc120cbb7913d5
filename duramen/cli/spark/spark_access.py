"""What a command's options say of TLS and of the user, as arguments of a job of Spark's."""

from __future__ import annotations

from typing import TypedDict

from log_tier.model.errors import InvalidRequest
from log_tier.rpc.credentials import CREDENTIALS
from log_tier.rpc.security import SECURITY

__all__ = ["SparkAccess", "spark_access"]


class SparkAccess(TypedDict):
    """The arguments."""

    at: str
    ca: str | None
    token_file: str | None


def spark_access(at: str) -> SparkAccess:
    """How Spark's processes call the server `at` (host:port), which the command itself calls as its context says.

    Raises `InvalidRequest` for a certificate of the caller's own, and for a secret that is in no file: executors get
    paths, and open the files themselves.
    """
    # Here, and not at the top: `cryptography` and tokens are for those who use them.
    from duramen.certificates.channel_files import ChannelFiles
    from log_tier.access.client.kept_credentials import TokenFileCredentials

    security, credentials = SECURITY.get(), CREDENTIALS.get()
    token_file = str(credentials.path) if isinstance(credentials, TokenFileCredentials) else None
    if credentials is not None and token_file is None:
        raise InvalidRequest(
            f"Spark's executors prove the user {credentials.user} by a file: write a token to one of mode 0600, and "
            "give --token-file before the command, or DURAMEN_TOKEN_FILE"
        )
    if not isinstance(security, ChannelFiles):
        return {"at": at, "ca": None, "token_file": token_file}
    if security.certificate is not None and token_file is None:
        raise InvalidRequest(
            "Spark's executors show no certificate of their own: give --token-file before the command, or "
            "DURAMEN_TOKEN_FILE"
        )
    return {"at": f"duramens://{at}", "ca": str(security.ca), "token_file": token_file}
