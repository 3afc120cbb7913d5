"""Errors of a call that cannot be served as it is: the caller has to change it."""

from __future__ import annotations

from log_tier.model.errors.root import DuramenError

__all__ = [
    "AccessDenied",
    "BatchRefused",
    "DatabaseClosed",
    "DatabaseForked",
    "InvalidKey",
    "InvalidName",
    "InvalidRequest",
    "InvalidRow",
    "InvalidSchema",
    "InvalidToken",
    "InvalidValue",
    "LimitExceeded",
    "LocationRefused",
    "PartitionMismatch",
    "PermissionDenied",
    "PortInUse",
    "TokenAhead",
    "Unauthenticated",
]


class InvalidRequest(DuramenError, ValueError):
    """The call is invalid; nothing was done, and repeating it cannot help.

    Do: correct the call; the message names the argument and its limit.
    """

    code = "invalid_request"
    fault = "caller"


class InvalidName(InvalidRequest):
    """The text is not a valid name of a table, a topic or a certificate.

    Do: use a name of the form that the message gives.
    """

    code = "invalid_name"


class InvalidKey(InvalidRequest):
    """A key is not bytes, or not 1 to 511 bytes long.

    Do: use a shorter key, for example a hash of the long one; encode text to bytes.
    """

    code = "invalid_key"


class InvalidValue(InvalidRequest):
    """A value is not bytes, or longer than 4 MiB.

    Do: split the value, or store it elsewhere and put its address here; encode text to bytes.
    """

    code = "invalid_value"


class InvalidSchema(InvalidRequest):
    """The text is not a schema that a table can have, or not one that may follow the table's present one.

    Fields: `field`, the dotted path to it (empty: the schema as a whole), `reason`.

    Do: correct the field that the message names.
    """

    code = "invalid_schema"


class InvalidRow(InvalidRequest):
    """A row does not fit its table's schema. Nothing was sent. Fields: `field`, the dotted path to it, `expected`.

    Do: give the field a value of the type that the message names, or change the table's schema.
    """

    code = "invalid_row"


class PartitionMismatch(InvalidRequest):
    """The keys of an atomic batch lie in several partitions. Nothing was written.

    Do: give the keys a common `{tag}`, or write them one by one.
    """

    code = "partition_mismatch"


class InvalidToken(InvalidRequest):
    """The text is not a token, or is a token of another table. Fields: `token_table`, `table` where known.

    Do: pass the token on unchanged, and use it on the table that it came from.
    """

    code = "invalid_token"


class TokenAhead(InvalidRequest):
    """The token asks for an offset that the log has not reached. Fields: `partition`, `asked`, `latest`.

    Do: look whether the token comes from another deployment, or whether the log's folder was replaced.
    """

    code = "token_ahead"


class BatchRefused(InvalidRequest):
    """The bytes are not a valid batch: malformed, wrong checksum, or of a version that this process cannot read.

    Do: upgrade the older of client and server; from a foreign producer, correct the encoding.
    """

    code = "batch_refused"


class LimitExceeded(InvalidRequest):
    """A request, a queue or a stream is over its limit. Fields: `limit`, `size`.

    Do: send less in one call; the message names the limit.
    """

    code = "limit_exceeded"


class DatabaseClosed(InvalidRequest):
    """The program has closed this database or connection.

    Do: connect or open again.
    """

    code = "database_closed"


class DatabaseForked(DatabaseClosed):
    """This process was forked from the one that has the database open. Only that process can use it.

    Do: open the database after the fork, or run a server (`duramen up`) and connect from each process.
    """

    code = "database_forked"


class PortInUse(InvalidRequest):
    """Another process listens on the port. Field: `port`.

    Do: stop the other server, or use `--port`.
    """

    code = "port_in_use"


class AccessDenied(InvalidRequest):
    """The Kafka cluster does not accept these credentials, or does not permit them this operation.

    Do: check the TLS and SASL settings of the URL, and the cluster's ACLs.
    """

    code = "access_denied"


class Unauthenticated(InvalidRequest):
    """The caller did not prove that it is a user, and the cluster has users.

    Do: give a token or a user and a password; if you gave one, it expired, was revoked, or is another cluster's.
    """

    code = "unauthenticated"


class PermissionDenied(InvalidRequest):
    """The caller is a user who may not do this. The message says who, and which grant is missing.

    Do: ask somebody with `admin *` for that grant.
    """

    code = "permission_denied"


class LocationRefused(InvalidRequest):
    """A server is not configured to open this folder or bucket for its callers. Fields: `location`, `setting`.

    Do: name it, or what it lies below, in `allowed_locations` (`--allow-location`) of every node and router.
    """

    code = "location_refused"
