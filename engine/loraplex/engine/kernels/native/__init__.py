"""The ops in C++, compiled on the machine they run on; where no compiler is, `cpu` takes over."""
