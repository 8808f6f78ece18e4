//! Prompt chunks and decode steps on a session, with the key/value cache in slots.
