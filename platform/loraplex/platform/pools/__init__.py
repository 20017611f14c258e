"""Workers: who they are, whether they live, how to talk to them."""
