/// The place of the workspaces that a command of `elevo ws` works on. The
/// arguments of the command determine it once.
#[derive(Debug)]
pub(super) enum Side<L, S> {
    /// The workspaces of a store on this machine.
    Store(L),
    /// The workspaces of projects and sandboxes, on a server.
    Server(S),
}
