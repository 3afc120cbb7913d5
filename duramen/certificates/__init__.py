"""Certificates: a CA in a folder, what it signs for servers and users, and how servers read and interpret them.

    duramen cert init ──▶ ca.crt, ca.key ──▶ issue NAME ──▶ NAME.crt, NAME.key ──▶ read_pair ──▶ a TLS server or client
                                                                                                       │ handshake
                                              CertificateIdentity(kind, name) ◀── identity_of ◀── the peer's certificate

What it promises:

- **Only a URI makes a server.** `identity_of` finds a server only in a URI `duramen:server:NAME`, which `duramen cert
  issue --server` puts there, or a company's CA on purpose. Every other certificate is a user's, or nobody's. TLS itself
  refuses a user's certificate as that of a server (extended key usage).
- **A reader never sees half a change.** A certificate and its key are two files. `read_pair` returns two that match, at
  every time of a change and after one that was interrupted; so a server may read them again whenever it likes.
- **A key is its owner's.** Folders are 0700 and keys 0600 from their first byte on.
- **A CA changes without a gap.** First both CAs are trusted, then everything is reissued, then the old CA goes. Each
  step is a command of its own, because in between people bring the files to other machines.
- **Nothing is overwritten by accident.** `init` and `issue` refuse names that exist; only `rotate` replaces.

Invariants:

- Of a bundle `ca.crt` the first CA is the one of `ca.key`; it signs. The others are only trusted.
- Both parts of a change are on stable storage before the first rename, and the key is renamed first. So either
  `NAME.crt` belongs to `NAME.key`, or `NAME.crt.part` does.
- A certificate ends with its CA at the latest.
- The CA signs no other CA (path length 0).

What it deliberately does not do: revoke (a user is removed from the catalog; a stolen server key needs a new CA), send
files to other machines, keep keys in hardware, or speak ACME. A company that has those uses its own CA, and gives
servers the URI. It neither opens a connection nor decides who may do what.

`cryptography` is imported by the modules that need it. `names.py` and `lifetimes.py`, which a command line needs at its
start, do not, and `channel_files.py` does with a certificate of the client's own.

Reading order: `names.py` and `lifetimes.py` (what is allowed), `pem.py`, `identity.py`, `pair.py` (two files as one),
`signing.py` (no files), `facts.py`, `folder_lock.py`, `folder.py` (the changes), `inspection.py` (what is wrong),
`channel_files.py` (what a client reads).
"""
