"""What goes back to the TPU compiler: its placer is told which buffers come first and which last."""
