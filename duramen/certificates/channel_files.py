"""The files that secure a process's channels."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from log_tier.access.client.pem_files import check_authorities, file_stamp, read_pem
from log_tier.model.errors import InvalidRequest
from log_tier.rpc.security import ChannelPems

__all__ = ["ChannelFiles", "channel_files"]


class ChannelFiles(NamedTuple):
    """A `ChannelSecurity` of files, which are read for each new channel."""

    ca: Path
    """The CAs that sign the servers' certificates."""
    certificate: Path | None = None
    """The client's own certificate; None: it shows none."""
    key: Path | None = None
    """The certificate's key."""

    def read(self) -> ChannelPems:
        """What the files hold now. Raises `CertificateInvalid` with the `file` that cannot be used. Two or three small
        files.
        """
        authorities = read_pem(self.ca)
        check_authorities(authorities, self.ca)
        if self.certificate is None or self.key is None:
            return ChannelPems(authorities, None, None)
        from duramen.certificates.pair import read_pair  # with `cryptography`, which a client of a CA alone needs not

        return ChannelPems(authorities, *read_pair(self.certificate, self.key))

    def stamp(self) -> object:
        """What changes when a file does: one `stat` each."""
        return tuple(None if each is None else file_stamp(each) for each in self)


def channel_files(ca: Path | None, certificate: Path | None, key: Path | None) -> ChannelFiles:
    """What a caller of `duramens://` gave. Raises `InvalidRequest` without a CA, and for a certificate without key or
    the other way round; `CertificateInvalid` for files that cannot be used.
    """
    if ca is None:
        raise InvalidRequest(
            "duramens:// needs the CA that signed the servers' certificates: give ca=, --ca or DURAMEN_CA, like "
            "certs/ca.crt"
        )
    if (certificate is None) is not (key is None):
        raise InvalidRequest("a certificate and its key go together: give both, or none")
    # Absolute: a pickled client may be used in a process that works in another folder.
    own = (None if each is None else each.absolute() for each in (certificate, key))
    files = ChannelFiles(ca.absolute(), *own)
    files.read()
    return files
