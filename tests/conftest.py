"""What all tests need before anything is imported."""

from __future__ import annotations

import os

# Tests start processes while gRPC runs in this one. Its handlers around fork can leave a child waiting for a thread
# that it does not have; our children run another program at once and need nothing of it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
