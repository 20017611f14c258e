"""Postgres URLs in the two forms that libraries want."""

from sqlalchemy.engine import URL, make_url


def sqlalchemy_url(url: str) -> URL:
    """Any Postgres URL as SQLAlchemy with psycopg 3 reads it."""
    return make_url(url).set(drivername="postgresql+psycopg")


def libpq_url(url: str) -> str:
    """Any Postgres URL as psycopg itself reads it; holds the password in clear."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
