"""`duramen cert init | issue | rotate | show`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from duramen.certificates.lifetimes import AUTHORITY_DAYS, AUTHORITY_NAME, LEAF_DAYS
from duramen.cli.terminal.options import Json
from log_tier.model.errors import InvalidRequest

__all__ = ["app"]

app = typer.Typer(
    help="Make a CA, and certificates for servers and users; look at them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_FOLDER_DEFAULT: Final = Path("certs")

_Folder = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder of certificates.")]


@app.command()
def init(
    folder: _Folder = _FOLDER_DEFAULT,
    name: Annotated[str, typer.Option("--name", help="The CA's common name.")] = AUTHORITY_NAME,
    days: Annotated[int, typer.Option("--days", metavar="N", help="How long it is valid.")] = AUTHORITY_DAYS,
    json: Json = False,
) -> None:
    """Make a CA: `ca.crt`, which everybody gets who verifies certificates, and `ca.key`, which signs.

    The key is an ECDSA key on P-256 in a file that only you can read, in a folder that only you can open. Keep it where
    you issue certificates, and on no server: who has it can be any server and any user.

    \b
      duramen cert init
      duramen cert init --dir /etc/duramen/certs --name "Example CA"
    """
    from duramen.certificates.folder import CertificateFolder
    from duramen.cli.certs.rendering import say_made

    say_made(CertificateFolder(folder).make_authority(name, days=days), json)


@app.command()
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The server's or the user's name.")],
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="HOST,…",
            help="A server's certificate, for these DNS names and IP addresses. Without it: a user's.",
        ),
    ] = None,
    folder: _Folder = _FOLDER_DEFAULT,
    days: Annotated[int, typer.Option("--days", metavar="N", help="How long it is valid.")] = LEAF_DAYS,
    json: Json = False,
) -> None:
    """Issue a certificate for a server or a user: `NAME.crt` and, only for you to read, `NAME.key`.

    A server's certificate is for servers and for clients, since servers call each other. A user's is for clients only.
    It ends with its CA at the latest. Bring the two files and `ca.crt` to where they are used.

    \b
      duramen cert issue n1 --server n1.example.org,10.0.0.5
      duramen cert issue alice
    """
    from duramen.certificates.folder import CertificateFolder
    from duramen.certificates.identity import CertificateIdentity
    from duramen.certificates.names import parse_hosts
    from duramen.cli.certs.rendering import say_made

    identity = CertificateIdentity("user" if server is None else "server", name)
    hosts = () if server is None else parse_hosts(server)
    say_made(CertificateFolder(folder).issue(identity, hosts, days=days), json)


@app.command()
def rotate(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The certificate to reissue. Without it: all.")
    ] = None,
    ca: Annotated[bool, typer.Option("--ca", help="Make a new CA; the old one stays trusted.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="End the change of the CA: trust only the new one.")] = False,
    folder: _Folder = _FOLDER_DEFAULT,
    days: Annotated[
        int | None,
        typer.Option("--days", metavar="N", help="How long the new ones are valid. Default: as the old ones."),
    ] = None,
    json: Json = False,
) -> None:
    """Reissue certificates with the same names and uses and new keys, or change the CA.

    Who reads `NAME.crt` and `NAME.key` while they are replaced finds the old two or the new two.

    A CA is changed in three steps, and after each one the files go to the machines that use them:

    1. --ca: a new CA signs from now on. `ca.crt` holds both, so both are trusted where it is read.

    2. no option: the new CA reissues all certificates.

    3. --ca --finish: `ca.crt` holds the new CA alone. Refused while the old one's certificates are in the folder.

    \b
      duramen cert rotate alice
      duramen cert rotate
      duramen cert rotate --ca
      duramen cert rotate --ca --finish
    """
    from duramen.certificates.folder import CertificateFolder
    from duramen.cli.certs.rendering import say_finished, say_made, say_rotation, say_step

    if name is not None and (ca or finish):
        raise InvalidRequest(f"--ca and --finish are about the CA: leave out {name}")
    if finish and days is not None:
        raise InvalidRequest("--finish makes no certificate: leave out --days")
    certificates = CertificateFolder(folder)
    if finish:
        say_finished(certificates.finish_authority(), json)
    elif ca:
        say_made(certificates.rotate_authority(days=days), json)
        say_step(folder, json)
    else:
        say_rotation(certificates.rotate(name, days=days), folder, json)


@app.command()
def show(folder: _Folder = _FOLDER_DEFAULT, json: Json = False) -> int:
    """Show the certificates of a folder: names, issuer, times, fingerprint, and what is wrong with each.

    Problems are: expired, not yet valid, not signed by the folder's CA, a key that is missing, is another one's or can
    be read by others, a file that is no certificate. The exit code is 1 if there is one. Warnings are what has to be
    done soon: a certificate that ends within 30 days, an old CA.

    \b
      duramen cert show
      duramen cert show --dir /etc/duramen/certs --json
    """
    from duramen.certificates.inspection import inspect_folder
    from duramen.cli.certs.rendering import say_statuses

    return say_statuses(inspect_folder(folder), json)
