"""Clients that log in with a password, one after the other, in a process of their own: their work is not the callers'.

`python -m bench.drivers.logins HOST PORT USER CA`, with the password as a line of standard input. It ends when its
standard input does, and prints how many logins were done.

Each is a connection of the Redis protocol with a TLS handshake and one AUTH, which costs the server one argon2id.
Clients of gRPC would not do: the server remembers a header that it has checked, so only the first of equal logins costs
a hash, and a client in Python takes more of a processor for each login than the server does.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading


def _main() -> None:
    host, port, user, ca = sys.argv[1:]
    password = sys.stdin.readline().strip()
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    context = ssl.create_default_context(cafile=ca)
    done = 0
    while not ended.is_set():
        with (
            socket.create_connection((host, int(port))) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            secured.sendall(f"AUTH {user} {password}\r\n".encode())
            answer = secured.recv(100)
            assert answer == b"+OK\r\n", f"the login was answered with {answer!r}"
        done += 1
    sys.stdout.write(f"{done}\n")


if __name__ == "__main__":
    _main()
