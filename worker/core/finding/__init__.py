"""The model's final answer as a value, and the proof of what it quotes."""
