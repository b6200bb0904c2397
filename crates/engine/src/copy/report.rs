//! The result of a copy.

use elevo_objects::{ObjectKey, SnapshotId};

use super::Copy;
use crate::verify::{Damage, DamageKind};

/// Result of a copy, or of its check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Snapshots of the source.
    pub snapshots: u64,
    /// Snapshots that were sent. The target had the others, or they failed.
    pub snapshots_sent: u64,
    /// Objects that were read and hashed.
    pub objects_read: u64,
    /// Total bytes of those objects.
    pub bytes_read: u64,
    /// Objects that were sent.
    pub objects_sent: u64,
    /// Total bytes of those objects.
    pub bytes_sent: u64,
    /// Refs of the source.
    pub references: u64,
    /// Refs that were set.
    pub references_sent: u64,
    /// Damaged or missing objects and snapshots, up to a limit: those of the
    /// source for a copy, those of the target for a check. Paths are not
    /// listed; [`verify`](crate::verify()) finds them.
    pub damage: Vec<Damage>,
    /// Number of damaged objects beyond the limit; an object that many trees
    /// need may be counted more than once.
    pub more_damage: u64,
    /// Snapshots that were not copied, up to a limit, because they are damaged
    /// or need a damaged object. For a check, those that the target does not
    /// have whole.
    pub failed_snapshots: Vec<SnapshotId>,
    /// Number of such snapshots beyond the limit.
    pub more_failed_snapshots: u64,
    /// Refs that were not set, up to a limit, because the target does not have
    /// the snapshot. For a check, those with another value in the target.
    pub failed_references: Vec<String>,
    /// Number of such refs beyond the limit.
    pub more_failed_references: u64,
    /// Refs that only the target has, up to a limit. A copy leaves them as they
    /// are.
    pub extra_references: Vec<String>,
    /// Number of such refs beyond the limit.
    pub more_extra_references: u64,
    /// Parts of the source's lists that cannot be read.
    pub gaps: u64,
}

impl Copied {
    /// Whether the target has everything that the source has.
    pub const fn is_whole(&self) -> bool {
        self.damage.is_empty()
            && self.more_damage == 0
            && self.failed_snapshots.is_empty()
            && self.more_failed_snapshots == 0
            && self.failed_references.is_empty()
            && self.more_failed_references == 0
            && self.gaps == 0
    }

    /// Whether the target already had everything that could be copied.
    pub const fn has_sent_nothing(&self) -> bool {
        self.snapshots_sent == 0 && self.objects_sent == 0 && self.references_sent == 0
    }
}

impl Copy<'_> {
    pub(super) fn report(self) -> Copied {
        let damage = self.damage.into_iter().map(|(key, kind)| Damage {
            key,
            kind,
            needed: true,
            paths: Vec::new(),
        });
        Copied {
            damage: damage.collect(),
            ..self.report
        }
    }

    pub(super) fn damaged(&mut self, key: ObjectKey, kind: DamageKind) {
        if self.damage.len() < self.listed || self.damage.contains_key(&key) {
            self.damage.insert(key, kind);
        } else {
            self.report.more_damage += 1;
        }
    }

    pub(super) fn failed(&mut self, id: SnapshotId) {
        let report = &mut self.report;
        let (list, more) = (
            &mut report.failed_snapshots,
            &mut report.more_failed_snapshots,
        );
        add(list, more, self.listed, id);
    }

    pub(super) fn failed_reference(&mut self, name: String) {
        let report = &mut self.report;
        let (list, more) = (
            &mut report.failed_references,
            &mut report.more_failed_references,
        );
        add(list, more, self.listed, name);
    }

    pub(super) fn extra_reference(&mut self, name: String) {
        let report = &mut self.report;
        let (list, more) = (
            &mut report.extra_references,
            &mut report.more_extra_references,
        );
        add(list, more, self.listed, name);
    }
}

fn add<T>(list: &mut Vec<T>, more: &mut u64, most: usize, item: T) {
    if list.len() < most {
        list.push(item);
    } else {
        *more += 1;
    }
}
