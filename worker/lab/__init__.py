"""Cases, evaluation, replay; the simulators and the case of the demo."""
