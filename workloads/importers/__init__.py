"""Models of other frameworks as workloads: ONNX files and exported PyTorch programs; knows no chip and no cost."""
