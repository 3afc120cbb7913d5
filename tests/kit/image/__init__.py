"""The image without a container engine: what its Dockerfile says, and containers of what that makes.

Reading order: `dockerfile`, `container`.
"""
