"""The code inside the image. `sandbox.build` builds the image; this runs in containers only."""
