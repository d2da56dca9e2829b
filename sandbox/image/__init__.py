"""What goes into the image: built by `sandbox.build`, run inside the container only."""
