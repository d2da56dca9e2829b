"""The jobs that triggers ask for, one module for each kind of trigger."""
