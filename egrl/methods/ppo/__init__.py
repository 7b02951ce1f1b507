"""PPO: a GraphSAGE policy that refines whole mappings pass by pass; knows stages of pipelines, but no chip."""
