"""The control plane: tenants, keys, admission, pools and the embedded services."""
