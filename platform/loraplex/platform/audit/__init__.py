"""Who changed what, when and from where: written with the change, and by nobody changed."""
