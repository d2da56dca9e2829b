"""Red branches: what their history proves of who broke them, whom they hit, and when it is over."""
