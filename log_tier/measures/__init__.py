"""What parts of a server measure of their own work: a histogram each, in plain numbers.

    a part that works ──▶ Histogram.observe ──▶ HistogramCounts ──▶ what shows them
                          (0.3 µs, no lock)     (a value)

A part has its histograms as fields and knows nothing of who reads them; the names that operators see are made where
they are shown (`duramen.server.sight.metrics`). What took so long that a caller may have felt it is kept by itself, as
`LongWork`, where somebody wants to know (`log_tier.slow_calls`).

- M1 A count never falls.
- M2 What is read is consistent in itself: the last of the cumulative counts is the number of values.
- M3 Long works are bounded in number, and nothing is made of a work that is not long.

What is not here: gauges (they are looked at when somebody asks), and anything per key or per connection.

Reading order: `histogram.py`, `call_times.py`, `work_counts.py`, `long_work.py`, `sync_times.py`.
"""
