"""Alembic's entry: runs on the connection that `loraplex.platform.database.migrate` has locked."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transaction_per_migration=True)
with context.begin_transaction():
    context.run_migrations()
