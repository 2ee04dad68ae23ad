//! Policies and what they say.
