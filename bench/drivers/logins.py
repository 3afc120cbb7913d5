"""Clients that log in with a password, one after the other, in a process of their own: their work is not the callers'.

`python -m bench.drivers.logins ADDRESS USER CA`, with the password as a line of standard input. It ends when its
standard input does, and prints how many logins were done.
"""

from __future__ import annotations

import sys
import threading

import duramen
from bench.drivers.duramen import TABLE


def _main() -> None:
    address, user, ca = sys.argv[1:]
    password = sys.stdin.readline().strip()
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    done = 0
    while not ended.is_set():
        with duramen.connect(address, user=user, password=password, ca=ca) as database:
            database.table(TABLE).get(b"absent")
        done += 1
    sys.stdout.write(f"{done}\n")


if __name__ == "__main__":
    _main()
