//! Clones of a whole tree, and the first write into one.

use anyhow::{Result, ensure};
use bytes::Bytes;
use elevo_core::TreePath;
use elevo_engine::StateTree;
use futures::executor::block_on;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::fixture::{Bench, Tree, dice, edited, tree_path};
use super::short;
use crate::data::{Dataset, noise};
use crate::measure::{Samples, interleave, timed};
use crate::report::{Bar, Row, Unit};

const ROUNDS: usize = 3_000;
/// Clones that are timed together, since one takes hardly longer than reading the clock.
const CLONES: usize = 100;
/// Files that are written to; each of them was read before.
const FILES: usize = 500;

pub(super) fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let [few, many] = [bench.sizes.small, bench.sizes.large];
    let mut small = Clones::of(&*bench.tree(few)?)?;
    let mut large = Clones::of(&*bench.tree(many)?)?;
    let clones = [small.tree.clone(), large.tree.clone()];
    let [a, b, c, d] = interleave(
        ROUNDS,
        [
            Box::new(|| Ok(time_to_clone(&clones[0]))),
            Box::new(|| Ok(time_to_clone(&clones[1]))),
            Box::new(|| small.time_to_write()),
            Box::new(|| large.time_to_write()),
        ],
    )?;
    let row = |what: &str, files, samples: &Samples, limit| Row {
        name: format!("{what} of {} files", short(files)),
        unit: Unit::Microseconds,
        ours: samples.figure(),
        peer: None,
        bar: Some(Bar::AtMost(limit)),
    };
    Ok(vec![
        row("clone", few, &a, 1.0),
        row("clone", many, &b, 1.0),
        row("write of 4 KiB into a clone", few, &c, 20.0),
        row("write of 4 KiB into a clone", many, &d, 20.0),
    ])
}

fn time_to_clone(tree: &StateTree) -> f64 {
    let mut clones = Vec::with_capacity(CLONES);
    let timed = timed(|| {
        clones.extend(std::iter::repeat_with(|| tree.clone()).take(CLONES));
        Ok(())
    });
    timed.map_or(f64::NAN, |(seconds, ())| seconds / CLONES as f64)
}

struct Clones {
    tree: StateTree,
    paths: Vec<TreePath>,
    dice: Xoshiro256PlusPlus,
}

impl Clones {
    fn of(tree: &Tree) -> Result<Self> {
        let mut dice = dice("clone");
        let layout = tree.layout;
        let mut pick = || tree_path(&layout.path(dice.random_range(0..layout.files())));
        let paths = (0..FILES).map(|_| pick()).collect::<Result<Vec<_>>>()?;
        let tree = block_on(StateTree::open(&tree.repository(), tree.snapshot))?;
        for path in &paths {
            ensure!(block_on(tree.stat(path))?.is_some(), "{path} is missing");
        }
        Ok(Self { tree, paths, dice })
    }

    /// Times a write to a file of a clone that has no other changes.
    fn time_to_write(&mut self) -> Result<f64> {
        let path = &self.paths[self.dice.random_range(0..FILES)];
        let data = Bytes::from(noise(4096, "clone", self.dice.random()));
        let clone = self.tree.clone();
        let (seconds, ()) = timed(|| Ok(block_on(clone.write(path, data, edited()))?))?;
        Ok(seconds)
    }
}
