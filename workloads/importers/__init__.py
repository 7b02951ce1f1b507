"""Models of other frameworks as workloads: ONNX files and exported PyTorch programs."""
