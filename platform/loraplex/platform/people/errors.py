"""Refusals of people. None of them carries a password, a token or a hash."""

from loraplex.engine.protocol.errors import DomainError, FixedRefusal, Kind

SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 1024


class InvalidLogin(FixedRefusal):
    """The e-mail or the password is wrong, or the account disabled; which of these is not told."""

    kind, code, field = Kind.UNAUTHENTICATED, "invalid_login", "password"
    message = "The e-mail address or the password is wrong."


class TooManyLogins(DomainError):
    """Too many wrong passwords for one account; it may be tried again after a while."""

    kind, code = Kind.LIMITED, "too_many_logins"

    def __init__(self, limit: int, retry_after_seconds: int) -> None:
        super().__init__(
            f"Too many wrong passwords for this account: try again in {retry_after_seconds} s.",
            rule=f"at most {limit} wrong passwords in a quarter of an hour",
            retry_after_seconds=retry_after_seconds,
        )


class LoginsBusy(FixedRefusal):
    """More passwords wait to be checked than this gateway takes at once."""

    kind, code = Kind.OVERLOADED, "logins_busy"
    retry_after_seconds = 2
    message = "Too many people sign in right now. Try again."


class NoPlace(FixedRefusal):
    """The person is who they say, and is neither a member of a tenant nor an operator."""

    kind, code = Kind.FORBIDDEN, "no_membership"
    rule = "a membership"
    message = "You are not a member of any tenant. Ask its owner for an invitation."


class NotYourPlace(DomainError):
    """The person is no member of that tenant, or no operator."""

    kind, code, field = Kind.NOT_FOUND, "no_such_place", "tenant"

    def __init__(self, tenant: str | None) -> None:
        where = "no operator" if tenant is None else f"not a member of a tenant {tenant!r}"
        super().__init__(f"You are {where}.", value=tenant)


class SessionNotFound(DomainError):
    """The person has no such session."""

    kind, code, field = Kind.NOT_FOUND, "session_not_found", "session_id"

    def __init__(self, session_id: object) -> None:
        super().__init__(f"You have no session {session_id}.", value=str(session_id))


class NotAPerson(FixedRefusal):
    """What was asked is for people who signed in as themselves; the credential is a key."""

    kind, code = Kind.FORBIDDEN, "not_a_person"
    field, rule = "Authorization", "a person's session"
    message = "This is for people who signed in as themselves, not for keys."


class WeakPassword(DomainError):
    """The new password is one that would be guessed, or too long to be meant."""

    kind, code = Kind.INVALID, "weak_password"

    def __init__(self, rule: str, field: str = "password") -> None:
        super().__init__(f"The password should have {rule}.", field=field, rule=rule)


class InvalidEmail(DomainError):
    """The text is no e-mail address."""

    kind, code = Kind.INVALID, "invalid_email"
    field, rule = "email", "an e-mail address"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class InvitationNotFound(FixedRefusal):
    """The link is unknown, used, withdrawn or too old; which of these is not told."""

    kind, code, field = Kind.NOT_FOUND, "invitation_not_found", "token"
    message = "This link works no more: it was used, withdrawn, or is too old. Ask for a new one."


class PasswordWanted(FixedRefusal):
    """The invitation is a new person's, or to a new password, and none came with it."""

    kind, code = Kind.INVALID, "password_required"
    field, rule = "password", "required"
    message = "Choose a password."


class NotTheInvited(FixedRefusal):
    """The invited person has an account, and the caller did not prove to be them."""

    kind, code = Kind.FORBIDDEN, "not_the_invited"
    field, rule = "password", "the account's password, or a session of it"
    message = "This e-mail address has an account: sign in with it first, or give its password."


class MemberNotFound(DomainError):
    """The tenant has no such member."""

    kind, code, field = Kind.NOT_FOUND, "member_not_found", "member"

    def __init__(self, member_id: object) -> None:
        super().__init__(f"There is no member {member_id}.", value=str(member_id))


class NoSuchInvitation(DomainError):
    """The tenant has no such open invitation."""

    kind, code, field = Kind.NOT_FOUND, "no_such_invitation", "invitation"

    def __init__(self, invitation_id: object) -> None:
        message = f"There is no open invitation with id {invitation_id}."
        super().__init__(message, value=str(invitation_id))


class LastOwner(FixedRefusal):
    """The change would leave the tenant without an owner."""

    kind, code = Kind.CONFLICT, "last_owner"
    field, rule = "role", "at least one owner"
    message = "This is the tenant's last owner: make somebody else an owner first."


class MoreThanYours(DomainError):
    """The caller would give, or take, a role that may do more than the caller."""

    kind, code = Kind.FORBIDDEN, "beyond_your_role"
    field, rule = "role", "a role within your own"

    def __init__(self, role: str) -> None:
        super().__init__(
            f"The role {role!r} may do more than you may: only somebody who has it can give or "
            "take it.",
            value=role,
        )


class AlreadyMember(DomainError):
    """The invited person is a member already."""

    kind, code, field = Kind.CONFLICT, "already_member", "email"

    def __init__(self, email: str) -> None:
        super().__init__(f"{email} is a member already.", value=email)


class PersonNotFound(DomainError):
    """Nobody has this id or e-mail address."""

    kind, code, field = Kind.NOT_FOUND, "person_not_found", "person"

    def __init__(self, who: object) -> None:
        super().__init__(f"There is no person {str(who)!r}.", value=str(who))


class LastAdmin(FixedRefusal):
    """The change would leave the platform without a person who administers it."""

    kind, code = Kind.CONFLICT, "last_admin"
    field, rule = "operator_role", "at least one admin"
    message = "This is the platform's last admin: make somebody else one first."
