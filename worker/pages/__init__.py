"""Pages for people: one session for whoever has its signed link, the list for operators."""
