"""Fuzzing: changed samples at every parser, reproducible by a number.

```
python -m tests.fuzz --list                            # the targets
python -m tests.fuzz --parsers                         # each parser of the product, and the target that enters it
python -m tests.fuzz --bytes 50000000 --jobs 2         # as many bytes at each; exit 1 where one does not hold
python -m tests.fuzz --target "token, sealed" --first 4711 --inputs 1   # one input again
```

**What is promised.** Whatever bytes come, a parser returns, or refuses them by one of its typed errors. It takes less
than 100 ms of processor time for an input, and its process stays below a bound of memory. Where a format has a second
rule, the target asserts it as well: a batch that a log accepts is decoded and folded by every replica, a file of pages
that was checked is opened by LMDB, requests are the same commands however their bytes are cut.

**How an input is made.** Input N of a target is a sample of that format, changed by a generator whose seed is (target,
seed, N). It is the same on every machine, so a finding is a number. Most changes of a file with a checksum end at the
checksum. Targets whose name ends in "sealed" make the checksum right again, and so reach what is behind it. Inputs from
number 1,000,000 on have grown to 1 to 60 KiB: a sample again and again, one element thousands of times, a long word,
lists, nesting, lengths within lengths, and a length before what grew that covers it. A run reads small ones first,
twice as many as `make test`, and then long ones up to its number of bytes: so 50 MB are some 7,000 inputs.

**What it does not do.** The inputs are not led by coverage. Parsers of libraries (protobuf, hiredis, LMDB) are only
reached through ours.

Reading order: `target.py`, `changes.py`, `growth.py`, `fields.py`, `sealing.py`, `document_targets.py`,
`log_targets.py`, `index_targets.py`, `store_targets.py`, `replica_targets.py`, `wire_targets.py`, `http_targets.py`,
`message_targets.py`, `call_targets.py`, `certificate_targets.py`, `access_targets.py`, `text_targets.py`,
`row_targets.py`, `table_targets.py`, `client_targets.py`, `loading_targets.py`, `endpoint_targets.py` (a whole database
below the wire), `targets.py`, `made.py`, `run.py`, `parsers.py` (that no parser is forgotten), `unfuzzed.py`,
`__main__.py`.
"""
