"""Web pages: a session for whoever has its signed link, and a list of turns for operators."""
