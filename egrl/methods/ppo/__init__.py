"""PPO: a GraphSAGE policy that refines whole mappings pass by pass."""
