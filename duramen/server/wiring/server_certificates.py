"""The certificates of a server process: found in a folder, and read again whenever a client connects.

    ca.crt                    the CAs whose certificates are trusted
    NAME.crt, NAME.key        the server's own: the only pair that is a server's, or `server`

A file that cannot be read keeps a server from starting. Later it does not: the server goes on with what it has read
before, and reports that once for each change. A key that other users of the machine can read is used, since a company
may keep keys for a group, and each reading warns.

Every role imports this module. What brings `cryptography` is imported where a folder is read: a server without TLS has
no use for it.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from shlex import quote
from typing import Any, Final

import grpc

from duramen.certificates.channel_files import ChannelFiles
from duramen.certificates.names import AUTHORITY, PairFiles, files_of, leaf_names
from log_tier.access.client.pem_files import check_authorities, file_stamp, read_pem
from log_tier.model.errors import CertificateInvalid
from log_tier.rpc.security import SECURITY

__all__ = ["ServerCertificates"]

logger = logging.getLogger(__name__)

_OTHERS: Final = 0o077
_NAME: Final = "server"
"""The pair that counts where a folder has several: that of `duramen cert issue server`."""


class ServerCertificates:
    """The certificates in one folder, for all ports of a server. gRPC's threads may call it, several at once."""

    def __init__(self, folder: Path, files: PairFiles) -> None:
        self.files = files
        """The server's own certificate and its key."""
        self.ca = files_of(folder, AUTHORITY).certificate
        """The CAs that are trusted."""
        self._lock = threading.Lock()
        self._stamp = self._stamp_now()
        self._configuration = self._read()
        self._reading = 1
        """The number of the configuration: each port takes each of them once."""

    @classmethod
    def open(cls, folder: Path) -> ServerCertificates:
        """Find and read the certificates of a folder. Raises `CertificateInvalid` with the command that mends it."""
        return cls(folder.absolute(), _server_pair(folder.absolute()))

    @classmethod
    def of_process(cls, folder: Path | str | None) -> ServerCertificates | None:
        """Those of this process, which secure its calls to other servers, too, from what begins after this; None
        without a folder. Raises `CertificateInvalid`.
        """
        if folder is None or folder == "":
            return None
        certificates = cls.open(Path(folder))
        SECURITY.set(ChannelFiles(certificates.ca, *certificates.files))
        return certificates

    def credentials(self, *, require_client_certificate: bool) -> grpc.ServerCredentials:
        """TLS for one port of a gRPC server. Certificates are read again, if they have changed, at each handshake:
        three `stat` calls. `require_client_certificate`: a client without one of the folder's CAs is not let in.
        """
        with self._lock:
            first, taken = self._configuration, self._reading

        def changed() -> Any:
            """The configuration that came since this port's last handshake; None if there is no new one."""
            nonlocal taken
            with self._lock:
                self._look()
                if taken == self._reading:
                    return None
                taken = self._reading
                return self._configuration

        return grpc.dynamic_ssl_server_credentials(
            first, changed, require_client_authentication=require_client_certificate
        )

    def _look(self) -> None:
        """Read what has changed, if it can be used."""
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._configuration = self._read()
        except CertificateInvalid as error:
            logger.error("new certificates cannot be used, the server goes on with the old ones: %s", error.message)
            return
        self._reading += 1
        logger.warning("new certificates are used from now on: %s", self.files.certificate)

    def _read(self) -> Any:
        from duramen.certificates.pair import read_pair

        authorities = read_pem(self.ca)
        check_authorities(authorities, self.ca)
        pair = read_pair(*self.files)
        if not _is_of_server(pair.certificate):
            raise CertificateInvalid(
                f"{self.files.certificate} is no server's: issue one with --server", file=str(self.files.certificate)
            )
        _warn_of_readers(self.files.key)
        return grpc.ssl_server_certificate_configuration([(pair.key, pair.certificate)], authorities)

    def _stamp_now(self) -> tuple[tuple[int, int, int] | None, ...]:
        """What changes when a file does."""
        return tuple(map(file_stamp, (self.ca, *self.files)))


def _server_pair(folder: Path) -> PairFiles:
    """The files of the server's certificate."""
    where = quote(str(folder))
    try:
        names = [name for name in leaf_names(folder) if files_of(folder, name).key.exists()]
    except OSError as error:
        raise CertificateInvalid(
            f"{folder} cannot be read ({error.strerror}): `duramen cert init --dir {where}` makes it, and `duramen "
            f"cert issue {_NAME} --server HOST,… --dir {where}` the certificate",
            file=str(folder),
        ) from error
    servers = [name for name in names if _is_of_server(read_pem(files_of(folder, name).certificate))]
    if len(servers) == 1:
        return files_of(folder, servers[0])
    if _NAME in servers:
        return files_of(folder, _NAME)
    if servers:
        raise CertificateInvalid(
            f"{folder} has the certificates of several servers ({', '.join(servers)}) and none called {_NAME}: give "
            "each server a folder with its own and ca.crt",
            file=str(folder),
        )
    raise CertificateInvalid(
        f"{folder} has no server's certificate with its key: `duramen cert issue {_NAME} --server HOST,… --dir {where}"
        "` makes one, where the CA is; one of another CA is a server's by the URI duramen:server:NAME",
        file=str(folder),
    )


def _warn_of_readers(key: Path) -> None:
    mode = key.stat().st_mode & 0o777
    if mode & _OTHERS:
        logger.warning(
            "%s has the mode %04o, and who can read it can be this server: chmod 600 %s", key, mode, quote(str(key))
        )


def _is_of_server(certificate: bytes) -> bool:
    from duramen.certificates.identity import identity_of

    return identity_of(certificate).kind == "server"
