"""The life of a tenant after it was made: renamed, suspended, exported, deleted."""
