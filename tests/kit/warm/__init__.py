"""Commands that begin where Python has started and has imported: a fork of a warm process in place of a cold start.

A thousand processes of the tests are `python -m duramen …`. Each takes most of a second of a processor until it has
imported what it needs, which is the same every time, and seldom what the test is about.

What it promises:

- A forked process is a child of the test's process, with the arguments, the environment, the folder, the files, the
  limits and the umask that it was given: `Popen` waits for it, signals it and reads from it as ever.
- What the fork would change is started cold: another interpreter or options of it, variables that Python, gRPC or the
  C library read once, at their start.

What it does not do: show that a fresh start imports what it needs. Tests of starts, of plain installs and of what
pages say take `subprocess`, or the command in a shell.

Reading order: `forks.py` (the process that forks; it is run as a file), `warm_process.py` (`Popen` that asks it).
"""
