"""gRPC plumbing that every tier shares: channels, calls, errors on the wire, streams that end with a reason.

One table (`status_codes.py`) maps our errors to gRPC's codes and nothing else knows those codes. An error crosses the
wire as a message with its class, its text and its values (`problems.py`), so a caller gets the same exception as an
embedded caller. `wire.py` is one channel to one server: deadlines, retries of the transport, and what a failed call
means.

What this package does not do: it knows no service of ours. Each tier keeps its services and their messages itself.

Reading order: `address.py`, `channel.py`, `security.py`, `credentials.py`, `status_codes.py`, `problems.py`, `wire.py`,
`open_calls.py`, `renewed_channel.py`, `transport.py`, `stream_budget.py`, `open_streams.py`, `messages/`, `checked.py`,
`core.py`, `time_left.py`.
"""
