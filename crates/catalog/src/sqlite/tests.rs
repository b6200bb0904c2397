//! What holds for SQLite alone.
