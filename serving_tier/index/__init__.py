"""The index: what a replica keeps of one partition, behind one protocol with two implementations.

`index.py` is the contract, and one test suite runs against both: LMDB (`lmdb/`), which serves, and memory
(`memory_index.py`), the model that tests compare with. Data and applied offset commit in one transaction. The index is
a cache of the log (I10): deleting it costs time and nothing else.

Reading order: `index.py`, `scan.py`, `past_pages.py`, `memory_past.py`, `memory_index.py`, `pins.py` (how many
transactions use an index now), `number_keys.py` (numbers as keys), `past/` (of tables that keep a history), `lmdb/`,
`divergence.py` (does the index share the log's history?).
"""
