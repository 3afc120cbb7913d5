"""What Python runs at its start in the processes whose disk calls fail."""

from kit.disk_calls.call_faults import DiskCalls
from kit.disk_calls.failing_calls import install

_calls = DiskCalls.of_environment()
if _calls is not None:
    install(_calls)
