"""TensorFlow Lite Micro: a plan of the arena, within the model's own file."""
