//! The types of the REST API as they go over the wire.
