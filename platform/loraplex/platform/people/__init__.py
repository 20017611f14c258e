"""People: who they are, where they are members, and their signed-in browsers."""
