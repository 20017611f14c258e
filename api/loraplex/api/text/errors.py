"""What can be wrong with a conversation or with a base model's text files."""

from loraplex.engine.protocol.errors import DomainError, Kind


class ConversationRefused(DomainError):
    """The base model's chat template cannot take these messages."""

    kind, code = Kind.INVALID, "conversation_refused"


class NoChatTemplate(DomainError):
    """The base model has no chat template: it completes text and holds no conversations."""

    kind, code = Kind.INVALID, "no_chat_template"
