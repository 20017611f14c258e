"""Kill switches: what operators turn off for everybody at once, kept in the database."""
