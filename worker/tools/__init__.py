"""The tools that the model may call; the toolbox runs them and never raises."""
