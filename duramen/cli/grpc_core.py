"""What gRPC's C core does in a process of the command `duramen`: it reads that from the environment at its import.

It has two listeners. The newer one, its default, hands each call that arrives from thread to thread: the threads of a
server wait three times more for a lone get, which takes a fifth more of its processor time than with the older one
(decision 48).
"""

from __future__ import annotations

import os

__all__ = ["set_up_grpc_core"]


def set_up_grpc_core() -> None:
    """Have gRPC's core write no lines, and listen with few threads. To be called before gRPC is imported.

    What an operator has set stays. A process that this one starts inherits it. A core that does not know the listener
    any more uses the one that it has.
    """
    # Its lines go to the standard error; what they say is in our errors.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_listener")
