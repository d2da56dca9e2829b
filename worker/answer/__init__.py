"""The model's answer: parsed, proven, gated, repaired, and the text of a note."""
