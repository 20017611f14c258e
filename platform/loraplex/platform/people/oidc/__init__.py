"""Signing in through an identity provider: OpenID Connect's code flow, PKCE, state, nonce."""
