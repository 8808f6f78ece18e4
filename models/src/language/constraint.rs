//! Which tokens may come next, where the answer must follow a JSON schema.
