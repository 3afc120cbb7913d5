"""What can be known of a message before it is parsed: how many fields it has (`message_fields.py`), and whether
it comes at all (`arriving_calls.py`); and how many streams answer at once (`stream_bound.py`), each of which
`bounded_streams.py` counts before its request is looked at. A call may also be refused before its message is read
(`early_refusals.py`), or while it is served (`held_calls.py`). Who bounds what messages take looks at the process's
memory (`process_memory.py`). What wants to know which calls took long is a `slow_call_sink.py`; `timed_streams.py`
measures the messages of a stream for it.

Parsing takes time and memory by the number of fields, not by the bytes, so that number has a limit of its own.
"""
