"""The door: headers and body in, a Trigger on the queue or a stated reason out."""
