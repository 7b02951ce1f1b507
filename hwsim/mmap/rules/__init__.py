"""The rules of the MMapGame as kernels over the state of a batch of games; knows no player and no observation."""
