"""What other users of the machine, and readers of logs, must not see.

`private_files.py` makes folders of mode 0700 and files of mode 0600, whatever the umask, and closes data folders that
are open to others.

`secret_files.py` reads and writes files that hold a token or a password, and refuses those that others can read.

`machine_socket.py` has sockets for clients on the same machine, who see whose process listens.

`masked_url.py` shows URLs without their secrets. It is pure.

It does not change the modes of files inside a folder that it closes: nobody else can reach them. It keeps out neither
root nor this user.
"""
