"""Status streams of a real cluster, recorded once and replayed as those of a much larger one.

    python -m kit.statuses.record   four nodes under load, one of which is killed ──▶ recorded.bin.gz
    recording.py                    the file: which node said what, and when
    large_cluster.py                twenty nodes that say it again, behind gRPC, for a real router

The messages are what nodes have sent: which replicas changed at a time, how their offsets and lags move, what a node
says that was killed and is back. What the replay changes are names, offsets and how many there are.
"""
