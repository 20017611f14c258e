"""E-mail addresses as they are compared: checked, and lower case."""

from email_validator import EmailNotValidError, validate_email

from loraplex.platform.people.errors import InvalidEmail

LONGEST_EMAIL = 254


def normal_email(text: str) -> str:
    """How an account is looked up, whatever was typed."""
    return text.strip().lower()[: LONGEST_EMAIL + 1]


def check_email(text: str) -> str:
    """The address in lower case; raises InvalidEmail. Nothing is asked of the network."""
    try:
        checked = validate_email(
            text.strip(), check_deliverability=False, globally_deliverable=False, strict=True
        )
    except EmailNotValidError as error:
        raise InvalidEmail(str(error)) from None
    return checked.normalized.lower()
