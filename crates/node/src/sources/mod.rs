//! What pods refer to: config maps, secrets, tokens, claims, services.
