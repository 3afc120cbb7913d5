"""The catalog of a server over gRPC, for processes without a log of their own.

One question is enough for a command and for a client that connects; who routes follows the map. The question is apart
from the map: the client of one server asks what the server is, has no use for the map, and imports none of its classes.

Reading order: `cluster_question.py` (the server's reply as it came), `cluster_view.py` (with the map read),
`remote_maps.py` (each newer map).
"""
