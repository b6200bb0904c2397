//! The columns of the log of landings.

macro_rules! columns {
    () => {
        "project, sequence, snapshot, parent, kind, agent, workspace, api_key, message, request, \
         counts, created"
    };
}
pub(super) use columns;
