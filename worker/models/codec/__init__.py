"""What every codec uses."""
