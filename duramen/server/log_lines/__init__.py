"""What a server's process logs on its standard error: plain lines for people, or JSON for programs.

`json_lines.py` is the formatter of JSON. It is pure: one log record in, one line out.

`uncaught.py` logs what Python itself would write there: exceptions that nobody caught, and warnings.

`setup.py` gives a process its level and its format, and names them for a child that shall log alike.

Invariants of a JSON line:

- It is one line whatever a message, a key, or a traceback holds, and it is JSON: NaN becomes a string, and what is
  neither text nor a number is shown as it shows itself.
- `time`, `level`, `logger`, `message` and `process` are always there, and nothing that a caller names replaces them.
- What the message shows of a place is there as fields too: `table`, `partition`, `offset`, of the record's `extra`
  first, then of the arguments of its message, then of the fields of an error among them, whose code is `error`.
- A record that cannot be formatted is a line that says so. It never ends what was logging.

Plain lines are the default: who reads a terminal wants no braces.
"""
