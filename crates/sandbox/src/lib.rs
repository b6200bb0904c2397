//! Containers that commands of agents run in.
