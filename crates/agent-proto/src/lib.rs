//! The contract between the server and the agent in a sandbox.
