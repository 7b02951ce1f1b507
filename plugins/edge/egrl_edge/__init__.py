"""Memory plans for small devices: tensors in banks (`banks`), ExecuTorch, and TensorFlow Lite Micro."""
