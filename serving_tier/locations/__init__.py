"""Locations that somebody else names: which folders and buckets a server opens for a caller.

A location is the place of a version: a folder, or a bucket in an object store. A caller of the admin service names it,
and servers open it with their own rights. Without a limit, a caller reads files of the server through it, and reaches
addresses of the network that the caller cannot reach (server-side request forgery).

**What it promises**

- A server opens a location only if its configuration (`allowed_locations`) or its default allows that. Else it raises
  `LocationRefused`, before it opens a file, looks up a name or connects.
- One text has one meaning. A text that two programs could read in two ways is refused: `..`, encoded slashes and dots,
  schemes in capitals, hosts in `file://`, user names, numbers that are short forms of addresses.
- A location that is allowed as a folder is compared after its symbolic links have been followed, and each of its files
  once more when it is opened.
- An endpoint at an address of the local network, by number or by name, must be named by the configuration.

**The default.** The callers of a server that listens on loopback alone are on its machine: it opens all local folders,
and object stores that are no part of the local network. All other servers open their own snapshot store and what
`allowed_locations` names.

**How a location passes.** `parse_location` makes a `Folder` or a `Bucket` of the text. `AllowedLocations.check` decides
by names alone; the planner of a change and the node both ask it. `open_version` adds what needs the machine: symbolic
links and the addresses of a name. The node's check is the one that counts: the catalog's log may hold commands that
another server, or an older one, has let pass.

**What it does not do.** It does not protect against somebody who can write into an allowed folder while files in it are
opened, nor against a name server that changes its answer between the check and the connection. It does not limit what
Spark opens, which runs with its user's rights, nor what operators write into a configuration.

Reading order: `location.py`, `addresses.py`, `endpoint.py`, `allowed.py` (pure); `confined_files.py`, `opening.py`.
"""
