//! The processes whose stores the clients use: one, or those of a cluster.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use elevo_engine::Repository;

use super::cluster::Node;
use super::executor::Sim;

/// A process with a store.
#[derive(Clone)]
pub struct Process {
    /// Repositories over its store, with and without puts ahead of commits.
    pub repositories: [Repository; 2],
    /// Its part in a cluster.
    pub node: Option<Arc<Node>>,
}

impl Process {
    /// Whether other processes have declared this one lost, so that its holds
    /// protect nothing.
    pub fn is_lost(&self) -> bool {
        let node = self.node.as_ref();
        node.is_some_and(|node| node.is_declared_lost())
    }
}

/// The running processes.
#[derive(Clone)]
pub struct Processes(Rc<RefCell<Vec<Process>>>);

impl Processes {
    pub fn new(all: Vec<Process>) -> Self {
        Self(Rc::new(RefCell::new(all)))
    }

    /// Returns a process, and one of its repositories.
    pub fn pick(&self, sim: &Sim) -> (Process, Repository) {
        let all = self.0.borrow();
        let at = sim.below(2 * all.len());
        let process = all[at / 2].clone();
        let repository = process.repositories[at % 2].clone();
        (process, repository)
    }

    /// Replaces a process that was lost.
    pub fn replace(&self, at: usize, process: Process) {
        self.0.borrow_mut()[at] = process;
    }
}
