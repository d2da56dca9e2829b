"""What each kind of trigger asks for."""
