"""Pages of the documentation as programs: `markdown.py` finds their code blocks, `terminal.py` runs them."""
