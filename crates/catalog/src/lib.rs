//! What the service knows, apart from files.
