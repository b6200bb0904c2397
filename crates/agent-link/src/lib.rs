//! The server's end of the connections with agents.
